#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/optuna_study.hpp>
#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::tuner {

using namespace std::chrono_literals;
using State = TrialResult::State;

struct Point {
  double x = 0;
  int n = 0;
  void fields(Fields& f) {
    f("x", x, uniform(-1, 1));
    f("n", n, integers(1, 4));
  }
};

// ---- Objectives

double of_params(const Params& params) {
  return params.get<double>("x") * params.get<double>("x");
}
double of_struct(const Point& point, double scale) {
  return scale * point.n + point.x;
}
Metrics of_trial(Trial& trial, const SharedSpan<float>& data) {
  double sum = 0;
  for (const float each : data) sum += each;
  while (trial.step() < 3) {
    if (trial.report(sum + static_cast<double>(trial.step())) != Verdict::kGoOn) break;
  }
  return {{"value", sum}, {"process", static_cast<double>(::getpid())}};
}

/// The parameters that it asks for as it runs depend on those that it has got.
double asks(Trial& trial) {
  const std::string kind = trial.choice("kind", {"line", "curve"});
  if (kind == "line") return trial.uniform("slope", 0, 1);
  const std::int64_t degree = trial.integer("degree", 2, 5);
  EXPECT_EQ(trial.integer("degree", 2, 5), degree) << "it is the same when it is asked for again";
  return static_cast<double>(degree) + trial.log_uniform("scale", 1e-3, 1);
}
double asks_otherwise(Trial& trial) {
  trial.uniform("slope", 0, 1);
  return trial.uniform("slope", 2, 3);
}

/// One trial asks for another range than the others.
double asks_for_more(Trial& trial) {
  return trial.uniform("slope", 0, trial.number() == 1 ? 2 : 1);
}

double throws_if_odd(const Params& params) {
  if (params.get<int>("n") % 2 == 1) throw std::runtime_error{"odd numbers are not learned"};
  return params.get<int>("n");
}

double always_throws(const Params& params) {
  throw std::runtime_error{"there is no data for " + std::to_string(params.get<int>("n"))};
}

/// Dies twice, in the middle, and resumes from its checkpoint.
double dies_twice(Trial& trial) {
  auto done = trial.checkpoint<std::vector<std::uint64_t>>().value_or(std::vector<std::uint64_t>{});
  EXPECT_EQ(done.size(), trial.step());
  while (trial.step() < 10) {
    if (trial.step() == 7 && trial.attempt() < 2) ::kill(::getpid(), SIGKILL);
    done.push_back(trial.step() + 1);
    trial.report(static_cast<double>(done.size()), [&] { return done; });
  }
  return static_cast<double>(done.size());
}

constexpr int kDies = 150;

/// Writes down which trial has begun. One trial dies in its first attempt.
double is_short(const Params& params, const std::string& begun) {
  const int n = params.get<int>("n");
  bool again = false;
  {
    std::ifstream before{begun};
    for (int each = 0; before >> each;) again = again || each == n;
  }
  std::ofstream{begun, std::ios::app} << std::to_string(n) + "\n";  // in one write
  std::this_thread::sleep_for(2ms);                                 // simulated work
  if (n == kDies && !again) ::kill(::getpid(), SIGKILL);
  return n;
}

double hangs(Trial& trial) {
  trial.report(1);
  if (trial.attempt() == 0) {
    for (;;) ::pause();
  }
  return 2;
}

/// The second trial waits until the first trial has ended and it may use the first trial's core.
double waits_for_cores(Trial& trial, const std::string& began) {
  const auto begin = std::chrono::steady_clock::now();
  const auto waits = [&](const auto& is_so) {
    while (!is_so() && std::chrono::steady_clock::now() < begin + 20s) std::this_thread::sleep_for(1ms);
  };
  if (trial.number() == 1) {
    EXPECT_EQ(trial.cores(), 1U);
    std::ofstream{began} << "now";
    waits([&] { return trial.cores() == 2; });
  } else {
    waits([&] { return std::filesystem::exists(began); });
  }
  return trial.cores();
}

