#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "temporary_folder.hpp"

namespace pharos::cluster::tasks {
namespace {

using namespace std::chrono_literals;

enum class Colour : std::uint8_t { kRed = 1, kGreen = 2 };
struct Point {
  int x = 0;
  double y = 0;
  Colour colour{};
  friend bool operator==(const Point&, const Point&) = default;
};

int add(int a, int b) {
  return a + b;
}
double half(double value) {
  return value / 2;
}
std::string twice(const std::string& text) {
  return text + text;
}
std::string taken(std::string text) {
  return text + "!";
}
Point mirrored(const Point& point) {
  return {-point.x, -point.y, point.colour};
}
Colour other(Colour colour) {
  return colour == Colour::kRed ? Colour::kGreen : Colour::kRed;
}
bool negated(bool value) {
  return !value;
}
void nothing() {}
int process() {
  return ::getpid();
}
/// Writes its process number to a file, and never ends by itself.
void run_for_ever(const std::string& file) {
  std::ofstream{file} << ::getpid() << std::endl;
  for (;;) ::usleep(1000);
}
int number_in(const std::string& file) {
  int number = 0;
  std::ifstream{file} >> number;
  return number;
}

/// Returns whether `count` tasks run at the same time.
bool meets(const std::string& folder, int number, int count) {
  std::ofstream{folder + "/" + std::to_string(number)} << "here";
  const auto all_are_here = [&] {
    for (int i = 0; i < count; ++i) {
      if (!std::filesystem::exists(folder + "/" + std::to_string(i))) return false;
    }
    return true;
  };
  return eventually(all_are_here, std::chrono::seconds{20});
}
std::int64_t count_up(std::int64_t value) noexcept {
  return value + 1;
}
namespace other_name {
int add(int a, int b) {
  return a + b + 1000;
}
}  // namespace other_name

using TasksTest = ClusterTest;

TEST_F(TasksTest, ATaskTakesAndGivesEveryKindOfPlainValue) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&add>(1, 2).get(), 3);
  EXPECT_EQ(runtime.submit<&half>(5.0).get(), 2.5);
  EXPECT_EQ(runtime.submit<&twice>("ab").get(), "abab");
  EXPECT_EQ(runtime.submit<&twice>(std::string{"a\0b", 3}).get(), (std::string{"a\0ba\0b", 6}));
  EXPECT_EQ(runtime.submit<&twice>("").get(), "");
  EXPECT_EQ(runtime.submit<&taken>("text").get(), "text!");
  EXPECT_EQ(runtime.submit<&mirrored>(Point{1, 2, Colour::kGreen}).get(), (Point{-1, -2, Colour::kGreen}));
  EXPECT_EQ(runtime.submit<&other>(Colour::kRed).get(), Colour::kGreen);
  EXPECT_FALSE(runtime.submit<&negated>(true).get());
  EXPECT_EQ(runtime.submit<&count_up>(std::int64_t{1} << 40).get(), (std::int64_t{1} << 40) + 1);
  runtime.submit<&nothing>().get();
}

TEST_F(TasksTest, AnArgumentOfAnotherTypeIsConvertedToTheParameters) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&half>(3).get(), 1.5);
  EXPECT_EQ(runtime.submit<&add>(short{1}, 'A').get(), 66);
}

TEST_F(TasksTest, FunctionsOfOneNameInTwoNamespacesAreTwo) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&other_name::add>(1, 2).get(), 1003);
  EXPECT_EQ(runtime.submit<&add>(1, 2).get(), 3);
}

TEST_F(TasksTest, ATaskRunsInAnotherProcess) {
  Runtime runtime;
  EXPECT_NE(runtime.submit<&process>().get(), ::getpid());
}

TEST_F(TasksTest, NeverMoreWorkersRunTasksThanTheOptionsGiveCpus) {
  Runtime runtime{RuntimeOptions{.address = {}, .token_file = {}, .listen = {}, .cpus = 2}};
  std::vector<Ref<int>> results;
  for (int i = 0; i < 5000; ++i) results.push_back(runtime.submit<&process>());
  std::vector<int> processes;
  for (const auto& result : results) processes.push_back(result.get());
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  EXPECT_LE(processes.size(), 2u);
}

