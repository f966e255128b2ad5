#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/trial_scheduler.hpp>

#include "says.hpp"
#include "search/random.hpp"

namespace pharos::ml {
namespace {

using Kind = TrialScheduler::Decision::Kind;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Runs so many trials on so many slots, one step of each trial in turn. Returns how many steps each trial has done.
std::map<std::uint64_t, std::uint64_t> run(
    TrialScheduler& scheduler, std::uint64_t trials, std::size_t slots,
    const std::function<double(std::uint64_t trial, std::uint64_t step)>& value) {
  std::map<std::uint64_t, std::uint64_t> steps;
  std::deque<std::uint64_t> running;
  std::uint64_t begun = 0;
  for (;;) {
    while (running.size() < slots) {
      auto next = scheduler.next();
      if (!next && begun < trials) {
        next = begun++;
        scheduler.began(*next, {});
        steps[*next] = 0;
      }
      if (!next && running.empty()) next = scheduler.last_chance();
      if (!next) break;
      running.push_back(*next);
    }
    if (running.empty()) return steps;
    const std::uint64_t trial = running.front();
    running.pop_front();
    const std::uint64_t step = ++steps[trial];
    switch (scheduler.report(trial, step, value(trial, step)).kind) {
      case Kind::kGoOn: running.push_back(trial); break;
      case Kind::kStop:
      case Kind::kEnd: scheduler.ended(trial); break;
      case Kind::kPause: break;
      case Kind::kCopy: ADD_FAILURE(); break;
    }
  }
}

/// Returns how many trials have done each number of steps.
std::map<std::uint64_t, std::size_t> counted(const std::map<std::uint64_t, std::uint64_t>& steps) {
  std::map<std::uint64_t, std::size_t> all;
  for (const auto& [trial, come] : steps) ++all[come];
  return all;
}

double by_number(std::uint64_t trial, std::uint64_t) {
  return static_cast<double>(trial);
}

TEST(AshaTest, StopsThoseThatAreNotAmongTheBestSoFar) {
  const auto scheduler = asha({.first = 1, .most = 8, .factor = 2});
  const auto comes = [&](std::uint64_t trial, std::uint64_t step, double value) {
    return scheduler->report(trial, step, value).kind;
  };
  for (std::uint64_t trial = 0; trial < 6; ++trial) scheduler->began(trial, {});
  EXPECT_EQ(comes(0, 1, 5), Kind::kGoOn);  // the first report on this rung, so the best one
  EXPECT_EQ(comes(1, 1, 6), Kind::kStop);
  EXPECT_EQ(comes(2, 1, 4), Kind::kGoOn);
  EXPECT_EQ(comes(3, 1, kNone), Kind::kStop);
  EXPECT_EQ(comes(4, 1, 5.5), Kind::kStop);  // third of five
  EXPECT_EQ(comes(5, 1, 4.5), Kind::kGoOn);  // second of six
  EXPECT_EQ(comes(0, 2, 3), Kind::kGoOn);
  EXPECT_EQ(comes(0, 3, 99), Kind::kGoOn);  // step 3 is on no rung
  EXPECT_EQ(comes(2, 2, 3.5), Kind::kStop);
  EXPECT_EQ(comes(0, 4, 2), Kind::kGoOn);
  EXPECT_EQ(comes(0, 8, 1), Kind::kEnd);
}

TEST(AshaTest, PromotesThoseThatAreAmongTheBestInTime) {
  const auto scheduler = asha({.first = 1, .most = 9, .factor = 3, .promotes = true});
  for (std::uint64_t trial = 0; trial < 9; ++trial) scheduler->began(trial, {});
  const auto comes = [&](std::uint64_t trial, std::uint64_t step, double value) {
    EXPECT_EQ(scheduler->report(trial, step, value).kind, step >= 9 ? Kind::kEnd : Kind::kPause);
  };
  comes(0, 1, 0.7);
  comes(1, 1, 0.5);
  EXPECT_EQ(scheduler->next(), std::nullopt);
  comes(2, 1, 0.6);
  EXPECT_EQ(scheduler->next(), 1U);  // the best of three
  EXPECT_EQ(scheduler->next(), std::nullopt);
  comes(3, 1, 0.4);
  comes(4, 1, 0.3);
  EXPECT_EQ(scheduler->next(), 4U);  // the best of the trials, whatever was promoted before
  EXPECT_EQ(scheduler->next(), std::nullopt);
  comes(5, 1, 0.9);
  EXPECT_EQ(scheduler->next(), 3U);
  for (const std::uint64_t trial : {1U, 4U, 3U}) comes(trial, 3, static_cast<double>(trial));
  EXPECT_EQ(scheduler->next(), 1U);  // trials on a higher rung go first
  comes(1, 9, 0);
  EXPECT_EQ(scheduler->next(), std::nullopt);
}

TEST(AshaTest, ATrialThatEndsWhileItIsPausedIsNotPromoted) {
  const auto scheduler = asha({.first = 1, .most = 9, .factor = 3, .promotes = true});
  for (std::uint64_t trial = 0; trial < 4; ++trial) {
    scheduler->began(trial, {});
    EXPECT_EQ(scheduler->report(trial, 1, static_cast<double>(trial)).kind, Kind::kPause);
  }
  scheduler->ended(0);
  EXPECT_EQ(scheduler->next(), std::nullopt) << "the second is not among the best third";
  scheduler->began(4, {});
  scheduler->report(4, 1, 4);
  scheduler->began(5, {});
  scheduler->report(5, 1, 5);
  EXPECT_EQ(scheduler->next(), 1U);
  EXPECT_EQ(scheduler->next(), std::nullopt);
}

TEST(AshaTest, FewComeFarWhateverTheOrder) {
  for (const bool promotes : {false, true}) {
    const auto scheduler = asha({.first = 1, .most = 64, .factor = 4, .promotes = promotes});
    Random random{1};
    std::vector<double> quality(1000);
    for (double& each : quality) each = random.uniform();
    const auto steps = run(*scheduler, quality.size(), 20, [&](std::uint64_t trial, std::uint64_t step) {
      return quality[trial] + 0.02 * random.normal() / static_cast<double>(step);
    });
    std::uint64_t all = 0;
    double best = 1;
    for (const auto& [trial, come] : steps) {
      all += come;
      if (come == 64) best = std::min(best, quality[trial]);
    }
    EXPECT_LT(all, 9'000U);  // of 64'000
    EXPECT_LT(best, 0.02);
  }
}

// The numbers of the table in the article, for 81 steps and a factor of 3.
TEST(HyperBandTest, BracketsAreThoseOfTheArticle) {
  const auto scheduler = hyperband({.most = 81, .factor = 3});
  const auto steps = run(*scheduler, 81 + 34 + 15 + 8 + 5, 200, by_number);
  const auto of = [&](std::uint64_t first, std::uint64_t count) {
    return counted({steps.find(first), steps.find(first + count)});
  };
  using Counted = std::map<std::uint64_t, std::size_t>;
  EXPECT_EQ(of(0, 81), (Counted{{1, 54}, {3, 18}, {9, 6}, {27, 2}, {81, 1}}));
  EXPECT_EQ(of(81, 34), (Counted{{3, 23}, {9, 8}, {27, 2}, {81, 1}}));
  EXPECT_EQ(of(115, 15), (Counted{{9, 10}, {27, 4}, {81, 1}}));
  EXPECT_EQ(of(130, 8), (Counted{{27, 6}, {81, 2}}));
  EXPECT_EQ(of(138, 5), (Counted{{81, 5}}));
}

TEST(HyperBandTest, NobodyIsWaitedForThatHasFailedOrDoesNotCome) {
  const auto scheduler = hyperband({.most = 9, .factor = 3});
  for (std::uint64_t trial = 0; trial < 7; ++trial) scheduler->began(trial, {});  // the bracket has room for nine
  for (std::uint64_t trial = 0; trial < 6; ++trial) {
    EXPECT_EQ(scheduler->report(trial, 1, static_cast<double>(trial)).kind, Kind::kPause);
  }
  EXPECT_EQ(scheduler->next(), std::nullopt);
  scheduler->ended(6);
  EXPECT_EQ(scheduler->next(), std::nullopt);
  EXPECT_EQ(scheduler->last_chance(), 0U);
  EXPECT_EQ(scheduler->next(), 1U);
  EXPECT_EQ(scheduler->next(), std::nullopt);
}

TEST(HyperBandTest, ATrialThatEndsWhileItIsPausedIsNotResumed) {
  const auto scheduler = hyperband({.most = 9, .factor = 3});
  for (std::uint64_t trial = 0; trial < 9; ++trial) scheduler->began(trial, {});
  for (std::uint64_t trial = 0; trial < 8; ++trial) scheduler->report(trial, 1, static_cast<double>(trial));
  scheduler->ended(0);  // before its bracket is promoted
  scheduler->report(8, 1, 8);
  scheduler->ended(1);  // after its bracket was promoted, and before it is resumed
  EXPECT_EQ(scheduler->next(), 2U);
  EXPECT_EQ(scheduler->next(), std::nullopt);
}

TEST(MedianTest, StopsWhoIsWorseThanTheMedianOfOthersMeans) {
  const auto scheduler = median_stop({.grace = 1, .trials = 3});
  for (std::uint64_t trial = 0; trial < 3; ++trial) {
    for (std::uint64_t step = 1; step <= 4; ++step) {
      // Means up to step 2: 1.5, 2.5, 3.5; up to step 4: 2.5, 3.5, 4.5.
      EXPECT_EQ(scheduler->report(trial, step, static_cast<double>(trial + step)).kind, Kind::kGoOn);
    }
    scheduler->ended(trial);
  }
  EXPECT_EQ(scheduler->report(7, 1, 99).kind, Kind::kGoOn);  // within the grace period
  EXPECT_EQ(scheduler->report(7, 2, 2.4).kind, Kind::kGoOn);
  EXPECT_EQ(scheduler->report(8, 1, 9).kind, Kind::kGoOn);
  // The means up to step 2 are 1.5, 2.5, 3.5, and 50.7 for trial 7.
  EXPECT_EQ(scheduler->report(8, 2, 3.1).kind, Kind::kStop);
  EXPECT_EQ(scheduler->report(9, 5, 99).kind, Kind::kGoOn);  // no other trial has reached step 5
}

TEST(PatienceTest, EndsWhenNothingBecomesBetter) {
  const auto scheduler = patience({.reports = 3, .least = 0.1});
  const std::vector<double> values{5, 4, 4.5, 3.95, 3.8, kNone, 3.75, 3.71};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto kind = scheduler->report(1, i + 1, values[i]).kind;
    EXPECT_EQ(kind, i + 1 == values.size() ? Kind::kStop : Kind::kGoOn) << i;
  }
  const auto never = patience({.reports = 2});
  EXPECT_EQ(never->report(1, 1, kNone).kind, Kind::kGoOn);
  EXPECT_EQ(never->report(1, 2, kNone).kind, Kind::kStop);
}

TEST(PlateauTest, EndsWhenTheLastReportsAreAlike) {
  const auto scheduler = plateau({.reports = 3, .deviation = 0.05, .grace = 5});
  const std::vector<double> values{1, 1, 1, 1, 2, 1.5, 1.5, 1.45};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto kind = scheduler->report(1, i + 1, values[i]).kind;
    EXPECT_EQ(kind, i + 1 == values.size() ? Kind::kStop : Kind::kGoOn) << i;
  }
}

TEST(PbtTest, TheWorstGoOnAsCopiesOfTheBestNearby) {
  const Space space{{"rate", log_uniform(1e-4, 1)}, {"width", integers(8, 64)}, {"kind", choice({"a", "b", "c"})}};
  const auto scheduler = pbt(space, {.seed = 3, .interval = 2, .share = 0.25, .redraw_probability = 0, .change = 1.5});
  const auto params = [](std::uint64_t trial) {
    return Params{{"rate", 0.01 * static_cast<double>(trial + 1)}, {"width", 32}, {"kind", "b"}};
  };
  for (std::uint64_t trial = 0; trial < 8; ++trial) scheduler->began(trial, params(trial));
  std::set<std::uint64_t> copied;
  for (std::uint64_t step = 1; step <= 2; ++step) {
    for (std::uint64_t trial = 0; trial < 8; ++trial) {
      const auto decision = scheduler->report(trial, step, static_cast<double>(trial));
      if (step == 1 || trial < 6) {
        EXPECT_EQ(decision.kind, Kind::kGoOn);
        continue;
      }
      ASSERT_EQ(decision.kind, Kind::kCopy);
      EXPECT_LT(decision.from, 2U);
      EXPECT_TRUE(space.check(decision.params));
      const double by = decision.params.get<double>("rate") / params(decision.from).get<double>("rate");
      EXPECT_NEAR(std::abs(std::log(by)), std::log(1.5), 1e-9);
      EXPECT_TRUE(decision.params.get<int>("width") == 48 || decision.params.get<int>("width") == 21);
      EXPECT_NE(decision.params.get<std::string>("kind"), "b");
      copied.insert(trial);
    }
  }
  EXPECT_EQ(copied, (std::set<std::uint64_t>{6, 7}));
}

TEST(PbtTest, ANumberOfZeroMoves) {
  const Space space{{"x", uniform(-1, 1)}, {"least", uniform(0, 10)}};
  const auto scheduler = pbt(space, {.seed = 3, .interval = 1, .share = 0.5, .redraw_probability = 0, .change = 1.25});
  for (const std::uint64_t trial : {0, 1}) scheduler->began(trial, {{"x", 0.0}, {"least", 0.0}});
  scheduler->report(0, 1, 0);
  const auto decision = scheduler->report(1, 1, 1);
  ASSERT_EQ(decision.kind, Kind::kCopy);
  EXPECT_DOUBLE_EQ(std::abs(decision.params.get<double>("x")), 0.5);
  const double least = decision.params.get<double>("least");
  EXPECT_TRUE(least == 0 || least == 2.5) << least;  // it does not leave its range
  EXPECT_TRUE(space.check(decision.params));
}

// The toy problem of the article: a trial optimises a surrogate that leaves one of two parameters out, and reports the
// true objective. No trial comes far alone.
TEST(PbtTest, FollowsWhatIsGoodNow) {
  const Space space{{"a", uniform(0, 1)}, {"b", uniform(0, 1)}};
  const auto scheduler = pbt(space, {.seed = 1, .interval = 4, .share = 0.5, .redraw_probability = 0.25});
  struct Trial {
    Params params;
    double x = 0.9;
    double y = 0.9;
  };
  std::vector<Trial> trials(2);
  trials[0].params = {{"a", 1.0}, {"b", 0.0}};
  trials[1].params = {{"a", 0.0}, {"b", 1.0}};
  const auto loss = [](const Trial& its) { return its.x * its.x + its.y * its.y; };
  for (std::uint64_t trial = 0; trial < 2; ++trial) scheduler->began(trial, trials[trial].params);
  for (std::uint64_t step = 1; step <= 200; ++step) {
    for (std::uint64_t trial = 0; trial < 2; ++trial) {
      Trial& its = trials[trial];
      its.x -= 0.02 * its.params.get<double>("a") * its.x;
      its.y -= 0.02 * its.params.get<double>("b") * its.y;
      const auto decision = scheduler->report(trial, step, loss(its));
      if (decision.kind != Kind::kCopy) continue;
      its = trials[decision.from];
      its.params = decision.params;
    }
  }
  EXPECT_LT(std::min(loss(trials[0]), loss(trials[1])), 0.05);  // a single trial stays above 0.81
}

TEST(SchedulersTest, OptionsThatMakeNoSenseAreRefused) {
  message_of<InvalidArgument>([] { asha({.first = 0}); });
  message_of<InvalidArgument>([] { asha({.first = 10, .most = 5}); });
  message_of<InvalidArgument>([] { asha({.factor = 1}); });
  message_of<InvalidArgument>([] { hyperband({.most = 0}); });
  message_of<InvalidArgument>([] { pbt({}, {.interval = 0}); });
  message_of<InvalidArgument>([] { pbt({}, {.share = 0.6}); });
  const auto all = run_all();
  EXPECT_EQ(all->report(1, 1, kNone).kind, Kind::kGoOn);
  EXPECT_EQ(all->last_chance(), std::nullopt);
}

}  // namespace
}  // namespace pharos::ml
