#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/searcher.hpp>

#include "says.hpp"
#include "search/random.hpp"

namespace pharos::ml {
namespace {

using Make = std::function<std::unique_ptr<Searcher>(const Space& space, std::uint64_t seed)>;
struct Kind {
  const char* name;
  Make make;
};
const std::vector<Kind> kKinds{
    {"random", [](const Space& space, std::uint64_t seed) { return random_search(space, seed); }},
    {"grid", [](const Space& space, std::uint64_t seed) { return grid_search(space, seed); }},
    {"sobol", [](const Space& space, std::uint64_t seed) { return sobol_search(space, seed); }},
    {"tpe", [](const Space& space, std::uint64_t seed) { return tpe(space, {.seed = seed}); }},
    {"cma_es", [](const Space& space, std::uint64_t seed) { return cma_es(space, {.seed = seed}); }},
};

Space all_kinds() {
  Space space{{"real", uniform(-2, 3)},          {"log", log_uniform(1e-3, 1)},  {"steps", quantised(0, 1, 0.25)},
              {"whole", integers(-3, 8)},        {"power", log_integers(1, 99)}, {"normal", normal(5, 2)},
              {"name", choice({"a", "b", "c"})}, {"grid", grid({1, 2})},         {"only", integers(4, 4)}};
  space.when("name", "b", Space{{"b_only", uniform(0, 1)}, {"b_kind", choice({1, 2})}});
  space.when("b_kind", 2, Space{{"deep", uniform(0, 1)}});
  // The same names in another branch, with other domains and the same one.
  space.when("name", "c",
             Space{{"b_only", log_uniform(10, 100)}, {"b_kind", choice({"x", "y"})}, {"deep", uniform(0, 1)}});
  return space;
}

double loss_of(const Params& params) {
  double loss = std::pow(params.get<double>("real") - 1, 2) + std::abs(std::log(params.get<double>("log") / 0.1));
  loss += params.get<std::string>("name") == "b" ? params.get<double>("b_only") : 1.5;
  return loss + std::abs(params.get<double>("whole") - 2) / 3;
}

class SearchersTest : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Searcher> make(const Space& space, std::uint64_t seed = 1) const {
    return GetParam().make(space, seed);
  }
};
INSTANTIATE_TEST_SUITE_P(Of, SearchersTest, testing::ValuesIn(kKinds),
                         [](const auto& chosen) { return std::string{chosen.param.name}; });

TEST_P(SearchersTest, ProposesWhatTheSpaceHolds) {
  const Space space = all_kinds();
  const auto searcher = make(space);
  std::map<std::string, std::set<std::string>> seen;
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    const Params params = searcher->ask(trial);
    const auto checked = space.check(params);
    ASSERT_TRUE(checked) << checked.error().message() << " in " << params.to_string();
    searcher->began(trial, params);
    searcher->tell(trial, {.value = loss_of(params)});
    for (const auto& [name, value] : params.entries()) seen[name].insert(to_string(value));
  }
  EXPECT_GE(seen["real"].size(), 100U);
  EXPECT_GE(seen["steps"].size(), 3U);
  EXPECT_EQ(seen["name"].size(), 3U);
  EXPECT_EQ(seen["grid"].size(), 2U);
  EXPECT_GE(seen["deep"].size(), 2U);
  EXPECT_EQ(seen["only"].size(), 1U);
}