TEST_F(TasksTest, AHundredThousandTasksAllGiveTheirResults) {
  Runtime runtime;
  std::vector<Ref<int>> results;
  for (int i = 0; i < 100'000; ++i) results.push_back(runtime.submit<&add>(i, 1));
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(results[static_cast<std::size_t>(i)].get(), i + 1);
}

TEST_F(TasksTest, ManyThreadsSubmitAtOnce) {
  Runtime runtime;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) wrong += runtime.submit<&add>(t, i).get() != t + i;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(TasksTest, LongOnesBehindShortOnesRunAtTheSameTime) {
  Runtime runtime{{.cpus = 4}};
  for (int i = 0; i < 100; ++i) runtime.submit<&nothing>().get();  // the caller then takes its worker for quick
  std::vector<Ref<bool>> all;
  const std::filesystem::path folder = census().folder() / "met";
  std::filesystem::create_directory(folder);
  for (int i = 0; i < 4; ++i) all.push_back(runtime.submit<&meets>(folder, i, 4));
  for (const auto& each : all) EXPECT_TRUE(each.get());
  std::filesystem::remove_all(folder);
}

TEST_F(TasksTest, TasksGoOnAfterTheirWorkersWereGivenBack) {
  Runtime runtime;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(runtime.submit<&add>(round, 1).get(), round + 1);
    // Idle workers are given back after 200 ms, so the test waits longer.
    std::this_thread::sleep_for(std::chrono::milliseconds{350});
  }
}

// ---- Tasks that are cancelled by force

TEST_F(TasksTest, ATaskThatDoesNotEndIsEndedByForce) {
  Runtime runtime{RuntimeOptions{.cpus = 1}};
  const TemporaryFolder folder;
  const std::string file = folder.path() / "number";
  const auto endless = runtime.submit<&run_for_ever>({.max_retries = 5}, file);
  ASSERT_TRUE(eventually([&] { return number_in(file) != 0; }));
  const int number = number_in(file);
  std::vector<Ref<int>> behind;
  for (int i = 0; i < 3; ++i) behind.push_back(runtime.submit<&add>(i, 1));
  endless.cancel();
  EXPECT_FALSE(endless.try_get(Deadline::in(100ms)));
  EXPECT_EQ(::kill(number, 0), 0);
  endless.cancel({.force = true});
  EXPECT_SAYS(message_of<Cancelled>([&] { endless.get(Deadline::in(20s)); }), "run_for_ever");
  EXPECT_TRUE(eventually([&] { return ::kill(number, 0) != 0; }));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(behind[static_cast<std::size_t>(i)].get(Deadline::in(20s)), i + 1);
}

TEST_F(TasksTest, ByForceATaskThatHasNotBegunIsCancelledAndNothingElse) {
  Runtime runtime{RuntimeOptions{.cpus = 1}};
  const TemporaryFolder folder;
  const std::string file = folder.path() / "number";
  const auto endless = runtime.submit<&run_for_ever>(file);
  ASSERT_TRUE(eventually([&] { return number_in(file) != 0; }));
  const auto waits = runtime.submit<&add>(1, 2);
  waits.cancel({.force = true});
  message_of<Cancelled>([&] { waits.get(Deadline::in(20s)); });
  EXPECT_FALSE(endless.try_get(Deadline::in(300ms)));
  EXPECT_EQ(::kill(number_in(file), 0), 0);
  endless.cancel({.force = true});
  message_of<Cancelled>([&] { endless.get(Deadline::in(20s)); });
  const auto there = runtime.submit<&add>(1, 2);
  EXPECT_EQ(there.get(Deadline::in(20s)), 3);
  there.cancel({.force = true});
  EXPECT_EQ(there.get(), 3);
}

}  // namespace
}  // namespace pharos::cluster::tasks
