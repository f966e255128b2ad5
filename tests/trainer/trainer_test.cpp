#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/base/failpoint.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/distributed.hpp>
#include <pharos/ml/tensorboard_file.hpp>
#include <pharos/ml/trainer.hpp>
#include <pharos/pharos.hpp>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "demand.hpp"
#include "says.hpp"
#include "seed.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::trainer {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using End = TrainResult::End;

constexpr std::uint64_t kSteps = 40;
constexpr std::int64_t kNumbers = 20'000;

/// Numbers that all ranks move together; each rank counts its steps.
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
/// What its value is after so many steps of so many ranks.
double expected(std::uint64_t steps, std::uint32_t ranks) {
  double value = 1;
  for (std::uint64_t step = 0; step < steps; ++step) {
    double change = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) change += static_cast<double>(step + rank + 1);
    value += change * 1e-3;
  }
  return value;
}

/// What is to happen in a training, once: at which rank, step and attempt, in which way.
struct Mishap {
  enum class What : std::uint8_t { kNone, kDies, kStops, kThrows, kIsNoNumber, kLeavesAsTold };
  What what = What::kNone;
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::uint32_t attempts = 1;  ///< in so many of the first
};

void happen(const Mishap& mishap, const TrainContext& context) {
  using What = Mishap::What;
  if (mishap.rank != context.rank() || mishap.step != context.step() || context.attempt() >= mishap.attempts) return;
  if (mishap.what == What::kDies) ::kill(::getpid(), SIGKILL);
  if (mishap.what == What::kStops) ::kill(::getpid(), SIGSTOP);
  if (mishap.what == What::kThrows) throw std::runtime_error{"the data has ended"};
}

