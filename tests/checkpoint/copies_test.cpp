// save() returns early: copies of the state lie in the object store while a thread writes them.

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "plain_model.hpp"
#include "rank_threads.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;
using cluster::eventually;

constexpr std::int64_t kFactor = 4096;  // 4.0 MiB on each of two ranks

/// Two ranks. When both have begun, the second rank uses another folder, so the first rank's thread waits for the
/// second rank's parts until the test moves them.
class CopiesTest : public cluster::ClusterTest {
 protected:
  CopiesTest() {
    fs::create_directories(folder());
    fs::create_directory_symlink(folder(), elsewhere());
  }
  void go_elsewhere(const Communicator& ranks) const {
    if (ranks.rank() == 0) return;
    fs::remove(elsewhere());
    fs::create_directory(elsewhere());
  }
  fs::path folder() const { return folder_.path() / "run"; }
  fs::path elsewhere() const { return folder_.path() / "elsewhere"; }
  CheckpointOptions options(const Communicator& ranks, Runtime& runtime) const {
    if (ranks.rank() != 0) return {.folder = elsewhere()};
    return {.folder = folder(), .runtime = &runtime};
  }
  void bring_part_of(std::uint64_t step) const {
    const auto of_step = [step](const fs::path& in) {
      for (const auto& each : fs::directory_iterator{in}) {
        const std::string name = each.path().filename().string();
        if (name.find("000" + std::to_string(step) + "-") != std::string::npos) return each.path();
      }
      return fs::path{};
    };
    ASSERT_TRUE(eventually([&] { return !of_step(folder()).empty(); }));
    ASSERT_TRUE(eventually([&] { return fs::exists(of_step(elsewhere()) / "rank-00001.json"); }));
    for (const char* const file : {"rank-00001.safetensors", "rank-00001.json"}) {
      fs::rename(of_step(elsewhere()) / file, of_step(folder()) / file);
    }
  }
  std::size_t begun() const {
    const auto each = fs::directory_iterator{folder()};
    return static_cast<std::size_t>(std::distance(begin(each), end(each)));
  }
  void expect_saved(std::uint64_t step) const {
    Checkpoints checkpoints{Communicator::alone(), {.folder = folder()}};
    PlainModel model{0, 1, 0, kFactor};
    ASSERT_EQ(checkpoints.load(model.state())->step, step);
    model.expect(step);
  }

  const TemporaryFolder folder_;
};

/// Returns how many copies are in the object store, according to `pharos memory`.
std::size_t copies_in(const Runtime& runtime) {
  std::FILE* const out = ::popen((PHAROS_EXECUTABLE " memory --address " + runtime.address() + " 2>&1").c_str(), "re");
  std::string text;
  char piece[4096];
  while (const std::size_t n = std::fread(piece, 1, sizeof piece, out)) text.append(piece, n);
  EXPECT_EQ(::pclose(out), 0) << text;
  std::istringstream lines{text};
  std::size_t copies = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("save.cpp:") == std::string::npos) continue;
    EXPECT_SAYS(line, "4.0 MiB");
    EXPECT_SAYS(line, "being written");
    ++copies;
  }
  return copies;
}

TEST_F(CopiesTest, LieInTheStoreWhileTheTrainingGoesOn) {
  Runtime runtime{{.object_store = 64_MiB}};
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options(ranks, runtime)};
    go_elsewhere(ranks);
    PlainModel model{ranks.rank(), 2, 1, kFactor};
    const auto save = [&](std::uint64_t step) {
      model.set(step);
      checkpoints.save(model.state(), {.step = step});
    };
    const bool is_first = ranks.rank() == 0;
    save(1);
    if (is_first) {
      EXPECT_EQ(copies_in(runtime), 1U);
    }
    save(2);
    // save() has returned twice: the first save is not a checkpoint yet, and the second is not begun.
    if (is_first) {
      EXPECT_EQ(copies_in(runtime), 2U);
      EXPECT_TRUE(eventually([&] { return begun() == 1; }));
      EXPECT_TRUE(checkpoints_in(folder()).empty());
      bring_part_of(1);
      bring_part_of(2);
    }
    checkpoints.finish();
    // The next copies reuse the memory.
    save(3);
    if (is_first) {
      EXPECT_EQ(copies_in(runtime), 2U);
      bring_part_of(3);
    }
    checkpoints.finish();
  });
  EXPECT_TRUE(eventually([&] { return copies_in(runtime) == 0; }));
  expect_saved(3);
}

TEST_F(CopiesTest, LieInMemoryOfTheProcessWhenTheStoreIsFull) {
  Runtime runtime{{.object_store = 64_MiB, .spill_folder = "none"}};
  std::vector<Writable<std::byte>> others;
  const auto fill = [&] {
    for (;;) others.push_back(runtime.create_bytes(std::size_t{1} << 20));
  };
  EXPECT_THROW(fill(), Exhausted);
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options(ranks, runtime)};
    go_elsewhere(ranks);
    PlainModel model{ranks.rank(), 2, 1, kFactor};
    checkpoints.save(model.state(), {.step = 1});
    model.set(2);
    if (ranks.rank() == 0) {
      EXPECT_EQ(copies_in(runtime), 0U);
      bring_part_of(1);
    }
    checkpoints.finish();
  });
  expect_saved(1);
}

}  // namespace
}  // namespace pharos::ml