TEST_P(SearchersTest, ProposalsFollowFromSeedAndHistory) {
  const auto run = [this](std::uint64_t seed) {
    const auto searcher = make(all_kinds(), seed);
    std::vector<std::string> all;
    for (std::uint64_t trial = 0; trial < 60; ++trial) {
      const Params params = searcher->ask(trial);
      EXPECT_EQ(searcher->ask(trial), params);  // asking changes nothing
      all.push_back(params.to_string());
      searcher->began(trial, params);
      if (trial < 3) continue;
      const std::uint64_t ended = trial - 3;  // four run at once
      searcher->tell(ended, {.value = static_cast<double>(ended % 7)});
    }
    return all;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST_P(SearchersTest, LearnsNothingFromTrialsThatFailOrAreNotTheirs) {
  const Space space{{"x", uniform(0, 1)}};
  const auto searcher = make(space);
  for (std::uint64_t trial = 0; trial < 100; ++trial) {
    const Params params = searcher->ask(trial);
    ASSERT_TRUE(space.check(params));
    // Some trials have parameters that the searcher did not propose.
    searcher->began(trial, trial % 5 == 0 ? Params{{"x", 0.25}} : params);
    switch (trial % 4) {
      case 0: searcher->tell(trial, {.state = Outcome::State::kFailed}); break;
      case 1: searcher->tell(trial, {.value = std::numeric_limits<double>::quiet_NaN()}); break;
      case 2: searcher->tell(trial, {.value = std::numeric_limits<double>::infinity()}); break;
      default: searcher->tell(trial, {.state = Outcome::State::kStopped, .value = 1, .step = trial}); break;
    }
    searcher->tell(trial, {.value = 0});         // this trial has ended already
    searcher->tell(trial + 1000, {.value = 0});  // there is no such trial
  }
}

TEST_P(SearchersTest, NothingToSearchIsASpace) {
  const auto searcher = make(Space{});
  for (std::uint64_t trial = 0; trial < 30; ++trial) {
    for (const auto& [name, value] : searcher->ask(trial).entries()) EXPECT_EQ(name, "x");  // x has been learned by now
    const double x = std::get<double>(searcher->ask(trial, "x", uniform(2, 3)));
    EXPECT_GE(x, 2);
    EXPECT_LE(x, 3);
    searcher->began(trial, {{"x", x}});
    searcher->tell(trial, {.value = x});
  }
}

double best_of(Searcher& searcher, std::uint64_t trials, const std::function<double(const Params&)>& loss) {
  double best = std::numeric_limits<double>::infinity();
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    const Params params = searcher.ask(trial);
    searcher.began(trial, params);
    const double value = loss(params);
    searcher.tell(trial, {.value = value});
    best = std::min(best, value);
  }
  return best;
}

TEST(SearchersRefuse, OptionsThatMakeNoSense) {
  const Space space{{"x", uniform(0, 1)}};
  const auto refused = [](const auto& make, const char* why) { EXPECT_SAYS(message_of<InvalidArgument>(make), why); };
  refused([&] { tpe(space, {.candidates = 0}); }, "TpeOptions::candidates is 0");
  refused([&] { cma_es(space, {.population = 1}); }, "CmaEsOptions::population is 1");
  for (const double sigma : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    refused([&] { cma_es(space, {.sigma = sigma}); }, "CmaEsOptions::sigma is");
  }
  // These are the least that are accepted.
  for (const auto& searcher : {tpe(space, {.candidates = 1}), cma_es(space, {.population = 2})}) {
    for (std::uint64_t trial = 0; trial < 50; ++trial) {
      const Params params = searcher->ask(trial);
      ASSERT_TRUE(space.check(params)) << params.to_string();
      searcher->began(trial, params);
      searcher->tell(trial, {.value = params.get<double>("x")});
    }
  }
}

TEST(SearchersLearn, FarBetterThanChance) {
  Space space;
  for (int i = 0; i < 6; ++i) space.add("x" + std::to_string(i), uniform(-5, 5));
  const auto sphere = [](const Params& params) {
    double sum = 0;
    for (const auto& [name, value] : params.entries()) sum += std::pow(std::get<double>(value) - 1, 2);
    return sum;
  };
  const double chance = best_of(*random_search(space, 3), 300, sphere);
  EXPECT_LT(best_of(*tpe(space, {.seed = 3}), 300, sphere), chance / 10);
  EXPECT_LT(best_of(*cma_es(space, {.seed = 3}), 300, sphere), chance / 100);
}

/// The best losses of ten searches by TPE add up to less than a third of those of ten random searches.
void expect_tpe_beats_chance(const Space& space, const std::function<double(const Params&)>& loss) {
  double sum = 0;
  double by_chance = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    sum += best_of(*tpe(space, {.seed = seed}), 150, loss);
    by_chance += best_of(*random_search(space, seed), 150, loss);
  }
  EXPECT_LT(sum, by_chance / 3);
}

TEST(SearchersLearn, WhereParametersDependOnOthers) {
  Space space{{"real", uniform(-2, 3)}, {"name", choice({"a", "b", "c"})}};
  space.when("name", "b", Space{{"b_only", uniform(0, 1)}, {"b_kind", choice({1, 2})}});
  space.when("b_kind", 2, Space{{"deep", uniform(0, 1)}});
  // The loss is small only where b is chosen and deep is near 0.3.
  const auto loss = [](const Params& params) {
    const Value* const deep = params.find("deep");
    return deep == nullptr ? 2.0 : std::abs(std::get<double>(*deep) - 0.3);
  };
  expect_tpe_beats_chance(space, loss);
}

