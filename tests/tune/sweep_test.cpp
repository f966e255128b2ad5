#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <pharos/ml/simulate.hpp>

#include "run/journal.hpp"
#include "run/run_sweep.hpp"
#include "run/simulated_slots.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using State = TrialResult::State;

const Space& space_of_one() {
  static const Space space{{"x", uniform(0, 1)}};
  return space;
}

/// Gets better with each step, and is better the smaller x is.
SimulatedStep learns(const Params& params, std::uint64_t step, std::vector<double>&) {
  return {.metrics = params.get<double>("x") + 1 / static_cast<double>(step), .time = 1s};
}

TunerOptions options_of(std::uint64_t trials, std::unique_ptr<TrialScheduler> scheduler = nullptr) {
  TunerOptions options{.space = space_of_one(), .trials = trials};
  options.searcher = random_search(options.space, 1);
  options.scheduler = std::move(scheduler);
  return options;
}

/// Notes the calls of ask() and tell().
class Noted final : public Searcher {
 public:
  struct Notes {
    std::vector<std::set<std::uint64_t>> told_before;  // by ask(): the trials that had been told before
    std::set<std::uint64_t> told;
    std::vector<Outcome> outcomes;
  };
  explicit Noted(std::shared_ptr<Notes> notes) : notes_{std::move(notes)} {}

  Params ask(std::uint64_t trial) override {
    EXPECT_EQ(trial, notes_->told_before.size());
    notes_->told_before.push_back(notes_->told);
    return by_chance_->ask(trial);
  }
  Value ask(std::uint64_t trial, std::string_view name, const Domain& domain) override {
    return by_chance_->ask(trial, name, domain);
  }
  void began(std::uint64_t, const Params&) override {}
  void tell(std::uint64_t trial, const Outcome& outcome) override {
    EXPECT_TRUE(notes_->told.insert(trial).second) << "trial " << trial << " is told twice";
    notes_->outcomes.push_back(outcome);
  }

 private:
  std::shared_ptr<Notes> notes_;
  std::unique_ptr<Searcher> by_chance_ = random_search(space_of_one(), 1);
};

// ---- Runs of trials

TEST(Sweep, EachTrialRunsOnceAndWorkersAreNeverIdle) {
  auto options = options_of(100);
  options.steps = 10;
  const SweepResults results = simulate(std::move(options), 8, learns);
  ASSERT_EQ(results.trials().size(), 100U);
  for (const TrialResult& trial : results.trials()) {
    EXPECT_EQ(trial.state, State::kComplete);
    EXPECT_EQ(trial.step, 10U);
    EXPECT_EQ(*trial.value, trial.params.get<double>("x") + 0.1);
    EXPECT_EQ(trial.attempts, 1U);
  }
  EXPECT_DOUBLE_EQ(results.seconds(), 13 * 10);  // 100 trials in 13 rounds of 8
  const auto least = std::min_element(results.trials().begin(), results.trials().end(),
                                      [](const auto& a, const auto& b) { return *a.value < *b.value; });
  EXPECT_EQ(results.best().number, least->number);
}

TEST(Sweep, AGridWithoutASearcherIsTriedCompletely) {
  const Space space{{"a", grid({1, 2, 3})}, {"b", grid({10, 20})}};
  const SweepResults results = simulate({.space = space, .steps = 1}, 2, [](const Params&, std::uint64_t, auto&) {
    return SimulatedStep{.metrics = 0.0, .time = 1s};
  });
  std::set<std::pair<int, int>> tried;
  for (const TrialResult& trial : results.trials()) {
    tried.emplace(trial.params.get<int>("a"), trial.params.get<int>("b"));
  }
  EXPECT_EQ(results.trials().size(), 6U);
  EXPECT_EQ(tried.size(), 6U);
}

TEST(Sweep, TheGreatestIsBestWhenThatIsTheGoal) {
  auto options = options_of(20);
  options.goal = Goal::kMaximise;
  options.steps = 1;
  const SweepResults results = simulate(std::move(options), 4, learns);
  for (const TrialResult& trial : results.trials()) EXPECT_LE(*trial.value, *results.best().value);
}

