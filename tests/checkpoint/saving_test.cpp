// Ranks save together: either all parts become a checkpoint, or nothing does, whatever their disks do and whichever
// other processes use the folder.

#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <pharos/base/failpoint.hpp>
#include <pharos/ml/checkpoint/failpoints.hpp>

#include "checkpoint_folder.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

// ---- Errors while a checkpoint is written

struct Refusal {
  const char* name;
  std::function<void()> begin;  ///< runs in the process of the rank that cannot write
  std::function<void()> end;
  ErrorCode code;
  const char* says;
};
void limit_files_to(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}
const std::vector<Refusal> kRefusals{
    {"full",
     [] {
       order_failpoint({failpoints::kSaveBegun, FailpointOrder::Action::kFailOnce, 0});
     },
     [] { order_failpoint({}); }, ErrorCode::kExhausted, "No space left on device"},
    {"file_too_large", [] { limit_files_to(4096); }, [] { limit_files_to(RLIM_INFINITY); },
     ErrorCode::kFailedPrecondition, "File too large"},
};

class Refused : public CheckpointFolder, public testing::WithParamInterface<std::tuple<Refusal, std::uint32_t>> {};

// The error is not reported as a death or as a rank that cannot be reached.
TEST_P(Refused, ByTheDiskIsSaidAndTheTrainingGoesOn) {
  const auto& [refusal, victim] = GetParam();
  constexpr std::int64_t kFactor = 20;  // 20 KiB for each rank
  run_processes(2, {}, [&, &how = refusal, where = victim](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2, 1, kFactor};
    checkpoints.save(model.state(), {.step = 1});
    checkpoints.finish();
    if (ranks.rank() == where) how.begin();
    checkpoints.save(model.state(), {.step = 2});
    std::optional<Error> failed;
    try {
      checkpoints.finish();
    } catch (const Exception& e) {
      failed = e.error();
    }
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->code(), how.code) << failed->to_string();
    EXPECT_SAYS(failed->message(), how.says);
    EXPECT_SAYS(failed->message(), "rank-0000" + std::to_string(where) + ".safetensors");
    EXPECT_SAYS(failed->remedy(), "Make room");
    if (ranks.rank() == where || ranks.rank() == 0) {
      ASSERT_TRUE(checkpoints.last_error());
      EXPECT_EQ(checkpoints.last_error()->code(), how.code);
    } else {
      EXPECT_FALSE(checkpoints.last_error());
    }
    if (ranks.rank() == 0) {
      EXPECT_EQ(folders(), 1U) << "it takes no room";
    }
    ranks.barrier();
    if (ranks.rank() == where) how.end();
    model.set(3);
    checkpoints.save(model.state(), {.step = 3});
    checkpoints.finish();
    EXPECT_FALSE(checkpoints.last_error());
  });
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{3, 1}));
}

INSTANTIATE_TEST_SUITE_P(Disk, Refused, testing::Combine(testing::ValuesIn(kRefusals), testing::Values(0U, 1U)),
                         [](const auto& chosen) {
                           return std::string{std::get<0>(chosen.param).name} + "_at_rank_" +
                                  std::to_string(std::get<1>(chosen.param));
                         });

/// A missing part does not mean that the rank is dead: it may still be writing.
TEST_F(CheckpointFolder, PartThatNeverComesIsNamed) {
  run_threads(2, {}, [&](Communicator& ranks) {
    CheckpointOptions short_time = options_of(ranks);
    short_time.timeout = 200ms;
    Checkpoints checkpoints{ranks, short_time};
    go_elsewhere(ranks);
    PlainModel model{ranks.rank(), 2};
    checkpoints.save(model.state(), {.step = 1});
    const std::string why = message_of<FailedPrecondition>([&] { checkpoints.finish(); });
    EXPECT_SAYS(why, "rank 1 has not written its part in 0.2 s");
    EXPECT_SAYS(why, "set CheckpointOptions::timeout higher");
  });
  EXPECT_TRUE(saved().empty());
}

