// How close searchers come to the optima of the 24 functions of BBOB, compared with Optuna 5.0.0. record_quality.py has
// recorded Optuna's results.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <pharos/ml/searcher.hpp>

#include "bbob.hpp"
#include "recorded.hpp"
#include "search/random.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kDimensions = 5;
constexpr double kNoRegret = 1e-8;

TEST(BbobTest, FunctionsAreThoseOfTheBenchmark) {
  const Json all = recorded("bbob.json");
  ASSERT_EQ(all.size(), 24U * 5);
  for (const Json& its : all) {
    const Bbob function{its["function"].get<int>(), its["instance"].get<std::uint32_t>(), kDimensions};
    for (std::size_t i = 0; i < its["points"].size(); ++i) {
      const double value = its["values"][i].get<double>();
      EXPECT_NEAR(function(its["points"][i].get<std::vector<double>>()), value, 1e-9 * std::max(1.0, std::abs(value)))
          << "function " << its["function"] << ", instance " << its["instance"];
    }
  }
}

double regret_of(Searcher& searcher, const Bbob& function, std::uint64_t trials) {
  double best = std::numeric_limits<double>::infinity();
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    const Params params = searcher.ask(trial);
    searcher.began(trial, params);
    std::vector<double> x;
    for (const Params::Entry& each : params.entries()) x.push_back(std::get<double>(each.second));
    const double value = function(x);
    searcher.tell(trial, {.value = value});
    best = std::min(best, value);
  }
  return std::log10(std::max(best - function.least(), kNoRegret));
}

double mean_of(const std::vector<double>& all) {
  double sum = 0;
  for (const double each : all) sum += each;
  return sum / static_cast<double>(all.size());
}

/// The lower bound of the mean that 95 of 100 bootstrap samples exceed.
double lower_bound(const std::vector<double>& all) {
  Random random{1};
  std::vector<double> means;
  for (int sample = 0; sample < 4000; ++sample) {
    double sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i) sum += all[random.below(all.size())];
    means.push_back(sum / static_cast<double>(all.size()));
  }
  std::sort(means.begin(), means.end());
  return means[means.size() / 20];
}

struct Kind {
  const char* name;
  std::uint64_t trials;
  std::function<std::unique_ptr<Searcher>(const Space& space, std::uint64_t seed)> make;
};

class QualityTest : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(
    Of, QualityTest,
    testing::Values(Kind{"tpe", 200, [](const Space& space, std::uint64_t seed) { return tpe(space, {.seed = seed}); }},
                    Kind{"cma_es", 500,
                         [](const Space& space, std::uint64_t seed) { return cma_es(space, {.seed = seed}); }}),
    [](const auto& chosen) { return std::string{chosen.param.name}; });

// For each instance: by how much the logarithm of the distance to the optimum is smaller than Optuna's. It is a mean
// over some seeds of each, as a share of the range of the logarithms on that function.
TEST_P(QualityTest, IsThatOfOptunas) {
  Space space;
  for (std::size_t i = 0; i < kDimensions; ++i) space.add("x" + std::to_string(i), uniform(-5, 5));
  struct Instance {
    double ours = 0;
    double theirs = 0;
  };
  struct Runs {
    std::vector<Instance> instances{};
    double least = std::numeric_limits<double>::infinity();
    double most = -std::numeric_limits<double>::infinity();
  };
  std::map<int, Runs> by_function;
  for (const Json& its : recorded("quality.json")) {
    const int number = its["function"].get<int>();
    const auto instance = its["instance"].get<std::uint32_t>();
    const Bbob function{number, instance, kDimensions};
    Runs& runs = by_function[number];
    const auto seen = [&](double regret) {
      runs.least = std::min(runs.least, regret);
      runs.most = std::max(runs.most, regret);
      return regret;
    };
    const auto theirs = [&](const char* kind) {
      std::vector<double> all;
      for (const double best : its["best"][kind].get<std::vector<double>>()) {
        all.push_back(seen(std::log10(std::max(best - function.least(), kNoRegret))));
      }
      return all;
    };
    std::vector<double> ours;
    const std::vector<double> others = theirs(GetParam().name);
    for (std::uint64_t seed = 0; seed < others.size(); ++seed) {
      ours.push_back(seen(regret_of(*GetParam().make(space, 100 * instance + seed), function, GetParam().trials)));
    }
    theirs("random");
    runs.instances.push_back({mean_of(ours), mean_of(others)});
  }
  ASSERT_EQ(by_function.size(), 24U);
  std::vector<double> better;
  for (const auto& [number, runs] : by_function) {
    ASSERT_EQ(runs.instances.size(), 5U);
    for (const Instance& each : runs.instances) {
      better.push_back((each.theirs - each.ours) / std::max(runs.most - runs.least, 0.1));
    }
  }
  const double bound = lower_bound(better);
  RecordProperty("mean", std::to_string(mean_of(better)));
  RecordProperty("bound", std::to_string(bound));
  EXPECT_GT(bound, -0.05) << "mean " << mean_of(better);
}

}  // namespace
}  // namespace pharos::ml
