// Ranks that are killed while they save, at each place in the code that says so and at random instants, and disks that
// are full at each point: what is loaded then is a whole checkpoint, and no older than the last that was finished.

#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include <pharos/base/failpoint.hpp>

#include "plain_model.hpp"
#include "ranks.hpp"
#include "seed.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Action = FailpointOrder::Action;

constexpr std::uint32_t kRanks = 3;
constexpr std::uint64_t kSteps = 6;

/// What a rank has come to, in memory that children of this process share.
struct Progress {
  std::atomic<std::uint64_t> finished;  ///< the last step that all of it is on disk of
  std::atomic<std::uint64_t> begun;
};
class SharedProgress {
 public:
  SharedProgress() : memory_{*Mapping::of(-1, sizeof(Progress))} {}
  Progress* operator->() const { return reinterpret_cast<Progress*>(memory_.memory()); }

 private:
  const Mapping memory_;
};

/// Saves some steps, from that which was saved last.
void train(Communicator& ranks, const CheckpointOptions& options, const SharedProgress& progress) {
  Checkpoints checkpoints{ranks, options};
  PlainModel model{ranks.rank(), ranks.size()};
  const auto moment = checkpoints.load(model.state());
  const std::uint64_t first = moment ? moment->step : 0;
  if (moment) model.expect(first);
  for (std::uint64_t step = first + 1; step <= first + kSteps; ++step) {
    model.set(step);
    progress->begun = step;
    checkpoints.save(model.state(), {.step = step});
    if (step % 2 == 0) {
      checkpoints.finish();
      progress->finished = step;
    }
  }
}

/// Another training finds what is there.
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
  // Nothing is left of what was interrupted.
  std::size_t folders = 0;
  for (const auto& each : fs::directory_iterator{options.folder}) folders += each.is_directory() ? 1 : 0;
  EXPECT_EQ(folders, checkpoints_in(options.folder).size());
}

/// Ranks that train; the others than the victim end when it has died.
template <class Before>
void run_with_victim(std::uint32_t victim, const CheckpointOptions& options, const SharedProgress& progress,
                     const Before& before_victim) {
  const Join join = join_memory(kRanks, 10s);
  run_children(
      kRanks,
      [&](std::uint32_t rank) {
        if (rank == victim) before_victim();
        try {
          auto backend = join(rank);
          if (!backend) throw_error(backend.error());
          Communicator ranks{std::make_shared<detail::Core>(*std::move(backend), CommunicatorOptions{.timeout = 10s})};
          train(ranks, options, progress);
        } catch (const Exception& e) {
          // The others: of the victim's death, or of a part that never came.
          EXPECT_NE(rank, victim) << e.what();
        }
      },
      {victim});
}

CheckpointOptions options_in(const fs::path& folder) {
  return {.folder = folder, .keep_last = 2, .timeout = 300ms};
}

TEST(InterruptedSave, LeavesAWholeCheckpointWhereverARankIsKilled) {
  const Failpoint passes[] = {Failpoint::kStateCopied, Failpoint::kSaveBegun,  Failpoint::kSaveWritten,
                              Failpoint::kSaveSaid,    Failpoint::kSavesThere, Failpoint::kManifestWritten,
                              Failpoint::kOldGoes};
  for (const Failpoint at : passes) {
    const bool is_of_first =
        at == Failpoint::kSavesThere || at == Failpoint::kManifestWritten || at == Failpoint::kOldGoes;
    for (const std::uint32_t victim : {0U, 1U}) {
      if (victim != 0 && is_of_first) continue;
      for (const std::uint32_t passed : {0U, 3U}) {
        SCOPED_TRACE(std::string{name_of(at)} + " of rank " + std::to_string(victim) + " after " +
                     std::to_string(passed));
        const TemporaryFolder folder;
        const SharedProgress progress;
        run_with_victim(victim, options_in(folder.path()), progress, [&] {
          order_failpoint({at, Action::kKill, passed});
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
  const char* const asked = std::getenv("PHAROS_TEST_ROUNDS");
  const int rounds = asked == nullptr ? 50 : std::atoi(asked);
  const TemporaryFolder folder;
  const SharedProgress progress;
  for (int round = 0; round < rounds; ++round) {
    const auto victim = static_cast<std::uint32_t>(random() % kRanks);
    const auto after = std::chrono::microseconds{random() % 40'000};
    SCOPED_TRACE("round " + std::to_string(round) + ": rank " + std::to_string(victim) + " after " +
                 std::to_string(after.count()) + " us");
    run_with_victim(victim, options_in(folder.path()), progress, [&] {
      std::thread{[after] {
        std::this_thread::sleep_for(after);
        ::raise(SIGKILL);
      }}.detach();
    });
    expect_whole(options_in(folder.path()), progress);
    if (testing::Test::HasFailure()) return;
  }
}

/// A disk of its own.
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
  /// All but so much of it.
  void fill(std::uint64_t left) const {
    const fs::path filler = at_ / "filler";
    fs::remove(filler);
    const std::uint64_t room = fs::space(at_).available;
    std::ofstream file{filler, std::ios::binary};
    file << std::string(room > left ? room - left : 0, 'x');
  }
  void empty() const { fs::remove(at_ / "filler"); }

 private:
  fs::path at_;
  bool is_there_ = false;
};

TEST(InterruptedSave, LeavesTheOlderOneWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  const SmallDisk disk{folder.path() / "disk"};
  if (!disk.is_there()) GTEST_SKIP() << "mounting a tmpfs needs root";
  const CheckpointOptions options{.folder = folder.path() / "disk" / "run", .keep_last = 1, .timeout = 2s};
  std::uint64_t step = 1;
  int failed = 0;
  Checkpoints checkpoints{Communicator::alone(), options};
  PlainModel model{0, 1, step, 40};  // 80 KiB
  checkpoints.save(model.state(), {.step = step});
  checkpoints.finish();
  std::uint64_t have = step;
  for (std::uint64_t left = 0; left < 50 * 4096; left += 4096) {
    SCOPED_TRACE(std::to_string(left) + " bytes left");
    disk.fill(left);
    model.set(++step);
    checkpoints.save(model.state(), {.step = step});
    try {
      checkpoints.finish();
      have = step;
    } catch (const Exception& e) {
      EXPECT_NE(std::string{e.what()}.find("No space left on device"), std::string::npos) << e.what();
      ++failed;
    }
    PlainModel loaded{0, 1, 0, 40};
    ASSERT_EQ(checkpoints.load(loaded.state())->step, have);
    loaded.expect(have);
  }
  EXPECT_GT(failed, 10);
  EXPECT_EQ(have, step) << "there is room at the end";
  disk.empty();
}

}  // namespace
}  // namespace pharos::ml