TEST(Sweep, PointsToStartFromAreTriedFirstAsFarAsTheyAreGiven) {
  const Space space{{"x", uniform(0, 1)}, {"kind", choice({"a", "b"})}};
  TunerOptions options{.space = space, .trials = 5, .steps = 1, .first = {{{"x", 0.25}}, {{"kind", "b"}}}};
  const SweepResults results = simulate(std::move(options), 2, learns);
  EXPECT_EQ(results.trials()[0].params.get<double>("x"), 0.25);
  EXPECT_NE(results.trials()[0].params.find("kind"), nullptr);
  EXPECT_EQ(results.trials()[1].params.get<std::string>("kind"), "b");
}

TEST(Sweep, AWorkerThatDiesIsTriedAgainFromWhatItHasSavedAndEachResultCountsOnce) {
  int deaths = 0;
  std::map<std::uint64_t, int> reported;
  const auto dies_at_five = [&](const Params& params, std::uint64_t step, std::vector<double>& state) {
    if (step == 5 && state.size() == 4 && deaths < 2) {
      ++deaths;
      return SimulatedStep{.time = 1s, .dies = true};
    }
    state.push_back(params.get<double>("x"));
    EXPECT_EQ(state.size(), step) << "it goes on with what it has saved";
    return SimulatedStep{.metrics = state.back(), .time = 1s};
  };
  auto notes = std::make_shared<Noted::Notes>();
  auto options = options_of(1);
  options.searcher = std::make_unique<Noted>(notes);
  options.steps = 8;
  options.save_every = 2;
  const SweepResults results = simulate(std::move(options), 1, dies_at_five);
  EXPECT_EQ(results.trials()[0].state, State::kComplete);
  EXPECT_EQ(results.trials()[0].attempts, 3U);
  EXPECT_EQ(results.trials()[0].step, 8U);
  EXPECT_EQ(notes->outcomes.size(), 1U);
  EXPECT_DOUBLE_EQ(results.seconds(), 8 + 2);
}

TEST(Sweep, ATrialWhoseWorkerDiesTooOftenHasFailedAndSaysWhy) {
  auto options = options_of(3);
  options.retries = 2;
  const SweepResults results = simulate(std::move(options), 1, [](const Params&, std::uint64_t, std::vector<double>&) {
    return SimulatedStep{.time = 1s, .dies = true};
  });
  EXPECT_EQ(results.count(State::kFailed), 3U);
  EXPECT_EQ(results.trials()[0].attempts, 3U);
  EXPECT_NE(results.trials()[0].error.find("its worker died"), std::string::npos);
  try {
    static_cast<void>(results.best());
    FAIL();
  } catch (const NotFound& none) {
    EXPECT_NE(std::string{none.what()}.find("its worker died"), std::string::npos) << none.what();
  }
}

TEST(Sweep, ATrialFromWhichNothingComesIsEnded) {
  auto options = options_of(2);
  options.silence = 60s;
  options.retries = 1;
  const SweepResults results =
      simulate(std::move(options), 1, [](const Params& params, std::uint64_t step, std::vector<double>&) {
        const bool hangs = params.get<double>("x") < 2 && step == 3;
        return SimulatedStep{.metrics = 1, .time = hangs ? Duration{24h} : Duration{1s}};
      });
  EXPECT_EQ(results.count(State::kFailed), 2U);
  EXPECT_NE(results.trials()[0].error.find("the trial sent nothing for 1 min"), std::string::npos)
      << results.trials()[0].error;
  EXPECT_NEAR(results.seconds(), 2 * 2 * 62, 1);
}

TEST(Sweep, NoTrialBeginsAfterItsTimeAndThoseThatRunAreStoppedAtTheirNextReport) {
  auto options = options_of(0);
  options.time = 100s;
  options.steps = 7;
  const SweepResults results = simulate(std::move(options), 3, learns);
  EXPECT_GE(results.trials().size(), 3U * 14);
  EXPECT_NEAR(results.seconds(), 100, 1.01);
  EXPECT_EQ(results.count(State::kRunning), 0U);
  for (const TrialResult& trial : results.trials()) EXPECT_LT(trial.began_s, 100);
}