/// The best rate of each optimizer is another one, and so are the ranges.
TEST(SearchersLearn, EachBranchByItselfWhereTwoHaveOneName) {
  Space space{{"optimizer", choice({"sgd", "adam"})}};
  space.when("optimizer", "sgd", Space{{"rate", log_uniform(1e-2, 1e2)}, {"other", uniform(0, 1)}});
  space.when("optimizer", "adam", Space{{"rate", log_uniform(1e-6, 1e-2)}, {"other", uniform(0, 1)}});
  const auto loss = [&](const Params& params) {
    EXPECT_TRUE(space.check(params)) << params.to_string();
    const bool is_sgd = params.get<std::string>("optimizer") == "sgd";
    return std::abs(std::log10(params.get<double>("rate") / (is_sgd ? 10 : 1e-4))) +
           std::abs(params.get<double>("other") - 0.3);
  };
  expect_tpe_beats_chance(space, loss);
}

TEST(SearchersLearn, WhatTrialsAskForAsTheyRun) {
  double sum = 0;
  double by_chance = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    for (auto* const total : {&sum, &by_chance}) {
      const auto searcher = total == &sum ? tpe(Space{}, {.seed = seed}) : random_search(Space{}, seed);
      double best = std::numeric_limits<double>::infinity();
      for (std::uint64_t trial = 0; trial < 120; ++trial) {
        const Params proposed = searcher->ask(trial);
        Params params;
        double loss = 0;
        for (const char* const name : {"x", "y", "z"}) {
          const Value* const known = proposed.find(name);
          const Value value = known != nullptr ? *known : searcher->ask(trial, name, uniform(-5, 5));
          params.set(name, value);
          searcher->began(trial, params);
          loss += std::pow(std::get<double>(value) - 1, 2);
        }
        searcher->tell(trial, {.value = loss});
        best = std::min(best, loss);
      }
      *total += best;
    }
  }
  EXPECT_LT(sum, by_chance / 4);
  const auto searcher = tpe(Space{{"x", uniform(0, 1)}});
  EXPECT_SAYS(message_of<InvalidArgument>([&] { searcher->ask(0, "x", uniform(0, 2)); }), "Give it another name");
}

TEST(SearchersLearn, ConstraintsComeBeforeLosses) {
  const Space space{{"x", uniform(0, 1)}};
  const auto searcher = tpe(space, {.seed = 1});
  int allowed = 0;
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    const Params params = searcher->ask(trial);
    searcher->began(trial, params);
    const double x = params.get<double>("x");
    searcher->tell(trial, {.value = -x, .constraints = {x - 0.2}});  // the best values are forbidden
    if (trial >= 100) allowed += x <= 0.2 ? 1 : 0;
  }
  EXPECT_GT(allowed, 45);  // 20 are expected by chance
}

TEST(SearchersLearn, ThoseThatRunAreKeptAwayFrom) {
  const Space space{{"x", uniform(0, 1)}};
  const auto searcher = tpe(space, {.seed = 1});
  std::uint64_t trial = 0;
  for (; trial < 30; ++trial) {
    const Params params = searcher->ask(trial);
    searcher->began(trial, params);
    searcher->tell(trial, {.value = std::abs(params.get<double>("x") - 0.5)});
  }
  // Trials that run at once do not all try the same place.
  std::vector<double> running;
  for (; trial < 60; ++trial) {
    const Params params = searcher->ask(trial);
    searcher->began(trial, params);
    running.push_back(params.get<double>("x"));
  }
  const auto [least, most] = std::minmax_element(running.begin(), running.end());
  EXPECT_GT(*most - *least, 0.2);
}