double works_for_ever(Trial& trial) {
  for (;;) {
    std::this_thread::sleep_for(1ms);  // simulated work
    if (trial.report(static_cast<double>(trial.step())) != Verdict::kGoOn) return -1;
  }
}

/// Gets better with each step; how fast depends on x.
class Learner {
 public:
  explicit Learner(double scale) : scale_{scale} { ++made; }

  void setup(const Params& params) {
    x_ = params.get<double>("x");
    level_ = 0;
  }
  void reset(const Params& params) { setup(params); }
  Metrics step() {
    level_ += x_;
    return {{"value", -scale_ * level_}, {"made", static_cast<double>(made)}};
  }
  double save() const { return level_; }
  void load(double level) { level_ = level; }

 private:
  double scale_;
  double x_ = 0;
  double level_ = 0;
  static inline int made = 0;
};

/// Its steps take time, so that all trials run beside each other.
class SlowLearner : public Learner {
 public:
  using Learner::Learner;
  Metrics step() {
    std::this_thread::sleep_for(4ms);  // simulated work
    return Learner::step();
  }
};

/// Its first setup() in a process throws. reset() needs what setup() makes.
class SetUpLate {
 public:
  void setup(const Params&) {
    if (++tries == 1) throw std::runtime_error{"the data is late"};
    data_ = 1;
  }
  void reset(const Params&) {
    if (!data_) throw std::logic_error{"it was never set up"};
  }
  double step() { return *data_; }

 private:
  std::optional<double> data_;
  static inline int tries = 0;
};

class CannotBeMade {
 public:
  CannotBeMade() { throw std::runtime_error{"the data is not there"}; }
  void setup(const Params&) {}
  double step() { return 0; }
};

/// Two workers that sum their gradients. The second worker dies in the first attempt.
double together(Trial& trial) {
  double weight = trial.checkpoint<double>().value_or(trial.params().get<double>("x"));
  while (trial.step() < 4) {
    if (trial.step() == 2 && trial.attempt() == 0 && trial.worker() == 1) ::kill(::getpid(), SIGKILL);
    std::vector<double> gradient{static_cast<double>(trial.worker() + 1)};
    trial.communicator().all_reduce(std::span{gradient});
    weight += gradient[0];
    if (trial.report(weight, [&] { return weight; }) != Verdict::kGoOn) break;
  }
  return weight;
}

namespace {

class TunerTest : public cluster::ClusterTest {
 protected:
  const Space space_{{"x", uniform(-1, 1)}, {"n", integers(1, 4)}};