void train(TrainContext& context, const Mishap& mishap, std::uint64_t steps) {
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

/// Ranks measure different things, of which some count more.
void weighs(TrainContext& context) {
  const double rank = context.rank();
  context.report(rank, {.weight = rank});
  demand(*context.last().find("loss") == 5.0 / 3, "all ranks know the mean");
  context.report({{"loss", rank}, {"size", static_cast<double>(context.size())}}, {.epoch = 7});
}
void says_other_things(TrainContext& context) {
  context.report({{"loss", 1}});
  context.report({{context.rank() == 2 ? "lost" : "loss", 1}});
}
void goes_on_for_ever(TrainContext& context) {
  Weights weights;
  context.resume(weights.state());
  for (;;) {
    std::this_thread::sleep_for(1ms);  // what it does
    if (context.report(weights.step(context)) != Verdict::kGoOn) return;
  }
}
void becomes_worse(TrainContext& context) {
  for (;;) {
    const auto step = static_cast<double>(context.step());
    if (context.report({{"loss", std::abs(step - 10)}}) != Verdict::kGoOn) return;
  }
}
void hangs_when_told(TrainContext& context) {
  while (context.report(1.0) == Verdict::kGoOn) {
    std::this_thread::sleep_for(1ms);  // what it does
    while (context.step() == 20) ::pause();
  }
}
/// Is best in its seventh step; saves what it is asked to, and what it wants to.
void is_best_once(TrainContext& context) {
  Weights weights;
  context.resume(weights.state());
  while (context.step() < 12) {
    weights.step(context);
    const double value = std::abs(static_cast<double>(context.step()) - 5.75);
    context.report({{"loss", value}}, {.save = context.rank() == 1});
  }
}
void prints(TrainContext& context) {
  std::printf("rank %u is here\n", context.rank());
  std::fflush(stdout);
  std::fprintf(stderr, "and complains\n");
  context.report(1.0);
}
void prints_and_throws(TrainContext& context) {
  context.report(1.0);
  if (context.rank() != 1) return;
  std::printf("last words of rank 1\n");
  throw std::runtime_error{"that was all"};
}
void has_a_gpu(TrainContext& context, int given) {
  context.report({{"gpus", static_cast<double>(pharos::context().gpus.size())},
                  {"ranks", static_cast<double>(context.size())},
                  {"given", given}});
}
/// Says more in each 1001st step.
void goes_far(TrainContext& context) {
  while (context.step() < 25'000) {
    const auto step = static_cast<double>(context.step() + 1);
    if (std::fmod(step, 1001) == 0) {
      context.report({{"loss", 1 / step}, {"validation", step}});
    } else {
      context.report(1 / step);
    }
  }
}
/// Is killed in its first attempt, when its steps have been heard of, and does nothing in its second.
void does_nothing_again(TrainContext& context, const std::string& marker) {
  context.resume({});
  if (context.attempt() != 0) return;
  while (context.step() < 20) context.report(1.0);
  for (int waits = 0; waits < 30'000 && !fs::exists(marker); ++waits) std::this_thread::sleep_for(1ms);
  ::kill(::getpid(), SIGKILL);
}
/// Rank 1 does fewer steps than the others.
void returns_early(TrainContext& context) {
  double sum = 0;
  State state;
  state.add("sum", sum);
  context.resume(state, OnRankDeath::kReplace);
  for (;;) {
    try {
      while (context.has_to_tell() || context.step() < (context.rank() == 1 ? 7 : 20)) {
        if (!context.has_to_tell()) context.commit(1.0);
        if (context.tell() != Verdict::kGoOn) return;
      }
      return;
    } catch (const Exception& why) {
      if (!context.rejoin(why)) throw;
    }
  }
}
void is_alone(TrainContext& context, const std::string& text, std::vector<double> data) {
  demand(text == "text", "it has the text");
  demand(context.size() == 1, "it is alone");
  context.report(data.at(1));
}
void dies_at(TrainContext& context, std::uint32_t rank, std::string_view where) {
  if (context.attempt() == 0 && context.rank() == rank) order_failpoint(*parse_failpoint(where));
  train(context, {}, kSteps);
}

/// In the first attempt one rank is killed or stopped after a time.
void ends_after(TrainContext& context, std::uint32_t rank, std::uint64_t microseconds, bool stops) {
  if (context.attempt() == 0 && context.rank() == rank) {
    std::thread{[microseconds, stops] {
      std::this_thread::sleep_for(std::chrono::microseconds{microseconds});
      ::kill(::getpid(), stops ? SIGSTOP : SIGKILL);
    }}.detach();
  }
  train(context, {}, kSteps);
}

namespace {

/// Of this process's environment, for as long as it lives.
class Variables {
 public:
  Variables(std::initializer_list<std::pair<const char*, const char*>> all) {
    for (const auto& [name, value] : all) {
      ::setenv(name, value, 1);
      names_.emplace_back(name);
    }
  }
  Variables(Variables&&) = delete;
  ~Variables() {
    for (const std::string& each : names_) ::unsetenv(each.c_str());
  }

 private:
  std::vector<std::string> names_;
};

/// What the tensorboard package reads there: names, steps and values.
std::string scalars_in(const fs::path& folder) {
  cluster::ChildProgram reader{
      "/usr/bin/python3", {ROOT "/tests/trainer/read_tensorboard.py", folder}, {{"PYTHONPATH", TENSORBOARD}}};
  const auto end = reader.wait();
  EXPECT_EQ(end.status, 0) << end.error << "\ntools/setup --tests fetches TensorBoard";
  return end.output;
}

std::int64_t lines_in(const std::string& text) {
  return std::ranges::count(text, '\n');
}
/// What this process says on its standard error meanwhile.
template <class Work>
std::string said_during(const Work& work) {
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(work());
  return testing::internal::GetCapturedStderr();
}

class TrainerTest : public cluster::ClusterTest {
 protected:
  TrainerOptions options(std::size_t workers) const {
    return {.scaling = {.workers = workers, .cpus_per_worker = 0},
            .folder = folder_.path() / "run",
            .save_every = 5,
            .timeout = 5s,
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

TEST_F(TrainerTest, RanksTrainTogether) {
  Runtime runtime;
  for (const std::uint32_t ranks : {1U, 3U}) {
    TrainerOptions each = options(ranks);
    each.folder = folder_.path() / std::to_string(ranks);
    each.save_every = 0;
    Trainer trainer{runtime, std::move(each)};
    const TrainResult result = trainer.run<&train>(Mishap{}, kSteps);
    ASSERT_EQ(result.reports.size(), kSteps);
    EXPECT_NEAR(*result.last("loss"), expected(kSteps, ranks), 1e-9);
    EXPECT_EQ(result.best->step, 1U);
    EXPECT_TRUE(result.restarts.empty());
  }
}

TEST_F(TrainerTest, FunctionsAreGivenWhatRunIs) {
  Runtime runtime;
  Trainer trainer{runtime, {.scaling = {.cpus_per_worker = 0}, .progress = false}};
  const auto data = runtime.put(std::vector<double>{1, 2.5});
  EXPECT_EQ(trainer.run<&is_alone>("text", data).last("loss"), 2.5);
}

TEST_F(TrainerTest, MetricsAreMeansByWeight) {
  Runtime runtime;
  Trainer trainer{runtime, options(3)};
  const TrainResult result = trainer.run<&weighs>();
  ASSERT_EQ(result.reports.size(), 2U);
  EXPECT_DOUBLE_EQ(*result.reports[0].metrics.find("loss"), 5.0 / 3);
  EXPECT_DOUBLE_EQ(*result.reports[1].metrics.find("loss"), 1);
  EXPECT_DOUBLE_EQ(*result.reports[1].metrics.find("size"), 3);
  EXPECT_DOUBLE_EQ(*result.mean("loss"), (5.0 / 3 + 1) / 2);
  EXPECT_EQ(result.mean("size"), 3);
  EXPECT_FALSE(result.mean("accuracy"));
  EXPECT_EQ(result.reports[1].epoch, 7U);
  EXPECT_EQ(lines_of("reports.csv").at(0), "attempt,epoch,step,seconds,loss,size");
  EXPECT_TRUE(lines_of("reports.csv").at(2).starts_with("0,7,2,"));
  EXPECT_TRUE(lines_of("reports.csv").at(2).ends_with(",1,3"));
  EXPECT_TRUE(lines_of("reports.jsonl").at(1).ends_with("\"loss\":1,\"size\":3}"));
  EXPECT_EQ(scalars_in(folder_.path() / "run" / "tensorboard"), "loss 1 1.66666663\nloss 2 1\nsize 2 3\n");
}

TEST_F(TrainerTest, OneThatIsKilledIsNamedAndTheGroupGoesOnFromTheNewestCheckpoint) {
  Runtime runtime;
  for (const std::uint32_t victim : {0U, 2U}) {
    SCOPED_TRACE(victim);
    fs::remove_all(folder_.path() / "run");
    Trainer trainer{runtime, options(3)};
    const TrainResult result = trainer.run<&train>(Mishap{Mishap::What::kDies, victim, 23}, kSteps);
    expect_all_steps(result, 3);
    ASSERT_EQ(result.restarts.size(), 1U);
    EXPECT_SAYS(result.restarts[0].why, "rank " + std::to_string(victim));
    EXPECT_EQ(result.reports[9].metrics.find("attempt")[0], 0);
    EXPECT_EQ(result.reports.back().metrics.find("attempt")[0], 1);
    // Curves have each step once, and no other one's values.
    const std::string scalars = scalars_in(folder_.path() / "run" / "tensorboard");
    EXPECT_EQ(lines_in(scalars), 2 * kSteps);
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      EXPECT_SAYS('\n' + scalars, "\nloss " + std::to_string(step) + ' ');
    }
  }
}

TEST_F(TrainerTest, OneThatIsStoppedIsNamedAndTheGroupGoesOn) {
  Runtime runtime;
  TrainerOptions short_time = options(3);
  short_time.timeout = 1s;
  Trainer trainer{runtime, std::move(short_time)};
  const TrainResult result = trainer.run<&train>(Mishap{Mishap::What::kStops, 1, 12}, kSteps);
  expect_all_steps(result, 3);
  ASSERT_EQ(result.restarts.size(), 1U);
  EXPECT_SAYS(result.restarts[0].why, "rank 1");
}

TEST_F(TrainerTest, OneThatAlwaysDiesIsGivenUp) {
  Runtime runtime;
  TrainerOptions twice = options(2);
  twice.restarts = 2;
  Trainer trainer{runtime, std::move(twice)};
  const std::string text = message_of<ActorDied>([&] {
    trainer.run<&train>(Mishap{Mishap::What::kDies, 1, 7, std::numeric_limits<std::uint32_t>::max()}, kSteps);
  });
  EXPECT_SAYS(text, "training was begun 3 times, and");
  EXPECT_SAYS(text, "rank 1");
}

TEST_F(TrainerTest, WhatAFunctionThrowsEndsTheTrainingAndNamesTheRank) {
  Runtime runtime;
  Trainer trainer{runtime, options(3)};
  const std::string text = message_of<UserError>([&] {
    trainer.run<&train>(Mishap{Mishap::What::kThrows, 1, 7}, kSteps);
  });
  EXPECT_SAYS(text, "rank 1");
  EXPECT_SAYS(text, "the data has ended");
}

TEST_F(TrainerTest, ALossThatIsNoNumberEndsItAndNamesTheRank) {
  Runtime runtime;
  Trainer trainer{runtime, options(3)};
  const std::string text = message_of<UserError>([&] {
    trainer.run<&train>(Mishap{Mishap::What::kIsNoNumber, 2, 7}, kSteps);
  });
  EXPECT_SAYS(text, "\"loss\" of rank 2 is no finite number any more at step 8");
}

TEST_F(TrainerTest, RanksThatReportDifferentThingsAreTold) {
  Runtime runtime;
  Trainer trainer{runtime, options(3)};
  const std::string text = message_of<InvalidArgument>([&] { trainer.run<&says_other_things>(); });
  EXPECT_SAYS(text, "rank 2 and rank 0 report different metrics at step 2");
}

TEST_F(TrainerTest, OneThatHasTimeStopsWithACheckpointOfItsLastStep) {
  Runtime runtime;
  TrainerOptions timed = options(2);
  timed.time = 500ms;
  timed.save_every = 0;
  Trainer trainer{runtime, std::move(timed)};
  const TrainResult result = trainer.run<&goes_on_for_ever>();
  EXPECT_EQ(result.end, End::kStopped);
  EXPECT_GT(result.steps, 0U);
  EXPECT_EQ(checkpoints().at(0).moment.step, result.steps);

  // And goes on from there.
  TrainerOptions again = options(2);
  again.callbacks = {[](const TrainReport& report) { return report.step < 1000 ? Verdict::kGoOn : Verdict::kStop; }};
  const TrainResult more = Trainer{runtime, std::move(again)}.run<&goes_on_for_ever>();
  EXPECT_EQ(more.reports.front().step, result.steps + 1);
  EXPECT_GE(more.steps, 1000U);
  EXPECT_TRUE(more.why_unsaved.empty());
  // The folder's reports are those of both.
  ASSERT_EQ(lines_of("reports.jsonl").size(), more.steps);
  const std::vector<std::string> lines = lines_of("reports.csv");
  ASSERT_EQ(lines.size(), more.steps + 1);
  for (std::uint64_t step = 1; step <= more.steps; ++step) {
    const std::string attempt = step <= result.steps ? "0" : "1";
    EXPECT_TRUE(lines[step].starts_with(attempt + ",0," + std::to_string(step) + ",")) << lines[step];
  }
}

TEST_F(TrainerTest, OneThatDoesNotStopInItsGraceSaysSo) {
  Runtime runtime;
  TrainerOptions timed = options(2);
  timed.callbacks = {[](const TrainReport& report) { return report.step < 20 ? Verdict::kGoOn : Verdict::kStop; }};
  timed.save_every = 0;
  timed.grace = 300ms;
  const TrainResult result = Trainer{runtime, std::move(timed)}.run<&hangs_when_told>();
  EXPECT_EQ(result.end, End::kStopped);
  EXPECT_EQ(result.steps, 20U);
  EXPECT_SAYS(result.why_unsaved, "have not stopped in time");
}

TEST_F(TrainerTest, OfADamagedCheckpointTheOneBeforeIsTakenAndIfThereIsNoneThatIsSaid) {
  Runtime runtime;
  TrainerOptions each = options(2);
  each.keep_last = 10;
  const auto damage = [](const fs::path& checkpoint) {
    const auto of_size = [](const fs::path& path) { return fs::file_size(path); };
    const std::vector<fs::path> files{fs::directory_iterator{checkpoint}, fs::directory_iterator{}};
    const fs::path& largest = *std::ranges::max_element(files, {}, of_size);
    std::fstream file{largest, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(static_cast<std::streamoff>(fs::file_size(largest) / 2));
    file << "damage";
  };
  Trainer trainer{runtime, std::move(each)};
  trainer.run<&train>(Mishap{}, 20);
  const std::vector<SavedCheckpoint> saved = checkpoints();
  ASSERT_EQ(saved.size(), 4U);
  damage(saved[0].path);
  const TrainResult more = trainer.run<&train>(Mishap{}, kSteps);
  EXPECT_EQ(more.reports.front().step, 16U);
  EXPECT_NEAR(*more.last("loss"), expected(kSteps, 2), 1e-9);
  std::string log;
  for (const std::string& line : lines_of("logs/rank-0.log")) log += line + '\n';
  EXPECT_SAYS(log, "a checkpoint cannot be read, an older one is tried");
  EXPECT_SAYS(log, saved[0].path.filename().string());

  for (const SavedCheckpoint& left : checkpoints()) damage(left.path);
  const std::string text = message_of<Exception>([&] { trainer.run<&train>(Mishap{}, kSteps + 1); });
  EXPECT_SAYS(text, "and none can be read");
  EXPECT_SAYS(text, "or give another folder to begin anew");
}

TEST_F(TrainerTest, TheBestCheckpointsStayAndThoseThatAFunctionWants) {
  Runtime runtime;
  TrainerOptions choosy = options(2);
  choosy.save_every = 0;
  choosy.keep_last = 1;
  choosy.keep_best = 2;
  Trainer{runtime, std::move(choosy)}.run<&is_best_once>();
  std::vector<std::uint64_t> steps;
  for (const SavedCheckpoint& each : checkpoints()) steps.push_back(each.moment.step);
  std::ranges::sort(steps);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{6, 7, 12}));
}

TEST_F(TrainerTest, EarlyStoppingEndsWhatDoesNotBecomeBetter) {
  Runtime runtime;
  TrainerOptions patient = options(2);
  patient.callbacks = {early_stopping("loss", 20)};
  const TrainResult result = Trainer{runtime, std::move(patient)}.run<&becomes_worse>();
  EXPECT_EQ(result.end, End::kStopped);
  EXPECT_EQ(result.best->step, 11U);
  EXPECT_EQ(*result.best->metrics.find("loss"), 0);
  EXPECT_GE(result.steps, 31U);
}

TEST_F(TrainerTest, EachRunBeginsWithCallbacksAsTheyWereGiven) {
  Runtime runtime;
  std::vector<std::uint64_t> stopped_at;
  const auto first_stop = [stops = early_stopping("loss", 20), &stopped_at,
                           has_stopped = false](const TrainReport& report) mutable {
    const Verdict verdict = stops(report);
    if (verdict != Verdict::kGoOn && !std::exchange(has_stopped, true)) stopped_at.push_back(report.step);
    return verdict;
  };
  Trainer trainer{runtime, {.scaling = {.cpus_per_worker = 0}, .callbacks = {first_stop}, .progress = false}};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(trainer.run<&becomes_worse>().end, End::kStopped);
  EXPECT_EQ(stopped_at, (std::vector<std::uint64_t>{31, 31}));
}

TEST_F(TrainerTest, EarlyStoppingCountsStepsThatAreDoneAgainOnce) {
  const TrainCallback callback = early_stopping("loss", 4);
  const auto told = [&](std::uint64_t step) {
    return callback({.step = step, .metrics = {{"loss", static_cast<double>(step)}}});
  };
  for (const std::uint64_t step : {1U, 2U, 3U, 4U, 2U, 3U, 4U}) EXPECT_EQ(told(step), Verdict::kGoOn) << step;
  EXPECT_EQ(told(5), Verdict::kStop);
}

TEST_F(TrainerTest, WhatACallbackThrowsIsThrownWhenTheTrainingHasStoppedWithACheckpoint) {
  Runtime runtime;
  TrainerOptions each = options(2);
  each.save_every = 0;
  std::uint64_t newest = 0;
  each.callbacks = {[&](const TrainReport& report) {
    newest = report.step;
    if (report.step == 20) throw std::logic_error{"it cannot count so far"};
    return Verdict::kGoOn;
  }};
  Trainer trainer{runtime, std::move(each)};
  EXPECT_SAYS(message_of<std::logic_error>([&] { trainer.run<&goes_on_for_ever>(); }), "it cannot count so far");
  EXPECT_EQ(newest, 20U) << "it was asked again";
  ASSERT_EQ(checkpoints().size(), 1U);
  EXPECT_GE(checkpoints()[0].moment.step, 20U);
}

TEST_F(TrainerTest, WhatCannotBeWrittenWaitsAndTheTrainingGoesOn) {
  Runtime runtime;
  const fs::path board = folder_.path() / "run" / "tensorboard";
  const fs::path events = board / "events.out.tfevents.pharos";
  fs::create_directories(board);
  fs::create_symlink("/dev/full", events);
  TrainerOptions each = options(2);
  each.callbacks = {[&](const TrainReport& report) {
    if (report.step == kSteps) fs::remove(events);  // there is room now
    return Verdict::kGoOn;
  }};
  Trainer trainer{runtime, std::move(each)};
  TrainResult result;
  const std::string said = said_during([&] { result = trainer.run<&train>(Mishap{}, kSteps); });
  expect_all_steps(result, 2);
  const std::string what = "reports of a training cannot be written";
  EXPECT_SAYS(said, what);
  EXPECT_EQ(said.find(what), said.rfind(what)) << said;
  EXPECT_SAYS(said, "No space left on device");
  EXPECT_EQ(lines_in(scalars_in(board)), 2 * kSteps);
  EXPECT_EQ(lines_of("reports.jsonl").size(), kSteps);
}

TEST_F(TrainerTest, RanksWhoseLogsCannotBeWrittenTrain) {
  Runtime runtime;
  fs::create_directories(folder_.path() / "run");
  std::ofstream{folder_.path() / "run" / "logs"} << "in the way";
  Trainer trainer{runtime, options(2)};
  const std::string said = said_during([&] { EXPECT_EQ(trainer.run<&prints>().steps, 1U); });
  EXPECT_SAYS(said, "run/logs");
}

TEST_F(TrainerTest, ARecordOfTensorBoardThatIsCutShortHidesNothing) {
  const fs::path board = folder_.path() / "board";
  const auto add = [&](std::uint64_t step) {
    TensorBoardFile file{board, 1};
    file.add(1, step, {{"loss", static_cast<double>(step)}});
    ASSERT_TRUE(file.write());
  };
  add(1);
  add(2);
  const fs::path events = board / "events.out.tfevents.pharos";
  const std::uintmax_t whole = fs::file_size(events);
  for (const std::uintmax_t cut : {1U, 20U, 40U}) {
    fs::resize_file(events, whole);
    add(3);
    fs::resize_file(events, fs::file_size(events) - cut);
    add(4);
    EXPECT_EQ(scalars_in(board), "loss 1 1\nloss 2 2\nloss 4 4\n") << cut;
  }
}

TEST_F(TrainerTest, OfManyReportsThoseWithRareMetricsStay) {
  Runtime runtime;
  Trainer trainer{runtime, {.scaling = {.cpus_per_worker = 0}, .progress = false}};
  const TrainResult result = trainer.run<&goes_far>();
  EXPECT_LE(result.reports.size(), 10'000U);
  std::vector<std::uint64_t> rare;
  std::uint64_t before = 0;
  for (const TrainReport& each : result.reports) {
    EXPECT_LE(each.step - before, 5U) << "others stay evenly";
    before = each.step;
    if (each.metrics.find("validation") != nullptr) rare.push_back(each.step);
  }
  ASSERT_EQ(rare.size(), 24U);
  for (std::size_t i = 0; i < rare.size(); ++i) EXPECT_EQ(rare[i], 1001 * (i + 1));
  EXPECT_EQ(before, 25'000U);
  EXPECT_EQ(result.best->step, 25'000U);
}

TEST_F(TrainerTest, WhatWasReportedOfStepsThatDoNotCountIsNotInTheResult) {
  Runtime runtime;
  const std::string marker = folder_.path() / "heard";
  const auto hear = [&](const TrainReport& report) {
    if (report.step == 20) std::ofstream{marker} << "20";
    return Verdict::kGoOn;
  };
  Trainer trainer{runtime, {.scaling = {.cpus_per_worker = 0}, .callbacks = {hear}, .progress = false}};
  const TrainResult result = trainer.run<&does_nothing_again>(marker);
  EXPECT_EQ(result.restarts.size(), 1U);
  EXPECT_EQ(result.steps, 0U);
  EXPECT_TRUE(result.reports.empty());
  EXPECT_FALSE(result.best);
}

TEST_F(TrainerTest, AMetricThatNoReportHasIsSaid) {
  Runtime runtime;
  const auto said_of = [&](TrainerOptions each) {
    each.scaling.cpus_per_worker = 0;
    each.progress = false;
    Trainer trainer{runtime, std::move(each)};
    return said_during([&] { trainer.run<&prints>(); });
  };
  EXPECT_EQ(said_of({}).find("no report"), std::string::npos);
  const std::string named = said_of({.metric = "accuracy", .callbacks = {early_stopping("validation_loss", 3)}});
  EXPECT_SAYS(named, "metric=validation_loss");
  EXPECT_EQ(named.find("metric=accuracy"), std::string::npos) << "one without a name is it";
  EXPECT_SAYS(named, "has=accuracy");
}

TEST_F(TrainerTest, EpochsAreCountedFromOneForWhoWatches) {
  Runtime runtime;
  TrainerOptions each = options(3);
  each.progress = true;
  Trainer trainer{runtime, std::move(each)};
  EXPECT_SAYS(said_during([&] { trainer.run<&weighs>(); }), "step 2, epoch 8, ");
}

TEST_F(TrainerTest, OneThatReturnsWhileOthersGoOnIsNamed) {
  Runtime runtime;
  Trainer trainer{runtime, {.scaling = {.workers = 3, .cpus_per_worker = 0}, .timeout = 1s, .progress = false}};
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { trainer.run<&returns_early>(); }),
              "the function of rank 1 has returned, and other ranks wait for it behind step 7");
}

TEST_F(TrainerTest, ARankThatIsKilledOrStoppedWhereverItSavesOrWorksIsNoHarm) {
  must_end_within(120s);
  Runtime runtime;
  const auto die_at = [&](std::uint32_t rank, const std::string& where) {
    SCOPED_TRACE("rank " + std::to_string(rank) + " at " + where);
    fs::remove_all(folder_.path() / "run");
    TrainerOptions each = options(2);
    if (where.find(":stop") != std::string::npos) each.timeout = 1s;
    const TrainResult result = Trainer{runtime, std::move(each)}.run<&dies_at>(rank, where);
    expect_all_steps(result, 2);
    ASSERT_EQ(result.restarts.size(), 1U) << "it did not come there";
    EXPECT_SAYS(result.restarts[0].why, "rank " + std::to_string(rank));
  };
  for (const std::string where : {"state_copied", "save_begun", "save_written", "save_said", "data_given",
                                  "part_reduced", "result_taken", "step_committed", "step_told"}) {
    for (const std::string how : {":kill:0", ":kill:4", ":stop:2"}) die_at(1, where + how);
  }
  for (const std::string where : {"state_copied", "save_said", "saves_there", "manifest_written", "old_goes"}) {
    for (const std::string how : {":kill:0", ":kill:4", ":stop:2"}) die_at(0, where + how);
  }
}

TEST_F(TrainerTest, ARankThatIsKilledOrStoppedAtAnyInstantIsNoHarm) {
  std::mt19937 random{static_cast<unsigned>(seed_of_test())};
  const int rounds = rounds_of_test(20);
  must_end_within(std::chrono::seconds{60 + 5 * rounds});
  Runtime runtime;
  int deaths = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto victim = static_cast<std::uint32_t>(random() % 3);
    const std::uint64_t after = random() % 60'000;
    const bool stops = random() % 4 == 0;
    SCOPED_TRACE("round " + std::to_string(round) + ": rank " + std::to_string(victim) + " after " +
                 std::to_string(after) + " us" + (stops ? ", stopped" : ""));
    fs::remove_all(folder_.path() / "run");
    TrainerOptions each = options(3);
    each.timeout = 1s;
    const TrainResult result = Trainer{runtime, std::move(each)}.run<&ends_after>(victim, after, stops);
    expect_all_steps(result, 3);
    EXPECT_LE(result.restarts.size(), 1U);
    deaths += static_cast<int>(result.restarts.size());
    if (!result.restarts.empty()) {
      EXPECT_SAYS(result.restarts[0].why, "rank " + std::to_string(victim));
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(deaths, rounds / 4) << "it was over before they died";
}

TEST_F(TrainerTest, WhatRanksPrintIsInTheFolder) {
  Runtime runtime;
  Trainer trainer{runtime, options(2)};
  trainer.run<&prints>();
  trainer.run<&prints>();
  for (const int rank : {0, 1}) {
    const std::string name = std::to_string(rank);
    const auto lines = lines_of("logs/rank-" + name + ".log");
    EXPECT_EQ(std::ranges::count(lines, "rank " + name + " is here"), 2);  // those of the first training stay
    EXPECT_EQ(std::ranges::count(lines, "and complains"), 2);
  }
}

TEST_F(TrainerTest, WhatARankPrintsBeforeItThrowsIsInTheFolderToo) {
  Runtime runtime;
  Trainer trainer{runtime, options(2)};
  const std::string text = message_of<UserError>([&] { trainer.run<&prints_and_throws>(); });
  EXPECT_SAYS(text, "that was all");
  EXPECT_EQ(lines_of("logs/rank-1.log"), std::vector<std::string>{"last words of rank 1"});
}

TEST_F(TrainerTest, OneCallTrainsOnGpusOfAType) {
  const Variables variables{{"PHAROS_RESOURCES", "cpu=2,gpu=3"}, {"PHAROS_LABELS", "gpu_type=A10"}};
  const TrainResult result = distributed<&has_a_gpu>({.gpus = 2, .gpu_type = "A10", .trainer = {.progress = false}}, 7);
  EXPECT_EQ(result.last("gpus"), 1);
  EXPECT_EQ(result.last("ranks"), 2);
  EXPECT_EQ(result.last("given"), 7);
  const std::string text = message_of<InvalidArgument>(
      [&] { distributed<&has_a_gpu>({.gpus = 4, .gpu_type = "A10", .trainer = {.progress = false}}, 7); });
  EXPECT_SAYS(text, "GPU");
  const std::string other = message_of<InvalidArgument>(
      [&] { distributed<&has_a_gpu>({.gpus = 2, .gpu_type = "T4", .trainer = {.progress = false}}, 7); });
  EXPECT_SAYS(other, "gpu_type");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { distributed<&has_a_gpu>({}, 7); }), "DistributedOptions::gpus");
  EXPECT_EQ(distributed<&has_a_gpu>({.workers = 2, .trainer = {.progress = false}}, 7).last("gpus"), 0);
}

TEST_F(TrainerTest, OptionsThatMakeNoSenseAreRefused) {
  Runtime runtime;
  const auto refusal = [&](TrainerOptions given) {
    return message_of<InvalidArgument>([&] { Trainer{runtime, std::move(given)}; });
  };
  EXPECT_SAYS(refusal({.scaling = {.workers = 0}}), "without workers");
  EXPECT_SAYS(refusal({.save_every = 5}), "TrainerOptions::folder");
  EXPECT_SAYS(refusal({.keep_best = 1}), "TrainerOptions::folder");
  EXPECT_SAYS(refusal({.timeout = 0s}), "timeout");
}

}  // namespace
}  // namespace pharos::ml::trainer
