// Compares with Optuna 5.0.0 and cmaes 0.13.1 for the same input. record_peers.py has recorded their results.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Dense>

#include <pharos/ml/space.hpp>

#include "recorded.hpp"
#include "search/cma.hpp"
#include "search/dimension.hpp"
#include "search/parzen.hpp"

namespace pharos::ml {
namespace {

using Numbers = std::vector<double>;

void expect_near(double ours, double theirs, const std::string& what) {
  EXPECT_NEAR(ours, theirs, 1e-9 * std::max(1.0, std::abs(theirs))) << what;
}

Dimension dimension_for(const std::string& kind) {
  static const std::map<std::string, Domain> kDomains{
      {"real", uniform(-3, 5)},   {"log", log_uniform(1e-4, 1e-1)},     {"steps", quantised(0, 2, 0.25)},
      {"whole", integers(2, 17)}, {"whole_log", log_integers(1, 1000)}, {"choice", choice({"a", "b", "c", "d"})},
  };
  return dimension_of(kDomains.at(kind));
}

/// The wide kernel is the last kernel in Optuna, and the first one here.
Numbers as_theirs(std::span<const double> ours) {
  Numbers all(ours.begin() + 1, ours.end());
  all.push_back(ours.front());
  return all;
}

TEST(PeersTest, OurKernelsAreOptunas) {
  const Json histories = recorded("parzen.json");
  ASSERT_EQ(histories.size(), 50U);
  std::size_t densities = 0;
  for (std::size_t h = 0; h < histories.size(); ++h) {
    const Json& its = histories[h];
    std::vector<Dimension> dimensions;
    for (const auto& kind : its["kinds"]) dimensions.push_back(dimension_for(kind.get<std::string>()));
    const auto columns = [&](const char* key) { return its[key].get<std::vector<Numbers>>(); };
    const auto rows = [&](const char* key) {
      Numbers all;
      const auto from = columns(key);
      for (std::size_t row = 0; row < from.front().size(); ++row) {
        for (const Numbers& column : from) all.push_back(column[row]);
      }
      return all;
    };
    Parzen ours{dimensions};
    const Numbers history = rows("history");
    for (std::size_t trial = 0; trial * dimensions.size() < history.size(); ++trial) {
      ours.add(trial, std::span{history}.subspan(trial * dimensions.size(), dimensions.size()));
    }
    const std::string where = "history " + std::to_string(h) + ", ";
    const auto compare = [&](const Numbers& own, const Numbers& theirs, const std::string& what) {
      ASSERT_EQ(own.size(), theirs.size()) << where << what;
      for (std::size_t i = 0; i < own.size(); ++i) expect_near(own[i], theirs[i], where + what + std::to_string(i));
    };
    compare(as_theirs(ours.weights()), its["weights"].get<Numbers>(), "weight ");
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      if (dimensions[d].kind == Dimension::Kind::kChoice) continue;
      compare(as_theirs(ours.means(d)), columns("means")[d], "mean ");
      compare(as_theirs(ours.deviations(d)), columns("deviations")[d], "deviation ");
    }
    compare(ours.log_densities(rows("points")), its["log_densities"].get<Numbers>(), "density ");
    densities += its["log_densities"].size();
  }
  EXPECT_EQ(densities, 300U);
}

TEST(PeersTest, OurEvolutionIsCmaess) {
  const Json runs = recorded("cma.json");
  ASSERT_EQ(runs.size(), 8U);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto steps = runs[r]["steps"].get<Numbers>();
    Cma ours{steps.size(), {.steps = steps}};
    ASSERT_EQ(ours.population(), runs[r]["population"].get<std::size_t>());
    for (const Json& generation : runs[r]["generations"]) {
      const auto normals = generation["normals"].get<std::vector<Numbers>>();
      std::size_t next = 0;
      std::vector<Cma::Solution> solutions;
      for (const double value : generation["values"].get<Numbers>()) {
        Eigen::VectorXd point;
        std::size_t tries = 0;
        do {
          ASSERT_LT(next, normals.size());
          const Numbers& each = normals[next++];
          point = ours.point_of(Eigen::Map<const Eigen::VectorXd>(each.data(), static_cast<Eigen::Index>(each.size())));
        } while (!ours.is_inside(point) && tries++ < 10 * steps.size());
        solutions.push_back({ours.moved_inside(point), value});
      }
      ASSERT_EQ(next, normals.size()) << "run " << r << ", generation " << ours.generation();
      ours.tell(std::move(solutions));
      const std::string where = "run " + std::to_string(r) + ", generation " + std::to_string(ours.generation());
      expect_near(ours.sigma(), generation["sigma"].get<double>(), where + ", sigma");
      const auto mean = generation["mean"].get<Numbers>();
      const auto covariance = generation["covariance"].get<std::vector<Numbers>>();
      for (std::size_t i = 0; i < mean.size(); ++i) {
        const auto row = static_cast<Eigen::Index>(i);
        expect_near(ours.mean()[row], mean[i], where + ", mean");
        for (std::size_t j = 0; j < mean.size(); ++j) {
          expect_near(ours.covariance()(row, static_cast<Eigen::Index>(j)), covariance[i][j], where + ", covariance");
        }
      }
    }
  }
}

}  // namespace
}  // namespace pharos::ml