TEST(Sweep, ATrialThatDoesNotReportIsEndedWhenItsGraceIsOver) {
  auto options = options_of(4);
  options.time = 100s;
  options.grace = 10s;
  const SweepResults results = simulate(std::move(options), 2, [](const Params&, std::uint64_t, std::vector<double>&) {
    return SimulatedStep{.metrics = 1, .time = 24h};
  });
  EXPECT_NEAR(results.seconds(), 110, 0.1);
  EXPECT_EQ(results.trials().size(), 2U);
  EXPECT_EQ(results.count(State::kFailed), 2U);
}

TEST(Sweep, WhatIsNoNumberAndWhatIsNotThereAreFailuresThatSaySo) {
  for (const bool is_nan : {true, false}) {
    auto options = options_of(1);
    options.metric = "loss";
    const SweepResults results =
        simulate(std::move(options), 1, [&](const Params&, std::uint64_t, std::vector<double>&) {
          const Metrics nan{{"loss", std::numeric_limits<double>::quiet_NaN()}};
          return SimulatedStep{.metrics = is_nan ? nan : Metrics{{"accuracy", 1}}, .last = true};
        });
    EXPECT_EQ(results.trials()[0].state, State::kFailed);
    const char* const wanted = is_nan ? "not a number" : "\"loss\"";
    EXPECT_NE(results.trials()[0].error.find(wanted), std::string::npos) << results.trials()[0].error;
  }
  auto options = options_of(1);
  options.metric = "loss";
  const SweepResults results = simulate(std::move(options), 1, [](const Params&, std::uint64_t, std::vector<double>&) {
    return SimulatedStep{.metrics = {{"accuracy", 1}, {"error", 0}}};
  });
  EXPECT_NE(results.trials()[0].error.find("has reported only accuracy, error"), std::string::npos)
      << results.trials()[0].error;
}

TEST(Sweep, AMetricOfNanWhileItRunsIsTheWorstAndNotTheEnd) {
  auto options = options_of(8, asha({.most = 9, .factor = 3}));
  const SweepResults results =
      simulate(std::move(options), 1, [](const Params& params, std::uint64_t step, std::vector<double>&) {
        const bool is_nan = params.get<double>("x") > 0.5 && step == 1;
        return SimulatedStep{.metrics = is_nan ? std::numeric_limits<double>::quiet_NaN() : params.get<double>("x"),
                             .time = 1s};
      });
  EXPECT_LE(results.best().params.get<double>("x"), 0.5);
  EXPECT_EQ(results.best().state, State::kComplete);
}

TEST(Sweep, ConstraintsReachTheSearcher) {
  auto notes = std::make_shared<Noted::Notes>();
  auto options = options_of(3);
  options.searcher = std::make_unique<Noted>(notes);
  options.constraints = {"memory", "time"};
  static_cast<void>(simulate(std::move(options), 1, [](const Params&, std::uint64_t, std::vector<double>&) {
    return SimulatedStep{.metrics = {{"value", 1}, {"memory", -2}}, .last = true};
  }));
  ASSERT_EQ(notes->outcomes.size(), 3U);
  EXPECT_EQ(notes->outcomes[0].constraints, (std::vector{-2.0, std::numeric_limits<double>::infinity()}));
}

TEST(Sweep, OptionsThatMakeNoSenseAreRefusedWithWhatToDo) {
  const auto refused = [](TunerOptions options, const char* why) {
    try {
      static_cast<void>(simulate(std::move(options), 1, learns));
      FAIL() << why;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string{error.what()}.find(why), std::string::npos) << error.what();
    }
  };
  refused({.space = space_of_one()}, "the number of trials is not set");
  refused({.space = space_of_one(), .trials = 1, .first = {{{"y", 1.0}}}}, "which the space does not have");
  refused({.space = space_of_one(), .trials = 1, .first = {{{"x", 7.0}}}}, "outside of its domain");
  refused({.space = space_of_one(), .trials = 1, .workers = 0}, "TunerOptions::workers is 0");
  EXPECT_THROW(static_cast<void>(simulate({.space = space_of_one(), .trials = 1}, 0, learns)), InvalidArgument);
}

