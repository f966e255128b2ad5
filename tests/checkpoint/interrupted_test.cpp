// Ranks are killed while they save, at each failpoint and at random instants, and disks are full at each point. The
// checkpoint that is then loaded is whole, and no older than the last one that was finished.

#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include <pharos/base/failpoint.hpp>
#include <pharos/ml/checkpoint/failpoints.hpp>

#include "plain_model.hpp"
#include "ranks.hpp"
#include "says.hpp"
#include "seed.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Action = FailpointOrder::Action;

constexpr std::uint32_t kRanks = 3;
constexpr std::uint64_t kSteps = 6;

/// The progress of the ranks, in memory that the child processes share.
struct Progress {
  std::atomic<std::uint64_t> finished;  ///< the last step that is on disk completely
  std::atomic<std::uint64_t> begun;
  std::atomic<bool> is_saving[kRanks];  ///< that rank has begun a save and not finished it
};
class SharedProgress {
 public:
  SharedProgress() : memory_{*Mapping::of(-1, sizeof(Progress))} {}
  Progress* operator->() const { return reinterpret_cast<Progress*>(memory_.memory()); }

 private:
  const Mapping memory_;
};

/// Saves so many steps, beginning after the checkpoint that it loads.
void train(
    Communicator& ranks, const CheckpointOptions& options, const SharedProgress& progress, std::uint64_t steps,
    const std::function<void()>& at_first_save = [] {}) {
  Checkpoints checkpoints{ranks, options};
  PlainModel model{ranks.rank(), ranks.size()};
  const auto moment = checkpoints.load(model.state());
  const std::uint64_t first = moment ? moment->step : 0;
  if (moment) model.expect(first);
  std::atomic<bool>& is_saving = progress->is_saving[ranks.rank()];
  for (std::uint64_t step = first + 1; step - first <= steps; ++step) {
    model.set(step);
    progress->begun = step;
    is_saving = true;
    if (step == first + 1) at_first_save();
    checkpoints.save(model.state(), {.step = step});
    if (step % 2 == 0) {
      checkpoints.finish();
      progress->finished = step;
      is_saving = false;
    }
  }
}

/// Another training, on one rank or on all, loads a whole checkpoint.
void expect_whole(const CheckpointOptions& options, const SharedProgress& progress) {
  for (const std::uint32_t count : {1U, kRanks}) {
    run_processes(count, {}, [&](Communicator& ranks) {
      Checkpoints checkpoints{ranks, options};
      PlainModel model{ranks.rank(), count};
      const auto moment = checkpoints.load(model.state());
      if (!moment) {
        EXPECT_EQ(progress->finished, 0U);
        return;
      }
      EXPECT_GE(moment->step, progress->finished);
      EXPECT_LE(moment->step, progress->begun);
      model.expect(moment->step);
    });
  }
  // When that training saves, it also removes all remains of interrupted saves.
  run_processes(kRanks, {}, [&](Communicator& ranks) { train(ranks, options, progress, 2); });
  std::size_t folders = 0;
  for (const auto& each : fs::directory_iterator{options.folder}) folders += each.is_directory() ? 1 : 0;
  EXPECT_EQ(folders, checkpoints_in(options.folder).size());
}

/// Runs ranks that train. The other ranks end when the victim has died.
void run_with_victim(std::uint32_t victim, const Rank& body) {
  const Join join = join_memory(kRanks, 10s);
  run_children(
      kRanks,
      [&](std::uint32_t rank) {
        try {
          auto backend = join(rank);
          if (!backend) throw_error(backend.error());
          Communicator ranks{std::make_shared<detail::Core>(*std::move(backend), CommunicatorOptions{.timeout = 10s})};
          body(ranks);
        } catch (const Exception& e) {
          // The other ranks learn of the victim's death, or miss its part.
          EXPECT_NE(rank, victim) << e.what();
        }
      },
      {victim});
}

CheckpointOptions options_in(const fs::path& folder) {
  return {.folder = folder, .keep_last = 2, .timeout = 300ms};
}