class SlowDisk : public CheckpointFolder {
 protected:
  /// A save may take longer than the other ranks wait in a collective.
  CheckpointOptions slow_options_of(const Communicator& ranks) const {
    CheckpointOptions slow = options_of(ranks);
    slow.timeout = 3 * kQuick.timeout;
    return slow;
  }
};

/// Rank 0 waits for a part that never comes, and has no room for more saves. Rank 1 has nothing to wait for.
TEST_F(SlowDisk, OfOneRankIsNoDeath) {
  run_threads(2, kQuick, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, slow_options_of(ranks)};
    go_elsewhere(ranks);
    PlainModel model{ranks.rank(), 2};
    Duration longest{};
    for (const std::uint64_t step : {1, 2, 3, 4}) {
      checkpoints.save(model.state(), {.step = step});
      longest = std::max(longest, checkpoints.last_stall());
    }
    EXPECT_GT(longest, kQuick.timeout);
  });
}

/// Rank 0 waits for room as above. Rank 1 also waits, although it cannot encode its state.
TEST_F(SlowDisk, OfOneRankLeavesNobodyWaitingForARankWhoseCodecThrows) {
  run_threads(2, kQuick, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, slow_options_of(ranks)};
    go_elsewhere(ranks);
    PlainModel model{ranks.rank(), 2};
    for (const std::uint64_t step : {1, 2}) checkpoints.save(model.state(), {.step = step});
    State state = model.state();
    if (ranks.rank() == 1) {
      const auto throws = []() -> std::vector<std::byte> { throw std::runtime_error{"this value has no bytes"}; };
      state.add(State::Value{.name = "bad", .is_of_rank = true, .save = throws});
      EXPECT_SAYS(message_of<std::runtime_error>([&] { checkpoints.save(state, {.step = 3}); }), "has no bytes");
    } else {
      checkpoints.save(state, {.step = 3});
      EXPECT_GT(checkpoints.last_stall(), kQuick.timeout) << "there was room";
    }
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { checkpoints.finish(); }), "rank 1 could not write its part");
  });
  EXPECT_TRUE(saved().empty());
}

// ---- The part that a rank has announced, and the part that is there

TEST_F(CheckpointFolder, PartThatIsGoneOrShorterIsInNoManifest) {
  for (const bool is_gone : {true, false}) {
    SCOPED_TRACE(is_gone);
    fs::remove_all(options().folder);
    fs::remove_all(elsewhere());
    run_threads(2, {}, [&](Communicator& ranks) {
      Checkpoints checkpoints{ranks, options_of(ranks)};
      go_elsewhere(ranks);
      PlainModel model{ranks.rank(), 2};
      checkpoints.save(model.state(), {.step = 1});
      if (ranks.rank() == 0) {
        if (!is_gone) write(begun(options().folder, 1) / "rank-00001.safetensors", "short");
        bring_from_elsewhere(1, {"rank-00001.json"});
      }
      const std::string why = message_of<FailedPrecondition>([&] { checkpoints.finish(); });
      EXPECT_SAYS(why, "rank 1 has written ");
      EXPECT_SAYS(why, is_gone ? "where there are none: No such file" : "where there are 5");
    });
    EXPECT_TRUE(saved().empty());
  }
}

/// Rank 1 fails after rank 0 may have read that rank 1's part is there.
TEST_F(CheckpointFolder, PartThatWasSaidStays) {
  constexpr std::uint64_t kSteps = 30;
  run_processes(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options(kSteps)};
    PlainModel model{ranks.rank(), 2};
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      if (ranks.rank() == 1) order_failpoint({failpoints::kSaveSaid, FailpointOrder::Action::kFailOnce, 0});
      checkpoints.save(model.state(), {.step = step});
      try {
        checkpoints.finish();
      } catch (const FailedPrecondition& e) {
        EXPECT_SAYS(e.what(), "Input/output error");
      }
    }
  });
  for (const SavedCheckpoint& each : saved()) verify_checkpoint(each.path);
  EXPECT_EQ(folders(), saved().size());
}