TEST(Sweep, AGridIsTriedOnceWithoutBeingCounted) {
  const Space space{{"a", grid({1, 2, 3})}, {"b", grid({"x", "y"})}};
  TunerOptions options{.space = space};
  options.searcher = grid_search(space);
  const SweepResults results = simulate(std::move(options), 4, [](const Params&, std::uint64_t, std::vector<double>&) {
    return SimulatedStep{.metrics = 1, .last = true};
  });
  std::set<std::string> tried;
  for (const TrialResult& trial : results.trials()) tried.insert(trial.params.to_string());
  EXPECT_EQ(tried.size(), 6U);
  EXPECT_EQ(results.trials().size(), 6U);
}

// A trial that was stopped or paused may ask for another parameter before it returns.
TEST(Sweep, IsReplayedAlthoughATrialAsksAfterItsEnd) {
  for (const bool pauses : {false, true}) {
    const SweepRules rules{.trials = 2, .steps = pauses ? 0U : 1U};
    const auto searcher_of = [] { return tpe(Space{}); };
    const auto scheduler_of = [&] { return pauses ? asha({.most = 4, .factor = 2, .promotes = true}) : run_all(); };
    const auto searcher = searcher_of();
    const auto scheduler = scheduler_of();
    std::vector<SweepEvent> events;
    Sweep sweep{rules, Space{}, *searcher, *scheduler, [&](const SweepEvent& event) { events.push_back(event); }};
    ASSERT_EQ(sweep.next(0), 0U);
    ASSERT_TRUE(sweep.ask(0, "x", uniform(0, 1)));
    const auto decision = sweep.report(0, 1, 0.5, 1);
    ASSERT_TRUE(decision);
    EXPECT_EQ(decision->verdict, pauses ? Verdict::kPause : Verdict::kStop);
    const auto late = sweep.ask(0, "y", uniform(2, 3));
    ASSERT_TRUE(late);
    EXPECT_TRUE(uniform(2, 3).holds(*late));
    EXPECT_EQ(sweep.at(0).params.find("y"), nullptr);

    const auto other_searcher = searcher_of();
    const auto other_scheduler = scheduler_of();
    Sweep again{rules, Space{}, *other_searcher, *other_scheduler, [](const SweepEvent&) {}};
    for (const SweepEvent& event : events) {
      const auto replayed = again.replay(event);
      EXPECT_TRUE(replayed) << replayed.error().to_string();
    }
    EXPECT_EQ(again.at(0).params, sweep.at(0).params);
  }
}

/// A checkpoint may come late, when the sweep already knows that no paused trial goes on.
TEST(Sweep, IsStillOverWhenACheckpointOfAPausedTrialComes) {
  const auto searcher = tpe(Space{});
  const auto scheduler = asha({.most = 4, .factor = 2, .promotes = true});
  Sweep sweep{{.trials = 4}, Space{}, *searcher, *scheduler, [](const SweepEvent&) {}};
  double now = 0;
  while (const auto trial = sweep.next(now)) {
    auto decision = sweep.report(*trial, sweep.at(*trial).step + 1, 0.5 + static_cast<double>(*trial), ++now);
    while (decision && decision->verdict == Verdict::kGoOn) {
      decision = sweep.report(*trial, sweep.at(*trial).step + 1, 0.5 + static_cast<double>(*trial), ++now);
    }
  }
  const auto paused = std::ranges::find(sweep.trials(), State::kPaused, &TrialResult::state);
  ASSERT_NE(paused, sweep.trials().end());
  ASSERT_TRUE(sweep.is_over(now));
  sweep.saved(paused->number, paused->step);
  EXPECT_TRUE(sweep.is_over(now));
}

// ---- The same each time

/// Steps with random durations.
SimulatedObjective uneven(std::uint64_t seed) {
  auto random = std::make_shared<std::mt19937_64>(seed);
  return [random](const Params& params, std::uint64_t step, std::vector<double>&) {
    const double x = params.get<double>("x");
    return SimulatedStep{.metrics = (x - 0.3) * (x - 0.3) + 1 / static_cast<double>(step),
                         .time = std::chrono::milliseconds{1 + (*random)() % 5000}};
  };
}

