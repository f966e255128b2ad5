#pragma once

// The base of the tests of Trainer: a training whose numbers are known, mishaps of its ranks, and a folder for it.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/trainer.hpp>
#include <pharos/pharos.hpp>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "demand.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::trainer {

namespace fs = std::filesystem;
using End = TrainResult::End;

inline constexpr std::uint64_t kSteps = 40;
inline constexpr std::int64_t kNumbers = 20'000;

/// Values that all ranks change together, and a count of steps for each rank.
struct Weights {
  std::vector<double> values = std::vector<double>(kNumbers, 1.0);
  std::uint64_t own = 0;

  State state() {
    State state;
    state.add({.name = "model.weights",
               .dtype = DType::kF64,
               .shape = {kNumbers},
               .bytes = std::as_writable_bytes(std::span{values}),
               .is_shared = true});
    state.add_of_rank("own", own);
    return state;
  }
  double step(TrainContext& context) {
    std::vector<double> change(values.size(), static_cast<double>(context.step() + context.rank() + 1));
    context.communicator().all_reduce(std::span{change});
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += change[i] * 1e-3;
    ++own;
    return values[0];
  }
};
/// Returns the value after so many steps of so many ranks.
inline double expected(std::uint64_t steps, std::uint32_t ranks) {
  double value = 1;
  for (std::uint64_t step = 0; step < steps; ++step) {
    double change = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) change += static_cast<double>(step + rank + 1);
    value += change * 1e-3;
  }
  return value;
}

/// A mishap in a training: at which rank, at which step, in which attempts, and of which kind.
struct Mishap {
  enum class What : std::uint8_t { kNone, kDies, kStops, kThrows, kIsNoNumber };
  What what = What::kNone;
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::uint32_t attempts = 1;  ///< the mishap happens in so many first attempts
};

inline void happen(const Mishap& mishap, const TrainContext& context) {
  using What = Mishap::What;
  if (mishap.rank != context.rank() || mishap.step != context.step() || context.attempt() >= mishap.attempts) return;
  if (mishap.what == What::kDies) ::kill(::getpid(), SIGKILL);
  if (mishap.what == What::kStops) ::kill(::getpid(), SIGSTOP);
  if (mishap.what == What::kThrows) throw std::runtime_error{"the data has ended"};
}

inline void train(TrainContext& context, const Mishap& mishap, std::uint64_t steps) {
  Weights weights;
  context.resume(weights.state());
  demand(weights.own == context.step(), "what is loaded is of that step");
  while (context.step() < steps) {
    happen(mishap, context);
    double value = weights.step(context);
    if (mishap.what == Mishap::What::kIsNoNumber && mishap.rank == context.rank() && mishap.step == context.step()) {
      value = std::numeric_limits<double>::quiet_NaN();
    }
    if (context.report({{"loss", value}, {"attempt", static_cast<double>(context.attempt())}}) != Verdict::kGoOn) break;
  }
}

/// Returns the names, steps and values that the tensorboard package reads from the folder.
inline std::string scalars_in(const fs::path& folder) {
  cluster::ChildProgram reader{
      "/usr/bin/python3", {ROOT "/tests/trainer/read_tensorboard.py", folder}, {{"PYTHONPATH", TENSORBOARD}}};
  const auto end = reader.wait();
  EXPECT_EQ(end.status, 0) << end.error << "\ntools/setup --tests fetches TensorBoard";
  return end.output;
}

inline std::int64_t lines_in(const std::string& text) {
  return std::ranges::count(text, '\n');
}

class TrainerTest : public cluster::ClusterTest {
 protected:
  TrainerOptions options(std::size_t workers) const {
    return {.scaling = {.workers = workers, .cpus_per_worker = 0},
            .folder = folder_.path() / "run",
            .save_every = 5,
            .timeout = std::chrono::seconds{5},
            .progress = false};
  }
  std::vector<std::string> lines_of(const std::string& file) const {
    std::ifstream from{folder_.path() / "run" / file};
    std::vector<std::string> lines;
    for (std::string line; std::getline(from, line);) lines.push_back(line);
    return lines;
  }
  std::vector<SavedCheckpoint> checkpoints() const { return checkpoints_in(folder_.path() / "run" / "checkpoints"); }
  void expect_all_steps(const TrainResult& result, std::uint32_t ranks) const {
    EXPECT_EQ(result.end, End::kReturned);
    EXPECT_EQ(result.steps, kSteps);
    ASSERT_EQ(result.reports.size(), kSteps);
    for (std::size_t i = 0; i < kSteps; ++i) {
      EXPECT_EQ(result.reports[i].step, i + 1);
      EXPECT_NEAR(*result.reports[i].metrics.find("loss"), expected(i + 1, ranks), 1e-9);
    }
    EXPECT_EQ(checkpoints().at(0).moment.step, kSteps);
  }

  const TemporaryFolder folder_;
};

}  // namespace pharos::ml::trainer