/// A rank that cannot make the folder cannot leave a message there either. The other ranks learn of it when they meet.
TEST_F(CheckpointFolder, RankThatCannotMakeTheFolderIsNotWaitedFor) {
  run_threads(2, {}, [&](Communicator& ranks) {
    CheckpointOptions own = options_of(ranks);
    own.timeout = 10s;
    Checkpoints checkpoints{ranks, own};
    if (ranks.rank() == 1) {
      fs::remove(elsewhere());
      write(elsewhere(), "no folder");
    }
    PlainModel model{ranks.rank(), 2};
    checkpoints.save(model.state(), {.step = 1});
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { checkpoints.finish(); }), "rank 1 could not write its part");
    ASSERT_TRUE(checkpoints.last_error());
    if (ranks.rank() == 1) {
      EXPECT_SAYS(checkpoints.last_error()->message(), "making " + elsewhere().string());
    } else {
      EXPECT_EQ(folders(), 0U);
    }
  });
}

TEST_F(CheckpointFolder, PartOfASaveThatFailedAtRank0IsRemoved) {
  const fs::path link = folder_.path() / "link";
  run_threads(2, {}, [&](Communicator& ranks) {
    CheckpointOptions own = options();
    own.timeout = 200ms;
    if (ranks.rank() == 0) {
      fs::create_directory(own.folder);
      fs::create_directory_symlink(own.folder, link);
      own.folder = link;
    }
    Checkpoints checkpoints{ranks, own};
    PlainModel model{ranks.rank(), 2};
    const auto save = [&](std::uint64_t step) {
      ranks.barrier();
      checkpoints.save(model.state(), {.step = step});
      checkpoints.finish();
    };
    if (ranks.rank() == 0) fs::remove(link);
    EXPECT_SAYS(message_of<NotFound>([&] { save(1); }), "making " + link.string());
    EXPECT_EQ(folders(), 1U);
    ranks.barrier();
    if (ranks.rank() == 0) fs::create_directory_symlink(options().folder, link);
    save(2);
    EXPECT_EQ(folders(), 1U);
  });
  EXPECT_EQ(steps(), std::vector<std::uint64_t>{2});
}

// ---- Ranks with different state

TEST_F(CheckpointFolder, IsOneThatAllRanksSee) {
  run_threads(3, {}, [&](Communicator& ranks) {
    CheckpointOptions own = options();
    if (ranks.rank() == 2) own.folder = elsewhere();
    fs::create_directories(own.folder);
    const std::string why = message_of<FailedPrecondition>([&] { Checkpoints{ranks, own}; });
    EXPECT_SAYS(why, "rank 2: this rank does not see a file that rank 0 has written to " + elsewhere().string());
    EXPECT_SAYS(why, "Give a folder on a disk that the machines of all ranks share");
  });
  EXPECT_TRUE(fs::is_empty(options().folder));
}

TEST_F(CheckpointFolder, HasSharedTensorsOfAllRanksInOneOrder) {
  std::vector<float> values(8);
  const auto slice = [&](const char* name) {
    return StateSlice{.name = name,
                      .dtype = DType::kF32,
                      .shape = {8},
                      .bytes = std::as_writable_bytes(std::span{values}),
                      .is_shared = true};
  };
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    State state;
    state.add(slice(ranks.rank() == 0 ? "x" : "y"));
    state.add(slice(ranks.rank() == 0 ? "y" : "x"));
    EXPECT_SAYS(message_of<InvalidArgument>([&] { checkpoints.save(state, {.step = 1}); }),
                "the shared tensors of rank 1 differ from those of rank 0, or were added in another order");
  });
  EXPECT_TRUE(saved().empty());
}

// ---- Other processes that use the folder