TEST(Deterministic, AskNSeesExactlyTheResultsUpToNMinusTheSlots) {
  auto notes = std::make_shared<Noted::Notes>();
  auto options = options_of(60);
  options.searcher = std::make_unique<Noted>(notes);
  options.steps = 3;
  options.deterministic = true;
  static_cast<void>(simulate(std::move(options), 5, uneven(1)));
  ASSERT_EQ(notes->told_before.size(), 60U);
  for (std::uint64_t n = 0; n < 60; ++n) {
    std::set<std::uint64_t> wanted;
    for (std::uint64_t each = 0; each + 5 <= n; ++each) wanted.insert(each);
    EXPECT_EQ(notes->told_before[n], wanted) << n;
  }
}

TEST(Deterministic, TheSameSeedIsTheSameSweepHoweverLongTrialsTake) {
  std::vector<std::string> first;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    TunerOptions options{.space = space_of_one(), .trials = 60, .steps = 3, .deterministic = true};
    options.searcher = tpe(options.space, {.seed = 3});
    const SweepResults results = simulate(std::move(options), 4, uneven(seed));
    std::vector<std::string> params;
    for (const TrialResult& trial : results.trials()) params.push_back(trial.params.to_string());
    if (seed == 0) first = params;
    EXPECT_EQ(params, first) << seed;
  }
}

// ---- Schedulers in simulated time

TEST(Schedulers, AshaGivesEachRungAsManyStepsAndFindsTheBest) {
  for (const bool promotes : {false, true}) {
    auto options = options_of(243, asha({.most = 81, .factor = 3, .promotes = promotes}));
    const SweepResults results = simulate(std::move(options), 9, learns);
    std::uint64_t steps = 0;
    for (const TrialResult& trial : results.trials()) steps += trial.step;
    // All trials to their end would take 243 * 81 steps. Halving takes about 81 for each of its five rungs.
    EXPECT_LT(steps, 243 * 81 / 8) << promotes;
    double least = 1;
    for (const TrialResult& trial : results.trials()) least = std::min(least, trial.params.get<double>("x"));
    EXPECT_EQ(results.best().params.get<double>("x"), least) << promotes;
    EXPECT_EQ(results.best().step, 81U);
    EXPECT_EQ(results.count(State::kRunning), 0U);
  }
}

TEST(Schedulers, AThousandWorkersAreAsBusyAsOneAndStragglersHoldUpNobody) {
  // As in ASHA's paper (Li and others, 2020): the times of steps vary, and no trial waits for a full rung.
  double trials_per_worker = 0;
  for (const std::size_t workers : {1, 10, 100, 1000}) {
    std::mt19937_64 random{7};
    double busy = 0;
    auto options = options_of(0, asha({.most = 64, .factor = 4, .promotes = true}));
    options.time = 600s;
    const SweepResults results =
        simulate(std::move(options), workers, [&](const Params& params, std::uint64_t step, std::vector<double>&) {
          const double straggles = 1 + std::abs(std::normal_distribution<double>{0, 1}(random));
          busy += straggles;
          return SimulatedStep{.metrics = params.get<double>("x") + 1 / static_cast<double>(step),
                               .time = std::chrono::duration_cast<Duration>(straggles * 1s)};
        });
    EXPECT_GE(busy / (results.seconds() * static_cast<double>(workers)), 0.97) << workers << " workers";
    const double each = static_cast<double>(results.trials().size()) / static_cast<double>(workers);
    if (workers == 1) trials_per_worker = each;
    EXPECT_NEAR(each / trials_per_worker, 1, 0.15) << workers << " workers";
  }
}

TEST(Schedulers, HyperBandsBracketsBeginAsManyTrialsWithAsManyStepsAsPublished) {
  // Table 1 of Li and others (2018), R = 81 and eta = 3: 81 trials of 1 step, 34 of 3, 15 of 9, 8 of 27, 5 of 81.
  auto options = options_of(81 + 34 + 15 + 8 + 5, hyperband({.most = 81, .factor = 3}));
  const SweepResults results = simulate(std::move(options), 10, learns);
  std::map<std::uint64_t, std::size_t> first_bracket;
  for (std::size_t i = 0; i < 81; ++i) ++first_bracket[results.trials()[i].step];
  EXPECT_EQ(first_bracket, (std::map<std::uint64_t, std::size_t>{{1, 54}, {3, 18}, {9, 6}, {27, 2}, {81, 1}}));
  std::size_t to_the_end = 0;
  for (std::size_t i = 138; i < 143; ++i) to_the_end += results.trials()[i].step == 81 ? 1 : 0;
  EXPECT_EQ(to_the_end, 5U);
}

