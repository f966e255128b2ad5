// Each allocation fails in turn, in the thread that writes checkpoints and in a load. The process lives on, the folder
// has a whole checkpoint, and the next save or load works.

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint_folder.hpp"
#include "scarce_memory.hpp"

// fsync() does nothing, because no file has to outlast the test, and the test saves many times.
extern "C" int fsync(int) {
  return 0;
}
extern "C" int fdatasync(int) {
  return 0;
}

namespace pharos::ml {
namespace {

/// A tensor of which each rank has a part. All its numbers are the step. It takes few allocations to write.
class SmallModel {
 public:
  explicit SmallModel(const Communicator& ranks) {
    state_.add({.name = "x",
                .dtype = DType::kI64,
                .shape = {ranks.size() * kOwn},
                .begin = ranks.rank() * std::uint64_t{kOwn},
                .bytes = std::as_writable_bytes(std::span{numbers_})});
  }
  SmallModel(SmallModel&&) = delete;
  void set(std::uint64_t step) { numbers_.fill(static_cast<std::int64_t>(step)); }
  const State& state() const { return state_; }

 private:
  static constexpr std::int64_t kOwn = 4;
  std::array<std::int64_t, kOwn> numbers_{};
  State state_;
};

struct Case {
  Shortage shortage;
  std::uint32_t ranks;
  std::uint32_t victim;
  std::int64_t stride;  // with several ranks only each stride-th allocation is tried, to save time
};

class NoMemory : public CheckpointFolder, public testing::WithParamInterface<Case> {
 protected:
  /// Saves once with a shortage of memory and once after it. Returns whether an allocation has failed.
  bool save_without(Communicator& ranks, std::int64_t works, std::uint64_t step) const {
    CheckpointOptions kept = options(1);
    kept.keep_best = 1;
    Checkpoints checkpoints{ranks, kept};
    SmallModel model{ranks};
    const std::uint64_t before = newest();
    if (ranks.rank() == 0) fs::create_directory(options().folder / "step-000000000001-0123abcd.begun");
    const bool is_victim = ranks.rank() == GetParam().victim;
    const auto save = [&](std::uint64_t at) {
      model.set(at);
      checkpoints.save(model.state(), {.step = at, .metrics = {{"loss", 1.0 / double(at)}}});
      checkpoints.finish();
    };
    std::optional<Error> failed;
    if (is_victim) begin_shortage(GetParam().shortage, works);
    try {
      save(step);
    } catch (const Exception& e) {
      failed = e.error();
    }
    std::int64_t was_short = is_victim && end_shortage() ? 1 : 0;
    ranks.broadcast(std::span{&was_short, 1}, GetParam().victim);
    EXPECT_TRUE(!failed || was_short) << failed->to_string();
    if (failed && is_victim) expect_said(*failed, checkpoints.last_error());
    const std::uint64_t after = newest();
    EXPECT_TRUE(after == step || (failed && after == before)) << after;
    ranks.barrier();
    save(step + 1);
    EXPECT_FALSE(checkpoints.last_error());
    EXPECT_EQ(newest(), step + 1);
    EXPECT_EQ(folders(), 1U) << "what has failed is removed";
    ranks.barrier();
    return was_short != 0;
  }

