// Tests of the commands `pharos memory`, `pharos list` and `pharos summary`.

#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::memory {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class Keeper {
 public:
  void keep(const std::vector<Ref<Bytes>>& refs) { refs_ = refs; }
  void look_at(const Bytes& bytes) { view_ = bytes; }
  static void wait_for(const std::string& file) {
    while (!std::filesystem::exists(file)) std::this_thread::sleep_for(1ms);
  }
  Bytes make(std::size_t size) { return Bytes{std::vector<std::byte>(size)}; }

 private:
  std::vector<Ref<Bytes>> refs_;
  Bytes view_;
};

Bytes block(std::size_t size) {
  return Bytes{std::vector<std::byte>(size)};
}

struct Said {
  int status;
  std::vector<std::string> lines;

  /// Returns the first line that has all of `parts`; empty if there is none.
  std::string line_with(const std::vector<std::string>& parts) const {
    for (const std::string& line : lines) {
      bool all = true;
      for (const std::string& part : parts) all = all && line.find(part) != std::string::npos;
      if (all) return line;
    }
    return {};
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines) all += line + '\n';
    return all;
  }
};

Said run(const std::string& command) {
  std::FILE* const out = ::popen((PHAROS_EXECUTABLE " " + command + " 2>&1").c_str(), "re");
  std::string text;
  char piece[4096];
  while (const std::size_t n = std::fread(piece, 1, sizeof piece, out)) text.append(piece, n);
  const int status = ::pclose(out);
  Said said{WIFEXITED(status) ? WEXITSTATUS(status) : -1, {}};
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) said.lines.push_back(line);
  return said;
}

Said run_memory(const std::string& arguments) {
  return run("memory " + arguments);
}

class MemoryTest : public ClusterTest {};

TEST_F(MemoryTest, SaysWhatThereIsWhoHasItAndWhereItComesFrom) {
  Runtime runtime{{.object_store = 64_MiB}};
  const std::string here = "--address " + runtime.address();
  EXPECT_SAYS(run_memory(here).text(), "empty");
  const auto keeper = runtime.spawn<Keeper>({.name = "weights"});
  const int line = __LINE__ + 1;
  auto kept = std::optional{runtime.put(block(5 * kMiB))};
  const auto looked_at = runtime.put(block(6 * kMiB));
  const auto mine = runtime.put(block(7 * kMiB));
  const auto made = keeper.call<&Keeper::make>(4 * kMiB);
  static_cast<void>(made.get());
  keeper.call<&Keeper::keep>(std::vector{*kept}).get();
  keeper.call<&Keeper::look_at>(looked_at).get();
  const auto half = runtime.create<float>(2, kMiB);
  kept.reset();

  const Said said = run_memory(here);
  EXPECT_EQ(said.status, 0) << said.text();
  EXPECT_NE(said.line_with({"Memory", "of 64 MiB"}), "") << said.text();
  EXPECT_NE(said.line_with({"Objects", "5"}), "") << said.text();
  const std::string at = "put at memory_test.cpp:" + std::to_string(line);
  EXPECT_NE(said.line_with({"5.0 MiB", "memory", "let go", "weights (pid ", at}), "") << said.text();
  EXPECT_NE(said.line_with({"6.0 MiB", "test_actors", "weights (pid ", "reads it"}), "") << said.text();
  EXPECT_NE(said.line_with({"7.0 MiB", "test_actors", "its owner"}), "") << said.text();
  EXPECT_NE(said.line_with({"4.0 MiB", "test_actors", "its owner", "result of ", "Keeper::make"}), "") << said.text();
  EXPECT_NE(said.line_with({"8.0 MiB", "being written", "created at memory_test.cpp:"}), "") << said.text();
}

TEST_F(MemoryTest, SaysWhatIsOnDisk) {
  Runtime runtime{{.object_store = 64_MiB}};
  std::vector<Ref<Bytes>> refs;
  for (int i = 0; i < 8; ++i) refs.push_back(runtime.put(block(16 * kMiB)));
  const Said said = run_memory("--address " + runtime.address());
  EXPECT_NE(said.line_with({"16.0 MiB", "disk", "test_actors"}), "") << said.text();
  EXPECT_EQ(said.line_with({"Disk     0"}), "") << said.text();
}

TEST_F(MemoryTest, ProgramsReadItAsJsonAndTheListHasTheSameObjects) {
  Runtime runtime{{.object_store = 64_MiB}};
  const auto kept = runtime.put(block(5 * kMiB));
  const std::string here = " --address " + runtime.address();
  const Said said = run_memory("--format json" + here);
  EXPECT_EQ(said.status, 0) << said.text();
  EXPECT_NE(said.line_with({"\"capacity_bytes\": 67108864", "\"objects\": 1"}), "") << said.text();
  EXPECT_NE(said.line_with({"\"bytes\": 5242888", "\"where\": \"memory\"", "\"owner\": \"test_actors\""}), "")
      << said.text();
  const Said listed = run("list objects --filter where=memory" + here);
  EXPECT_NE(listed.line_with({"5242888", "put at memory_test.cpp:"}), "") << listed.text();
  EXPECT_SAYS(run("list objects --filter where=disk" + here).text(), "no objects like that");
  const Said unknown = run_memory("--node 12" + here);
  EXPECT_EQ(unknown.status, 1);
  EXPECT_SAYS(unknown.text(), "there is no node 12");
}

TEST_F(MemoryTest, WorkersAndWhatTheyRunAreListedAndCounted) {
  Runtime runtime{{.cpus = 2}};
  const auto keeper = runtime.spawn<Keeper>({.name = "weights"});
  const std::string here = " --address " + runtime.address();
  const auto waits = keeper.call<&Keeper::wait_for>(census().folder() / "go");
  ASSERT_TRUE(eventually([&] { return !run("list tasks" + here).line_with({"Keeper::wait_for", "weights"}).empty(); }));
  const Said workers = run("list workers --format json" + here);
  EXPECT_NE(workers.line_with({"\"what\": \"weights\"", "\"runs\": \"", "Keeper::wait_for\", \"seconds\": "}), "")
      << workers.text();
  EXPECT_SAYS(run("list tasks --filter what=nobody" + here).text(), "no tasks like that");
  EXPECT_SAYS(run("list tasks --filter cat=1" + here).text(), "tasks have no \"cat\"");
  const auto kept = runtime.put(block(kMiB));
  const Said summary = run("summary" + here);
  EXPECT_EQ(summary.status, 0) << summary.text();
  EXPECT_NE(summary.line_with({"Keeper::wait_for", "1"}), "") << summary.text();
  EXPECT_NE(summary.line_with({"weights", "alive", "1"}), "") << summary.text();
  EXPECT_NE(summary.line_with({"put at memory_test.cpp:", "1", "1.0 MiB"}), "") << summary.text();
  EXPECT_NE(run("summary --format json" + here).line_with({"\"count\": 1, \"bytes\": 1048584"}), "");
  { const std::ofstream go{census().folder() / "go"}; }
  waits.get(Deadline::in(20s));
  std::filesystem::remove(census().folder() / "go");
}

TEST_F(MemoryTest, FindsTheOnlyClusterAndSaysWhenThereIsNone) {
  ::unsetenv("PHAROS_ADDRESS");
  const Said none = run_memory("");
  EXPECT_EQ(none.status, 1);
  EXPECT_SAYS(none.text(), "no cluster");
  const Runtime runtime;
  EXPECT_EQ(run_memory("").status, 0);
  const Said wrong = run_memory("--address 127.0.0.1:1");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_SAYS(wrong.text(), "token");
}

}  // namespace
}  // namespace pharos::cluster::memory