TEST(Schedulers, PopulationBasedTrainingFindsWhatNoFixedParametersDo) {
  // The toy problem of Jaderberg and others (2017): trials maximise 1.2 - theta0^2 - theta1^2 with a gradient that
  // their parameters h0 and h1 weigh. Alone, a trial with (1, 0) or (0, 1) reaches 0.4.
  const Space space{{"h0", uniform(0, 1)}, {"h1", uniform(0, 1)}};
  const auto toy = [](const Params& params, std::uint64_t, std::vector<double>& theta) {
    if (theta.empty()) theta = {0.9, 0.9};
    theta[0] -= 0.02 * params.get<double>("h0") * theta[0];
    theta[1] -= 0.02 * params.get<double>("h1") * theta[1];
    return SimulatedStep{.metrics = 1.2 - theta[0] * theta[0] - theta[1] * theta[1], .time = 1s};
  };
  const auto best_with = [&](std::unique_ptr<TrialScheduler> scheduler) {
    TunerOptions options{.space = space,
                         .goal = Goal::kMaximise,
                         .trials = 2,
                         .steps = 200,
                         .scheduler = std::move(scheduler),
                         .first = {{{"h0", 1.0}, {"h1", 0.0}}, {{"h0", 0.0}, {"h1", 1.0}}},
                         .save_every = 5};
    return *simulate(std::move(options), 2, toy).best().value;
  };
  EXPECT_NEAR(best_with(run_all()), 0.39, 0.01);
  EXPECT_GT(best_with(pbt(space, {.seed = 1, .interval = 5, .share = 0.5})), 1.1);
}

TEST(Schedulers, ACopyOfATrialThatHasSavedNothingIsAFailureThatSaysWhatToDo) {
  TunerOptions options{.space = space_of_one(), .trials = 4, .steps = 50};
  options.scheduler = pbt(options.space, {.interval = 5});
  const SweepResults results = simulate(std::move(options), 4, learns);
  ASSERT_NE(results.count(State::kFailed), 0U);
  const auto failed = std::find_if(results.trials().begin(), results.trials().end(),
                                   [](const TrialResult& trial) { return trial.state == State::kFailed; });
  EXPECT_NE(failed->error.find("save_every"), std::string::npos) << failed->error;
}

TEST(Schedulers, MedianStopSavesTimeAndKeepsTheBest) {
  auto options = options_of(50, median_stop({.grace = 5, .trials = 5}));
  options.steps = 40;
  const SweepResults results = simulate(std::move(options), 4, learns);
  EXPECT_GT(results.count(State::kStopped), 15U);
  double least = 1;
  for (const TrialResult& trial : results.trials()) least = std::min(least, trial.params.get<double>("x"));
  EXPECT_EQ(results.best().params.get<double>("x"), least);
}

// ---- The sweep's folder

struct Kept : testing::Test {
  TemporaryFolder folder;

  /// Runs a sweep that ends after so many events, or at its end.
  static SweepResults run(TunerOptions options, std::size_t workers, const SimulatedObjective& objective,
                          std::size_t waits_max = std::numeric_limits<std::size_t>::max()) {
    options.at_once = workers;
    options.progress = false;
    complete(options);
    SimulatedSlots slots{workers, objective};
    std::size_t waits = 0;
    return run_sweep(std::move(options), slots, SweepFolder::Existing::kContinued, [&] { return ++waits > waits_max; });
  }
  TunerOptions options(std::uint64_t trials) const {
    TunerOptions options{.space = space_of_one(),
                         .trials = trials,
                         .steps = 4,
                         .save_every = 2,
                         .folder = folder.path(),
                         .durable = false};
    options.searcher = tpe(options.space, {.seed = 5, .startup = 3});
    options.scheduler = asha({.most = 4, .factor = 2, .promotes = true});
    return options;
  }
};