TEST_F(CheckpointFolder, LoadingRemovesNothingOfASaveThatIsUnderWay) {
  save(2, {1});
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options_of(ranks)};
    go_elsewhere(ranks);
    PlainModel model{ranks.rank(), 2};
    model.set(2);
    checkpoints.save(model.state(), {.step = 2});
    if (ranks.rank() == 0) {
      begun(options().folder, 2, "rank-00000.json");
      PlainModel other{0, 1};
      EXPECT_EQ(load(other)->step, 1U);
      bring_from_elsewhere(2, {"rank-00001.safetensors", "rank-00001.json"});
    }
    checkpoints.finish();
  });
  PlainModel model{0, 1};
  EXPECT_EQ(load(model)->step, 2U);
  model.expect(2);
}

TEST_F(CheckpointFolder, RemovedWhileItIsLoadedIsNoDamage) {
  save(2, {1, 2});
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options_of(ranks)};
    go_elsewhere(ranks);  // to a folder that does not have the checkpoint
    PlainModel model{ranks.rank(), 2};
    const std::string why = message_of<FailedPrecondition>([&] { checkpoints.load(model.state()); });
    EXPECT_SAYS(why, "is gone: another process has removed it");
    EXPECT_SAYS(why, "Load again");
  });
  EXPECT_TRUE(aside().empty());
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{2, 1}));
}

TEST_F(CheckpointFolder, FirstSaveRemovesWhatWasInterrupted) {
  save(2, {1});
  const fs::path left[] = {options().folder / "step-000000000002-0123abcd.begun",
                           options().folder / "step-000000000003-4567cdef.gone"};
  for (const fs::path& each : left) {
    fs::create_directory(each);
    write(each / "rank-00000.safetensors", "half");
  }
  PlainModel model{0, 1};
  EXPECT_EQ(load(model)->step, 1U);
  EXPECT_EQ(folders(), 3U);
  save(2, {4});
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{4, 1}));
  EXPECT_EQ(folders(), 2U);
}

/// A part that another rank has written before rank 0 looks for interrupted saves stays.
TEST_F(CheckpointFolder, FirstSaveKeepsWhatAnotherRankHasOfIt) {
  run_threads(2, {}, [&](Communicator& ranks) {
    CheckpointOptions own = options();
    own.timeout = 2s;
    Checkpoints checkpoints{ranks, own};
    PlainModel model{ranks.rank(), 2, 1};
    State state = model.state();
    const auto wait_for_the_other = [&]() -> std::vector<std::byte> {
      begun(options().folder, 1, "rank-00001.json");
      return {};
    };
    if (ranks.rank() == 0) state.add(State::Value{.name = "waits", .save = wait_for_the_other});
    checkpoints.save(state, {.step = 1});
    checkpoints.finish();
  });
  PlainModel model{0, 1};
  ASSERT_TRUE(load(model));
  model.expect(1);
}

/// A process that was replaced by another one wakes up.
TEST_F(CheckpointFolder, OneThatComesLateLeavesWhatOthersHaveSavedSince) {
  PlainModel model{0, 1};
  Checkpoints old{Communicator::alone(), options(1)};
  save(old, model, 10);
  Checkpoints its_heir{Communicator::alone(), options(1)};
  ASSERT_EQ(its_heir.load(model.state())->step, 10U);
  save(its_heir, model, 12);
  save(old, model, 11);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{12, 11}));
  EXPECT_TRUE(aside().empty());
  save(its_heir, model, 13);
  EXPECT_EQ(steps(), std::vector<std::uint64_t>{13});
}