TEST(GridSearchTest, GoesThroughAllCombinationsThatThereAre) {
  Space space{{"a", grid({1, 2, 3})}, {"b", grid({"x", "y"})}, {"c", uniform(0, 1)}};
  space.when("b", "y", Space{{"d", grid({true, false})}});
  EXPECT_EQ(grid_size(space), 9U);
  const auto searcher = grid_search(space);
  std::map<std::string, int> seen;
  for (std::uint64_t trial = 0; trial < 18; ++trial) {
    Params params = searcher->ask(trial);
    ASSERT_TRUE(space.check(params));
    params.set("c", 0);
    ++seen[params.to_string()];
  }
  EXPECT_EQ(seen.size(), 9U);
  for (const auto& [params, times] : seen) EXPECT_EQ(times, 2) << params;
  // With a = 1 there is no grid b, and the grid c that depends on b is ruled out with it.
  Space chain{{"a", grid({1, 2})}};
  chain.when("a", 2, Space{{"b", grid({1, 2, 3})}});
  chain.when("b", 3, Space{{"c", grid({1, 2})}});
  EXPECT_EQ(grid_size(chain), 5U);
  Space large;
  for (int i = 0; i < 25; ++i) large.add(std::to_string(i), grid({0, 1}));
  EXPECT_SAYS(message_of<InvalidArgument>([&] { grid_size(large); }), "more than 1000000 combinations");
}

TEST(SobolSearchTest, FillsTheSpaceEvenly) {
  const Space space{{"x", uniform(0, 1)}, {"y", uniform(0, 1)}, {"z", choice({0, 1, 2, 3})}};
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    const auto searcher = sobol_search(space, seed);
    std::map<std::vector<int>, int> cells;
    std::map<std::string, int> choices;
    for (std::uint64_t trial = 0; trial < 255; ++trial) {
      const Params params = searcher->ask(trial);
      ++cells[{static_cast<int>(params.get<double>("x") * 16), static_cast<int>(params.get<double>("y") * 16)}];
      ++choices[to_string(*params.find("z"))];
    }
    EXPECT_EQ(cells.size(), 255U);  // one in each cell; the first point, where all coordinates are 0, is left out
    for (const auto& [choice, times] : choices) EXPECT_NEAR(times, 64, 1) << choice;
  }
}

TEST(RandomSearchTest, DrawsAsTheDomainsSay) {
  const Space space{{"log", log_uniform(1e-4, 1)}, {"whole", integers(1, 4)}, {"normal", normal(3, 2)}};
  const auto searcher = random_search(space, 5);
  int below = 0;
  std::map<std::int64_t, int> whole;
  double sum = 0;
  double squares = 0;
  constexpr int kTrials = 20'000;
  for (std::uint64_t trial = 0; trial < kTrials; ++trial) {
    const Params params = searcher->ask(trial);
    below += params.get<double>("log") < 1e-2 ? 1 : 0;
    ++whole[params.get<std::int64_t>("whole")];
    const double x = params.get<double>("normal");
    sum += x / kTrials;
    squares += x * x / kTrials;
  }
  EXPECT_NEAR(below, kTrials / 2.0, 300);
  for (const auto& [value, times] : whole) EXPECT_NEAR(times, kTrials / 4.0, 300) << value;
  EXPECT_NEAR(sum, 3, 0.06);
  EXPECT_NEAR(squares - sum * sum, 4, 0.15);
}

// A journal has the values of parameters that trials asked for as they ran, and not their domains.
TEST(Tpe, LearnsFromParametersWhoseDomainItHearsOfOnlyLater) {
  const Domain domain = uniform(0, 1);
  const auto searcher = tpe({}, {.seed = 5});
  for (std::uint64_t trial = 0; trial < 40; ++trial) {
    const double x = static_cast<double>(trial * 17 % 40) / 40;
    searcher->began(trial, {});
    searcher->began(trial, Params{{"x", x}});
    searcher->tell(trial, {.value = std::abs(x - 0.2)});
  }
  for (std::uint64_t trial = 40; trial < 60; ++trial) {
    EXPECT_NEAR(std::get<double>(searcher->ask(trial, "x", domain)), 0.2, 0.15) << trial;
  }
  const Params proposed = searcher->ask(60);
  ASSERT_NE(proposed.find("x"), nullptr) << "the searcher proposes it itself from now on";
  EXPECT_NEAR(proposed.get<double>("x"), 0.2, 0.15);
}

TEST(Tpe, LeavesEarlierValuesOutThatTheDomainDoesNotHold) {
  const auto searcher = tpe({}, {.seed = 5});
  for (std::uint64_t trial = 0; trial < 20; ++trial) {
    searcher->began(trial, Params{{"x", "text"}});
    searcher->tell(trial, {.value = 1});
  }
  const Domain domain = uniform(0, 1);
  EXPECT_TRUE(domain.holds(searcher->ask(20, "x", domain)));
}

}  // namespace
}  // namespace pharos::ml