TEST_F(Kept, ASweepThatIsInterruptedAnywhereGoesOnWithWhatIsUnfinishedAndCountsEachResultOnce) {
  TemporaryFolder whole_folder;
  auto whole_options = options(12);
  whole_options.folder = whole_folder.path();
  const SweepResults whole = run(std::move(whole_options), 1, learns);
  ASSERT_EQ(whole.trials().size(), 12U);
  for (std::size_t cut = 1; cut < 80; ++cut) {
    std::filesystem::remove_all(folder.path());
    const SweepResults some = run(options(12), 1, learns, cut);
    std::map<std::uint64_t, std::uint64_t> steps_before;
    for (const TrialResult& trial : some.trials()) steps_before[trial.number] = trial.step;
    std::map<double, std::set<std::uint64_t>> ran;
    const SweepResults rest = run(options(12), 1, [&](const Params& p, std::uint64_t step, std::vector<double>& state) {
      ran[p.get<double>("x")].insert(step);
      return learns(p, step, state);
    });
    ASSERT_EQ(rest.trials().size(), 12U) << cut;
    for (std::size_t i = 0; i < 12; ++i) {
      const TrialResult& trial = rest.trials()[i];
      EXPECT_EQ(trial.params, whole.trials()[i].params) << "the same is asked: cut " << cut << ", trial " << i;
      EXPECT_EQ(trial.value, whole.trials()[i].value) << cut;
      EXPECT_EQ(trial.step, whole.trials()[i].step) << cut;
      const bool was_over = i < some.trials().size() && some.trials()[i].state != State::kRunning &&
                            some.trials()[i].state != State::kWaiting && some.trials()[i].state != State::kPaused;
      EXPECT_FALSE(was_over && ran.contains(trial.params.get<double>("x"))) << "cut " << cut << ", trial " << i;
    }
    // Each report is in the file once, by trial and step.
    std::ifstream lines{folder.path() / "reports.csv"};
    std::set<std::string> seen;
    for (std::string line; std::getline(lines, line);) {
      const auto key = line.substr(0, line.find(',', line.find(',') + 1));
      EXPECT_TRUE(seen.insert(key).second) << key << " is there twice after cut " << cut;
    }
    if (!some.interrupted()) break;
  }
}

TEST_F(Kept, ASweepThatIsFinishedIsReadAndNothingRuns) {
  const SweepResults first = run(options(6), 2, learns);
  const SweepResults again = run(options(6), 2, [](const Params&, std::uint64_t, std::vector<double>&) {
    ADD_FAILURE() << "a trial runs";
    return SimulatedStep{.metrics = 1, .last = true};
  });
  ASSERT_EQ(again.trials().size(), 6U);
  EXPECT_EQ(again.best().value, first.best().value);
  EXPECT_NEAR(again.seconds(), first.seconds(), 1e-9);
}

TEST_F(Kept, MoreTrialsThanBeforeGoOnWhereItEnded) {
  static_cast<void>(run(options(6), 2, learns));
  EXPECT_EQ(run(options(9), 2, learns).trials().size(), 9U);
}

TEST_F(Kept, TheJournalOfAnotherSweepIsRefused) {
  static_cast<void>(run(options(6), 2, learns));
  auto other = options(6);
  other.space = Space{{"y", uniform(0, 1)}};
  other.searcher = random_search(other.space);
  try {
    static_cast<void>(run(std::move(other), 2, learns));
    FAIL();
  } catch (const FailedPrecondition& error) {
    EXPECT_NE(std::string{error.what()}.find("belongs to another sweep"), std::string::npos) << error.what();
  }
}

TEST_F(Kept, ANewSweepIsNotBegunWhereThereIsOne) {
  static_cast<void>(run(options(3), 2, learns));
  auto again = options(3);
  again.at_once = 2;
  EXPECT_THROW(static_cast<void>(simulate(std::move(again), 2, learns)), AlreadyExists);
}