 private:
  /// Returns the step of the newest checkpoint, after checking that it is whole; 0 if there is no checkpoint.
  std::uint64_t newest() const {
    const auto all = saved();
    if (all.empty()) return 0;
    for (const NamedArray& each : tensors_of_checkpoint(all[0].path, "")) {
      for (const std::int64_t number : each.array.values<std::int64_t>()) {
        EXPECT_EQ(number, static_cast<std::int64_t>(all[0].moment.step));
      }
    }
    return all[0].moment.step;
  }
  /// Checks the error of the rank that had no memory.
  void expect_said(const Error& failed, const std::optional<Error>& own) const {
    ASSERT_TRUE(own);
    EXPECT_EQ(own->code(), ErrorCode::kExhausted) << own->to_string();
    if (GetParam().victim == 0) {
      EXPECT_EQ(failed.code(), ErrorCode::kExhausted) << failed.to_string();
      EXPECT_SAYS(failed.message(), "there is no memory left for a checkpoint");
    } else {
      EXPECT_SAYS(failed.message(), "rank 1 could not write its part");
    }
  }
};

TEST_P(NoMemory, OfTheThreadThatWritesFailsOneSaveAndNoOther) {
  const Case& given = GetParam();
  run_processes(given.ranks, {}, [&](Communicator& ranks) {
    be_spared();  // the rank's own thread always has memory
    bool was_short = true;
    std::int64_t works = 0;
    for (std::uint64_t step = 1; was_short && !HasFailure(); step += 2, works += given.stride) {
      SCOPED_TRACE(std::to_string(works) + " allocations work");
      was_short = save_without(ranks, works, step);
    }
    EXPECT_GT(works, 50) << "the thread that writes has taken no memory";
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NoMemory,
                         testing::Values(Case{Shortage::kOnce, 1, 0, 1}, Case{Shortage::kLasting, 1, 0, 1},
                                         Case{Shortage::kOnce, 2, 0, 5}, Case{Shortage::kLasting, 2, 0, 11},
                                         Case{Shortage::kOnce, 2, 1, 2}, Case{Shortage::kLasting, 2, 1, 5}),
                         [](const auto& chosen) {
                           return std::string{chosen.param.shortage == Shortage::kOnce ? "once" : "lasting"} + "_at_" +
                                  std::to_string(chosen.param.victim) + "_of_" + std::to_string(chosen.param.ranks);
                         });

// The other ranks hear of it when all ranks meet, instead of waiting for that rank's part.
TEST_F(CheckpointFolder, OfAStateThatOneRankCannotCopyIsOneFailedSaveAndNoOther) {
  constexpr std::size_t kState = std::size_t{1} << 20;  // bytes of each rank; everything else takes less
  run_processes(2, {}, [&](Communicator& ranks) {
    std::vector<std::byte> bytes(kState);
    State state;
    state.add({.name = "state of rank " + std::to_string(ranks.rank()),
               .dtype = DType::kU8,
               .shape = {kState},
               .bytes = std::span{bytes}});
    Checkpoints checkpoints{ranks, options()};
    if (ranks.rank() == 1) begin_shortage(Shortage::kOnce, 0, kState);
    bool has_thrown = false;
    try {
      checkpoints.save(state, {.step = 1});
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
    EXPECT_EQ(has_thrown, ranks.rank() == 1);
    if (ranks.rank() == 1) {
      EXPECT_TRUE(end_shortage());
    }
    const auto began = std::chrono::steady_clock::now();
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { checkpoints.finish(); }), "rank 1 could not write its part");
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds{10});
    checkpoints.save(state, {.step = 2});
    checkpoints.finish();
    EXPECT_EQ(saved().front().moment.step, 2U);
  });
}

/// So many tensors that reading their descriptions takes memory.
class ManyTensors {
 public:
  ManyTensors() {
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      state_.add({.name = "tensor " + std::to_string(i),
                  .dtype = DType::kI64,
                  .shape = {1},
                  .bytes = std::as_writable_bytes(std::span{numbers_}.subspan(i, 1)),
                  .is_shared = true});
    }
  }
  ManyTensors(ManyTensors&&) = delete;
  std::array<std::int64_t, 100>& numbers() { return numbers_; }
  const State& state() const { return state_; }

 private:
  std::array<std::int64_t, 100> numbers_{};
  State state_;
};

TEST_F(CheckpointFolder, ThatIsLoadedWithoutMemoryIsNoDamage) {
  constexpr std::size_t kOfLoading = 1024;  // bytes; the agreement of ranks takes smaller allocations
  for (const Shortage of : {Shortage::kOnce, Shortage::kLasting}) {
    fs::remove_all(options().folder);
    run_processes(1, {}, [&](Communicator&) {
      Checkpoints checkpoints{Communicator::alone(), options()};
      ManyTensors tensors;
      for (const std::uint64_t step : {11, 22}) {
        tensors.numbers().fill(static_cast<std::int64_t>(step));
        checkpoints.save(tensors.state(), {.step = step});
      }
      checkpoints.finish();
      tensors.numbers().fill(0);
      std::int64_t works = 0;
      for (bool was_short = true; was_short && !HasFailure(); ++works) {
        SCOPED_TRACE(std::to_string(works) + " allocations work");
        std::optional<Moment> loaded;
        begin_shortage(of, works, kOfLoading);
        try {
          loaded = checkpoints.load(tensors.state());
        } catch (const Exhausted& e) {
          EXPECT_SAYS(e.what(), "there is no memory left for a checkpoint");
        }
        was_short = end_shortage();
        EXPECT_NE(was_short, loaded && loaded->step == 22) << "an older one was taken, or none";
        EXPECT_TRUE(aside().empty());
      }
      EXPECT_GT(works, 10) << "it has taken no memory";
      for (const std::int64_t each : tensors.numbers()) EXPECT_EQ(each, 22);
    });
  }
}

}  // namespace
}  // namespace pharos::ml