  TunerOptions options(std::uint64_t trials) const {
    TunerOptions options{.space = space_, .trials = trials, .at_once = 2, .worker = {}, .progress = false};
    options.searcher = random_search(space_, 3);
    return options;
  }
};

TEST_F(TunerTest, AFunctionOfParametersRunsOnceForEachTrial) {
  Runtime runtime;
  const SweepResults results = Tuner{runtime, options(40)}.run<&of_params>();
  ASSERT_EQ(results.count(State::kComplete), 40U);
  double least = 1;
  for (const TrialResult& trial : results.trials()) {
    EXPECT_EQ(*trial.value, std::pow(trial.params.get<double>("x"), 2));
    least = std::min(least, *trial.value);
  }
  EXPECT_EQ(*results.best().value, least);
}

TEST_F(TunerTest, AStructIsReadAndWhatElseIsGivenArrives) {
  Runtime runtime;
  auto its = options(10);
  its.space = space_of<Point>();
  const SweepResults results = Tuner{runtime, std::move(its)}.run<&of_struct>(100.0);
  for (const TrialResult& trial : results.trials()) {
    EXPECT_EQ(*trial.value, 100.0 * trial.params.get<int>("n") + trial.params.get<double>("x"));
  }
}

TEST_F(TunerTest, ActorsAreUsedAgainAndDataIsSharedByReference) {
  Runtime runtime;
  auto data = runtime.create<float>(100'000);
  for (float& each : data.span()) each = 1;
  const SweepResults results = Tuner{runtime, options(50)}.run<&of_trial>(std::move(data).seal());
  std::set<double> processes;
  for (const TrialResult& trial : results.trials()) {
    EXPECT_EQ(*trial.value, 100'000);
    EXPECT_EQ(trial.step, 3U);
    processes.insert(*trial.metrics.find("process"));
  }
  EXPECT_LE(processes.size(), 2U);
}

TEST_F(TunerTest, ParametersCanBeAskedForAsTheTrialRuns) {
  Runtime runtime;
  TunerOptions its{.trials = 60, .at_once = 2, .worker = {}, .progress = false};
  its.searcher = tpe(its.space, {.seed = 1});
  const SweepResults results = Tuner{runtime, std::move(its)}.run<&asks>();
  EXPECT_EQ(results.count(State::kComplete), 60U);
  std::set<std::string> kinds;
  for (const TrialResult& trial : results.trials()) {
    const auto kind = trial.params.get<std::string>("kind");
    kinds.insert(kind);
    EXPECT_EQ(trial.params.find("slope") != nullptr, kind == "line");
    EXPECT_EQ(trial.params.find("degree") != nullptr, kind == "curve");
  }
  EXPECT_EQ(kinds.size(), 2U);
  EXPECT_LT(*results.best().value, 0.2);

  TunerOptions other{.trials = 1, .at_once = 1, .worker = {}, .progress = false};
  const SweepResults conflict = Tuner{runtime, std::move(other)}.run<&asks_otherwise>();
  EXPECT_EQ(conflict.trials()[0].state, State::kFailed);
  EXPECT_NE(conflict.trials()[0].error.find("\"slope\" of trial 0"), std::string::npos) << conflict.trials()[0].error;
}

TEST_F(TunerTest, ADomainThatIsNotTheOneOfEarlierTrialsIsTheTrialsErrorAndTheSweepGoesOn) {
  Runtime runtime;
  TunerOptions its{.trials = 4, .at_once = 1, .worker = {}, .progress = false};
  its.searcher = tpe(its.space, {.seed = 1});
  const SweepResults results = Tuner{runtime, std::move(its)}.run<&asks_for_more>();
  ASSERT_EQ(results.trials().size(), 4U);
  for (const TrialResult& trial : results.trials()) {
    const bool refused = trial.number == 1;
    EXPECT_EQ(trial.state, refused ? State::kFailed : State::kComplete) << trial.error;
    EXPECT_EQ(trial.error.find("Give it another name") != std::string::npos, refused) << trial.error;
  }
}

TEST_F(TunerTest, AnExceptionIsTheTrialsErrorAndTheSweepGoesOn) {
  Runtime runtime;
  const SweepResults results = Tuner{runtime, options(30)}.run<&throws_if_odd>();
  for (const TrialResult& trial : results.trials()) {
    const bool odd = trial.params.get<int>("n") % 2 == 1;
    EXPECT_EQ(trial.state, odd ? State::kFailed : State::kComplete);
    EXPECT_EQ(trial.error.find("odd numbers are not learned") != std::string::npos, odd) << trial.error;
  }
  EXPECT_EQ(*results.best().value, 2);
}

TEST_F(TunerTest, TrialsThatAllFailAlikeEndTheSweep) {
  Runtime runtime;
  const std::string text = message_of<UserError>([&] { Tuner{runtime, options(40)}.run<&always_throws>(); });
  EXPECT_SAYS(text, "10 trials in a row have failed alike, and none has a result; trial ");
  EXPECT_SAYS(text, "threw std::runtime_error: there is no data for ");
}

TEST_F(TunerTest, ATrialWhoseWorkerDiesGoesOnFromWhatItHasSaved) {
  Runtime runtime;
  auto its = options(4);
  its.save_every = 3;
  const SweepResults results = Tuner{runtime, std::move(its)}.run<&dies_twice>();
  for (const TrialResult& trial : results.trials()) {
    EXPECT_EQ(trial.state, State::kComplete) << trial.error;
    EXPECT_EQ(*trial.value, 10);
    EXPECT_EQ(trial.attempts, 3U);
    EXPECT_NE(trial.error.find("SIGKILL"), std::string::npos) << trial.error;
  }
}

TEST_F(TunerTest, ShortTrialsAreOrderedAheadAndBeginElsewhereWhenTheirWorkerDies) {
  constexpr int kTrials = 300;
  const TemporaryFolder folder;
  const auto begun = (folder.path() / "begun").string();
  Runtime runtime;
  TunerOptions its = options(kTrials);
  std::vector<Value> each;
  for (std::int64_t n = 0; n < kTrials; ++n) each.emplace_back(n);
  its.space = Space{{"n", grid(each)}};
  its.searcher = grid_search(its.space);
  const SweepResults results = Tuner{runtime, std::move(its)}.run<&is_short>(begun);
  ASSERT_EQ(results.count(State::kComplete), static_cast<std::size_t>(kTrials));
  std::map<int, int> times;
  std::ifstream file{begun};
  for (int n = 0; file >> n;) ++times[n];
  std::map<double, int> at_once;
  for (const TrialResult& trial : results.trials()) {
    const int n = trial.params.get<int>("n");
    EXPECT_EQ(trial.attempts, n == kDies ? 2U : 1U) << n;
    EXPECT_EQ(times[n], n == kDies ? 2 : 1) << n;
    ++at_once[trial.began_s];
    --at_once[trial.ended_s];
  }
  int most = 0;
  int now = 0;
  for (const auto& [when, more] : at_once) most = std::max(most, now += more);
  EXPECT_EQ(most, 4) << "two run, and each has one behind it";
}

TEST_F(TunerTest, ATrialThatHangsIsEndedAndBegunAgain) {
  Runtime runtime;
  auto its = options(2);
  its.silence = 300ms;
  const SweepResults results = Tuner{runtime, std::move(its)}.run<&hangs>();
  for (const TrialResult& trial : results.trials()) {
    EXPECT_EQ(trial.state, State::kComplete);
    EXPECT_EQ(trial.attempts, 2U);
    EXPECT_EQ(*trial.value, 2);
  }
}

TEST_F(TunerTest, CoresThatAreFreeGoToTrialsThatRun) {
  const TemporaryFolder folder;
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  for (const bool deterministic : {false, true}) {
    auto its = options(2);
    its.worker = {.cpus = 1};
    its.deterministic = deterministic;
    if (deterministic) its.time = 1s;
    its.grace = 0s;
    const auto began = (folder.path() / std::to_string(deterministic)).string();
    const SweepResults results = Tuner{runtime, std::move(its)}.run<&waits_for_cores>(began);
    EXPECT_EQ(results.trials()[0].value, 1.0);
    EXPECT_EQ(results.trials()[1].value, deterministic ? std::nullopt : std::optional{2.0});
  }
}

TEST_F(TunerTest, TimeIsKept) {
  Runtime runtime;
  auto its = options(0);
  its.time = 500ms;
  const auto begin = std::chrono::steady_clock::now();
  const SweepResults results = Tuner{runtime, std::move(its)}.run<&works_for_ever>();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_EQ(results.count(State::kStopped), 2U);
  EXPECT_GT(results.trials()[0].step, 10U);
}

TEST_F(TunerTest, AClassIsStepStoppedAndSetUpAnew) {
  Runtime runtime;
  auto its = options(30);
  its.scheduler = asha({.most = 27, .factor = 3, .promotes = true});
  const SweepResults results = Tuner{runtime, std::move(its)}.run<Learner>(2.0);
  EXPECT_EQ(results.best().step, 27U);
  // The trial paused on its way, perhaps continued at the other worker, and lost nothing.
  EXPECT_NEAR(*results.best().value, -2 * 27 * results.best().params.get<double>("x"), 1e-9);
  for (const TrialResult& trial : results.trials()) EXPECT_EQ(*trial.metrics.find("made"), 1);
}

TEST_F(TunerTest, AnObjectWhoseSetupThrowsIsNotReset) {
  Runtime runtime;
  auto its = options(3);
  its.at_once = 1;
  its.steps = 1;
  const SweepResults results = Tuner{runtime, std::move(its)}.run<SetUpLate>();
  ASSERT_EQ(results.trials().size(), 3U);
  for (const TrialResult& trial : results.trials()) {
    const bool is_first = trial.number == 0;
    EXPECT_EQ(trial.state, is_first ? State::kFailed : State::kComplete) << trial.error;
    EXPECT_EQ(trial.error.find("the data is late") != std::string::npos, is_first) << trial.error;
  }
}

TEST_F(TunerTest, AGoodTrialsCopyGoesOnWithOtherParameters) {
  Runtime runtime;
  auto its = options(8);
  its.at_once = 8;
  its.steps = 40;
  its.save_every = 4;
  its.scheduler = pbt(space_, {.seed = 2, .interval = 4});
  const SweepResults results = Tuner{runtime, std::move(its)}.run<SlowLearner>(1.0);
  EXPECT_EQ(results.count(State::kComplete), 8U) << results.to_csv();
  const auto began_with = random_search(space_, 3);
  std::size_t copies = 0;
  for (const TrialResult& trial : results.trials()) copies += trial.params != began_with->ask(trial.number) ? 1 : 0;
  EXPECT_GE(copies, 1U) << results.table();
}

TEST_F(TunerTest, WhatTheBestTrialHasSavedIsThere) {
  Runtime runtime;
  auto its = options(10);
  its.steps = 5;
  its.save_every = 5;
  const SweepResults results = Tuner{runtime, std::move(its)}.run<Learner>(1.0);
  EXPECT_NEAR(results.checkpoint<double>(results.best()), -*results.best().value, 1e-12);
}

TEST_F(TunerTest, WorkersThatCannotBeMadeEndTheSweepWithTheReason) {
  Runtime runtime;
  const SweepResults results = Tuner{runtime, options(1)}.run<CannotBeMade>();
  EXPECT_NE(results.trials()[0].error.find("the data is not there"), std::string::npos);
  auto its = options(3);
  its.worker = {.cpus = 1000};
  Tuner tuner{runtime, std::move(its)};
  try {
    static_cast<void>(tuner.run<&of_params>());
    FAIL();
  } catch (const Exception& error) {
    EXPECT_NE(std::string{error.what()}.find("1000 CPU"), std::string::npos) << error.what();
  }
}

TEST_F(TunerTest, WorkersThatAreRefusedEndTheSweepWithAnException) {
  Runtime runtime;
  auto its = options(3);
  its.worker = {.cpus = -1};
  Tuner tuner{runtime, std::move(its)};
  EXPECT_THROW(static_cast<void>(tuner.run<&of_params>()), InvalidArgument);
}

TEST_F(TunerTest, ATrialOfTwoWorkersReportsAsOneAndSurvivesTheLossOfOne) {
  Runtime runtime;
  auto its = options(3);
  its.at_once = 1;
  its.workers = 2;
  its.save_every = 1;
  const SweepResults results = Tuner{runtime, std::move(its)}.run<&together>();
  for (const TrialResult& trial : results.trials()) {
    EXPECT_EQ(trial.state, State::kComplete) << trial.error;
    EXPECT_NEAR(*trial.value, trial.params.get<double>("x") + 4 * 3, 1e-12);
    EXPECT_EQ(trial.attempts, 2U);
    EXPECT_EQ(trial.step, 4U);
  }
}

TEST_F(TunerTest, AsManyRunAtOnceAsThereIsRoomFor) {
  Runtime runtime{RuntimeOptions{.cpus = 3}};
  auto its = options(12);
  its.at_once = 0;
  its.worker = {.cpus = 1};
  const SweepResults results = Tuner{runtime, std::move(its)}.run<&of_params>();
  EXPECT_EQ(results.count(State::kComplete), 12U);
}

/// Reports which device the trial had, and when.
Metrics on_a_gpu(Trial& trial) {
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const std::vector<std::string> gpus = context().gpus;
  const double begin = seconds();
  std::this_thread::sleep_for(20ms);  // simulated work
  return {{"value", static_cast<double>(trial.number())},
          {"devices", static_cast<double>(gpus.size())},
          {"device", std::stod(gpus.at(0))},
          {"begin", begin},
          {"end", seconds()}};
}

TEST_F(TunerTest, TrialsShareGpusByFractions) {
  constexpr int kAtOnce = 4;  // on each of two devices
  ::setenv("PHAROS_RESOURCES", "cpu=8,gpu=2", 1);
  std::optional<Runtime> runtime{std::in_place};
  ::unsetenv("PHAROS_RESOURCES");
  auto its = options(48);
  its.at_once = 0;
  its.worker = {.gpus = 1.0 / kAtOnce};
  const SweepResults results = Tuner{*runtime, std::move(its)}.run<&on_a_gpu>();
  ASSERT_EQ(results.count(State::kComplete), 48U);
  std::map<double, std::map<double, int>> at_once;  // by device
  for (const TrialResult& trial : results.trials()) {
    EXPECT_EQ(*trial.metrics.find("devices"), 1);
    auto& its_device = at_once[*trial.metrics.find("device")];
    ++its_device[*trial.metrics.find("begin")];
    --its_device[*trial.metrics.find("end")];
  }
  EXPECT_EQ(at_once.size(), 2U);
  for (const auto& [device, changes] : at_once) {
    int most = 0;
    int now = 0;
    for (const auto& [when, more] : changes) most = std::max(most, now += more);
    EXPECT_EQ(most, kAtOnce) << "on device " << device;
  }
}

double of_study(const Params& params) {
  return params.get<double>("eta") * params.get<int>("depth");
}

TEST_F(TunerTest, AStudyOfOptunasIsGoneOnWith) {
  const TemporaryFolder folder;
  const auto sweep = folder.path() / "sweep";
  import_optuna_study(ROOT "/tests/tune/data/optuna_journal.log", sweep, "sizes");
  Runtime runtime;
  auto its = options(31);
  its.space = Space{{"eta", log_uniform(1e-4, 1e-1)},
                    {"depth", integers(3, 9)},
                    {"subsample", quantised(0.5, 1, 0.25)},
                    {"width", log_integers(4, 64)},
                    {"booster", choice({std::string{"gbtree"}, std::string{"dart"}, std::string{"None"}})},
                    {"fixed", choice({true})}};
  its.space.when("booster", std::string{"dart"}, Space{{"momentum", uniform(0, 1)}});
  its.goal = Goal::kMaximise;
  const auto told = tpe(its.space, {.seed = 1});
  its.searcher = tpe(its.space, {.seed = 1});
  its.scheduler = asha({.most = 8});
  its.folder = sweep;
  const SweepResults results = Tuner{runtime, std::move(its)}.restore<&of_study>();
  ASSERT_EQ(results.trials().size(), 31U);
  EXPECT_EQ(results.count(State::kComplete), 9U + 20U);
  EXPECT_EQ(results.trials()[3].state, State::kStopped);
  // The searcher has learned from the imported trials what a searcher learns that is told of them.
  for (std::uint64_t trial = 0; trial < 11; ++trial) {
    const TrialResult& its_result = results.trials()[trial];
    told->began(trial, its_result.params);
    Outcome outcome{.value = -its_result.value.value_or(0), .step = its_result.step};
    if (its_result.state == State::kStopped) outcome.state = Outcome::State::kStopped;
    told->tell(trial, outcome);
  }
  EXPECT_EQ(results.trials()[11].params, told->ask(11));
}

TEST_F(TunerTest, ATunerRunsOneSweep) {
  Runtime runtime;
  Tuner tuner{runtime, options(2)};
  static_cast<void>(tuner.run<&of_params>());
  EXPECT_THROW(static_cast<void>(tuner.run<&of_params>()), FailedPrecondition);
}

}  // namespace
}  // namespace pharos::ml::tuner