/// A process that has lost the folder to its heir without knowing it saves no more: only the heir's checkpoints count.
TEST_F(CheckpointFolder, WhoHasLostItsFolderSavesNoMore) {
  PlainModel model{0, 1};
  Checkpoints old{Communicator::alone(), taking()};
  Checkpoints older{Communicator::alone(), options()};
  save(old, model, 10);
  save(older, model, 11);
  Checkpoints its_heir{Communicator::alone(), taking()};
  ASSERT_EQ(its_heir.load(model.state())->step, 11U);
  for (Checkpoints* const each : {&old, &older}) {
    const std::string why = message_of<FailedPrecondition>([&] { save(*each, model, 17); });
    EXPECT_SAYS(why, "another process has taken over " + options().folder.string());
    EXPECT_EQ(steps(), (std::vector<std::uint64_t>{11, 10}));
    EXPECT_EQ(folders(), 2U);
  }
  save(its_heir, model, 12);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{12, 11, 10}));
  // A process that only loads does not take the folder over.
  EXPECT_EQ(load(model)->step, 12U);
  save(its_heir, model, 13);
  EXPECT_EQ(steps().front(), 13U);
}

/// A save that was under way when the folder was taken over is of a later step than the heir resumed from.
TEST_F(CheckpointFolder, WhatIsSavedWhileItsFolderIsTakenDoesNotCountForLong) {
  PlainModel model{0, 1};
  save(1, {10, 17});
  const fs::path late = saved().front().path;
  const fs::path hidden = folder_.path() / late.filename();
  fs::rename(late, hidden);
  Checkpoints its_heir{Communicator::alone(), taking()};
  ASSERT_EQ(its_heir.load(model.state())->step, 10U);
  fs::rename(hidden, late);
  save(its_heir, model, 12);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{12, 10}));
  EXPECT_EQ(aside(), std::vector{fs::path{late.string() + ".aside"}});
}

/// The parts of this save were begun before the folder was taken over.
TEST_F(CheckpointFolder, WhatIsNotWholeWhenItsFolderIsTakenIsGivenUp) {
  run_threads(2, {}, [&](Communicator& ranks) {
    CheckpointOptions own = options_of(ranks);
    own.takes_over = true;
    Checkpoints checkpoints{ranks, own};
    go_elsewhere(ranks);
    PlainModel model{ranks.rank(), 2, 1};
    checkpoints.save(model.state(), {.step = 1});
    if (ranks.rank() == 0) {
      begun(options().folder, 1, "rank-00000.json");
      const Checkpoints its_heir{Communicator::alone(), taking()};
      bring_from_elsewhere(1, {"rank-00001.safetensors", "rank-00001.json"});
    }
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { checkpoints.finish(); }), "another process has taken over");
  });
  EXPECT_TRUE(steps().empty());
  EXPECT_EQ(folders(), 0U);
}

// ---- A replacement for a rank that has died

TEST_F(CheckpointFolder, SavesThatWereGivenUpLeaveNothing) {
  Communicator::Threads next{2};
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options_of(ranks)};
    go_elsewhere(ranks);
    PlainModel model{ranks.rank(), 2};
    for (const std::uint64_t step : {1, 2}) checkpoints.save(model.state(), {.step = step});
    if (ranks.rank() == 1) {
      // Rank 0 sees rank 1's part of the first save, and nothing of the second save.
      const fs::path late = begun(elsewhere(), 1, "rank-00001.json");
      begun(elsewhere(), 2, "rank-00001.json");
      fs::rename(late, folder_.path() / late.filename());
      fs::remove_all(elsewhere());
      fs::create_directory_symlink(options().folder, elsewhere());
    }
    ranks.barrier();
    Communicator others = next.join(ranks.rank());
    checkpoints.go_on_with(others);
    EXPECT_THROW(checkpoints.finish(), FailedPrecondition);
    EXPECT_EQ(folders(), 0U);
    others.barrier();
    if (others.rank() == 1) {  // as if the part had been written only at this moment
      for (const auto& each : fs::directory_iterator{folder_.path()}) {
        const std::string name = each.path().filename().string();
        if (name.starts_with("step-")) fs::rename(each.path(), options().folder / name);
      }
    }
    others.barrier();
    checkpoints.save(model.state(), {.step = 3});
    checkpoints.finish();
    EXPECT_EQ(folders(), 1U);
  });
  EXPECT_EQ(steps(), std::vector<std::uint64_t>{3});
}

}  // namespace
}  // namespace pharos::ml