TEST(InterruptedSave, LeavesAWholeCheckpointWhereverARankIsKilled) {
  const Failpoint passes[] = {failpoints::kStateCopied, failpoints::kSaveBegun,  failpoints::kSaveWritten,
                              failpoints::kSaveSaid,    failpoints::kSavesThere, failpoints::kManifestWritten,
                              failpoints::kOldRemoved};
  for (const Failpoint at : passes) {
    const bool is_of_first =
        at == failpoints::kSavesThere || at == failpoints::kManifestWritten || at == failpoints::kOldRemoved;
    for (const std::uint32_t victim : {0U, 1U}) {
      if (victim != 0 && is_of_first) continue;
      for (const std::uint32_t passed : {0U, 3U}) {
        SCOPED_TRACE(std::string{at.name()} + " of rank " + std::to_string(victim) + " after " +
                     std::to_string(passed));
        const TemporaryFolder folder;
        const SharedProgress progress;
        run_with_victim(victim, [&](Communicator& ranks) {
          if (ranks.rank() == victim) order_failpoint({at, Action::kKill, passed});
          train(ranks, options_in(folder.path()), progress, kSteps);
        });
        EXPECT_LT(progress->finished, kSteps) << "the victim did not come there";
        expect_whole(options_in(folder.path()), progress);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(InterruptedSave, LeavesAWholeCheckpointWheneverARankIsKilled) {
  std::mt19937 random{static_cast<unsigned>(seed_of_test())};
  const int wanted = rounds_of_test(50);  // interrupted saves
  const TemporaryFolder folder;
  const SharedProgress progress;
  int hits = 0;
  for (int round = 0; hits < wanted && round < 3 * wanted; ++round) {
    const auto victim = static_cast<std::uint32_t>(random() % kRanks);
    const auto after = std::chrono::microseconds{random() % 40'000};
    SCOPED_TRACE("round " + std::to_string(round) + ": rank " + std::to_string(victim) + " after " +
                 std::to_string(after.count()) + " us");
    run_with_victim(victim, [&](Communicator& ranks) {
      const auto be_killed = [&] {
        if (ranks.rank() != victim) return;
        std::thread{[after] {
          std::this_thread::sleep_for(after);
          ::raise(SIGKILL);
        }}.detach();
      };
      constexpr auto kForEver = std::numeric_limits<std::uint64_t>::max();
      train(ranks, options_in(folder.path()), progress, kForEver, be_killed);
    });
    hits += progress->is_saving[victim] ? 1 : 0;
    expect_whole(options_in(folder.path()), progress);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(hits, wanted) << "nothing was being saved when they died";
}

TEST(InterruptedSave, LosesNothingWhereATrainingGoesBack) {
  for (const Failpoint at : {failpoints::kSavesThere, failpoints::kManifestWritten, failpoints::kOldRemoved}) {
    SCOPED_TRACE(at.name());
    const TemporaryFolder folder;
    const SharedProgress progress;
    const auto run = [&](const Rank& body, const std::vector<std::uint32_t>& may_die = {}) {
      run_processes(1, {}, body, may_die);
    };
    const auto save = [&](Communicator& ranks, std::size_t keep_last, std::uint64_t step) {
      Checkpoints checkpoints{ranks, {.folder = folder.path(), .keep_last = keep_last}};
      PlainModel model{0, 1, step};
      checkpoints.save(model.state(), {.step = step});
      checkpoints.finish();
    };
    const auto expect_newest = [&](Communicator& ranks, std::uint64_t step) {
      Checkpoints checkpoints{ranks, {.folder = folder.path(), .keep_last = 1}};
      PlainModel model{0, 1};
      const auto moment = checkpoints.load(model.state());
      ASSERT_TRUE(moment);
      EXPECT_EQ(moment->step, step);
      model.expect(step);
      for (const SavedCheckpoint& each : checkpoints_in(folder.path())) verify_checkpoint(each.path);
    };
    run([&](Communicator& ranks) {
      save(ranks, 2, 6);
      save(ranks, 2, 9);
    });
    run(
        [&](Communicator& ranks) {
          order_failpoint({at, Action::kKill, 0});
          save(ranks, 1, 7);
          progress->finished = 7;
        },
        {0});
    EXPECT_EQ(progress->finished, 0U) << "the rank did not come there";
    run([&](Communicator& ranks) {
      expect_newest(ranks, at == failpoints::kOldRemoved ? 7 : 9);
      save(ranks, 1, 8);
      expect_newest(ranks, 8);
      EXPECT_EQ(checkpoints_in(folder.path()).size(), 1U);
    });
  }
}

TEST(InterruptedSave, WhatItHadToRemoveIsRemovedByWhoTakesOver) {
  const TemporaryFolder folder;
  const SharedProgress progress;
  CheckpointOptions options{.folder = folder.path(), .keep_last = 2};
  run_processes(1, {},
                [&](Communicator& ranks) {
                  Checkpoints checkpoints{ranks, options};
                  for (std::uint64_t step = 1; step <= 3; ++step) {
                    PlainModel model{0, 1, step};
                    if (step == 3) order_failpoint({failpoints::kOldRemoved, Action::kKill, 0});
                    checkpoints.save(model.state(), {.step = step});
                    checkpoints.finish();
                    progress->finished = step;
                  }
                },
                {0});
  EXPECT_EQ(progress->finished, 2U) << "it did not die before it removed the first";
  for (const bool takes_over : {false, true}) {
    options.takes_over = takes_over;
    run_processes(1, {}, [&](Communicator& ranks) {
      Checkpoints checkpoints{ranks, options};
      PlainModel model{0, 1};
      const auto moment = checkpoints.load(model.state());
      ASSERT_TRUE(moment);
      EXPECT_EQ(moment->step, 3U);
      EXPECT_EQ(checkpoints_in(folder.path()).size(), takes_over ? 2U : 3U);
    });
  }
}

constexpr std::uint64_t kPage = 4096;

/// A small file system that is mounted for the test.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& at) : at_{at} {
    fs::create_directories(at);
    is_there_ = ::mount("none", at.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  ~SmallDisk() {
    if (is_there_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  SmallDisk(SmallDisk&&) = delete;
  bool is_there() const { return is_there_; }
  /// Fills the disk until only `left` bytes remain.
  void fill(std::uint64_t left) const {
    const fs::path filler = at_ / "filler";
    fs::remove(filler);
    const std::uint64_t room = fs::space(at_).available;
    std::ofstream file{filler, std::ios::binary};
    file << std::string(room > left ? room - left : 0, 'x') << std::flush;
    ASSERT_EQ(fs::space(at_).available, left);
  }
  void empty() const { fs::remove(at_ / "filler"); }

 private:
  fs::path at_;
  bool is_there_ = false;
};

/// The least room that a checkpoint takes while it is written: its files, and a note of each rank about its part.
std::uint64_t room_for(const SavedCheckpoint& checkpoint) {
  std::uint64_t pages = checkpoint.ranks;
  for (const auto& each : fs::directory_iterator{checkpoint.path}) pages += (each.file_size() + kPage - 1) / kPage;
  return pages * kPage;
}

TEST(InterruptedSave, LeavesTheOlderOneWhereverTheDiskIsFull) {
  constexpr std::uint64_t kPoints = 50;
  constexpr std::int64_t kFactor = 120;  // 120 KiB on each of two ranks
  const TemporaryFolder folder;
  const SmallDisk disk{folder.path() / "disk"};
  if (!disk.is_there()) GTEST_SKIP() << "mounting a tmpfs needs root";
  const CheckpointOptions options{.folder = folder.path() / "disk" / "run", .keep_last = 1};
  std::atomic<std::uint64_t> failed = 0;
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options};
    PlainModel model{ranks.rank(), 2, 1, kFactor};
    PlainModel loaded{ranks.rank(), 2, 0, kFactor};
    checkpoints.save(model.state(), {.step = 1});
    checkpoints.finish();
    const std::uint64_t room = room_for(checkpoints_in(options.folder).at(0));
    ASSERT_GT(room, kPoints * kPage) << "each of them is another";
    for (std::uint64_t point = 0; point < kPoints; ++point) {
      const std::uint64_t left = (room - kPage) / kPage * point / (kPoints - 1) * kPage;
      SCOPED_TRACE(std::to_string(left) + " bytes left");
      if (ranks.rank() == 0) disk.fill(left);
      ranks.barrier();
      model.set(2 + point);
      checkpoints.save(model.state(), {.step = 2 + point});
      // A rank that has failed removes its part to make room for its message. The other rank may use that room first.
      const std::string why = message_of<Exhausted>([&] { checkpoints.finish(); });
      EXPECT_TRUE(why.find("No space left on device") != std::string::npos ||
                  why.find("rank 1 could not write its part: there was no room to say why") != std::string::npos)
          << why;
      if (ranks.rank() == 0) ++failed;
      ASSERT_EQ(checkpoints.load(loaded.state())->step, 1U);
      loaded.expect(1);
      if (ranks.rank() == 0) {
        EXPECT_EQ(fs::space(options.folder).available, left) << "the save has left something";
      }
    }
    if (ranks.rank() == 0) disk.empty();
    ranks.barrier();
    model.set(100);
    checkpoints.save(model.state(), {.step = 100});
    checkpoints.finish();
    ASSERT_EQ(checkpoints.load(loaded.state())->step, 100U);
    loaded.expect(100);
  });
  EXPECT_EQ(failed, kPoints);
}

}  // namespace
}  // namespace pharos::ml