TEST_F(Kept, ASweepThatIsRefusedLeavesTheOtherOneItsReports) {
  const auto files = [&] {
    std::map<std::string, std::string> texts;
    for (const auto& each : std::filesystem::recursive_directory_iterator{folder.path()}) {
      if (!each.is_regular_file()) continue;
      std::ifstream file{each.path(), std::ios::binary};
      texts[each.path()] = {std::istreambuf_iterator<char>{file}, {}};
    }
    return texts;
  };
  const auto with_tensorboard = [&] {
    auto made = options(3);
    made.tensorboard = true;
    made.at_once = 2;
    return made;
  };
  static_cast<void>(run(with_tensorboard(), 2, learns));
  const auto before = files();
  ASSERT_GT(before.at((folder.path() / "reports.csv").string()).size(), 20U);
  EXPECT_THROW(static_cast<void>(simulate(with_tensorboard(), 2, learns)), AlreadyExists);
  EXPECT_EQ(files(), before);
  const auto runs = Journal::open(folder.path() / "journal", false);
  ASSERT_TRUE(runs.ok());
  EXPECT_THROW(static_cast<void>(run(with_tensorboard(), 2, learns)), FailedPrecondition);
  EXPECT_EQ(files(), before);
}

TEST_F(Kept, OnlyWhatTheBestHaveSavedIsKeptAtTheEnd) {
  auto more = options(12);
  more.checkpoints = 2;
  const SweepResults results =
      run(std::move(more), 3, [](const Params& p, std::uint64_t step, std::vector<double>& state) {
        state = {p.get<double>("x"), static_cast<double>(step)};
        return learns(p, step, state);
      });
  std::size_t files = 0;
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator{folder.path() / "checkpoints"}) {
    ++files;
    names.push_back(file.path().filename());
  }
  EXPECT_EQ(files, 2U) << testing::PrintToString(names);
  const auto saved = results.checkpoint<std::vector<double>>(results.best());
  EXPECT_EQ(saved, (std::vector{results.best().params.get<double>("x"), 4.0}));
  EXPECT_THROW(static_cast<void>(results.checkpoint<std::string>(results.best())), InvalidArgument);
}

TEST_F(Kept, ASweepWithoutAFolderTakesNoCheckpointFromTheWorkingFolder) {
  auto one = options(1);
  one.scheduler = run_all();
  static_cast<void>(run(std::move(one), 1, learns));
  ASSERT_FALSE(std::filesystem::is_empty(folder.path() / "checkpoints"));
  auto other = options_of(1);
  other.steps = 1;
  const SweepResults results = simulate(std::move(other), 1, learns);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_THROW(static_cast<void>(results.checkpoint<std::vector<double>>(results.best())), NotFound);
  std::filesystem::current_path(before);
}

TEST_F(Kept, WhatIsKeptIsOfTheTrialThatIsBest) {
  auto many = options(12);
  many.scheduler = asha({.most = 4, .factor = 2});
  const SweepResults results =
      run(std::move(many), 3, [](const Params&, std::uint64_t step, std::vector<double>& state) {
        state = {static_cast<double>(step)};
        return SimulatedStep{.metrics = 1, .time = 1s};  // all trials are equally good, and some complete
      });
  ASSERT_NE(results.count(State::kStopped), 0U);
  EXPECT_EQ(results.best().state, State::kComplete);
  EXPECT_EQ(results.checkpoint<std::vector<double>>(results.best()), std::vector{4.0});
}

TEST_F(Kept, ACheckpointThatIsDamagedIsNotUsed) {
  const auto one = [&] {
    auto its = options(1);
    its.scheduler = run_all();
    return its;
  };
  static_cast<void>(run(one(), 1, learns, 4));  // the trial has saved step 2
  for (const auto& file : std::filesystem::directory_iterator{folder.path() / "checkpoints"}) {
    std::ofstream{file.path(), std::ios::app} << "more";
  }
  std::set<std::uint64_t> steps;
  const SweepResults results = run(one(), 1, [&](const Params& p, std::uint64_t step, std::vector<double>& state) {
    steps.insert(step);
    return learns(p, step, state);
  });
  EXPECT_EQ(results.trials()[0].state, State::kComplete);
  EXPECT_TRUE(steps.contains(1)) << "it begins from its beginning";
}

}  // namespace
}  // namespace pharos::ml
