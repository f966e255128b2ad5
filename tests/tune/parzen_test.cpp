#include "search/parzen.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "search/mixture.hpp"
#include "search/normal.hpp"

namespace pharos::ml {
namespace {

const std::vector<Dimension> kDimensions{
    {.low = -1, .high = 4},
    {.low = 1e-3, .high = 1, .log = true},
    {.kind = Dimension::Kind::kSteps, .low = 0, .high = 9, .step = 1},
    {.kind = Dimension::Kind::kChoice, .choices = 3},
};

std::vector<double> point(Random& random) {
  return {random.uniform(-1, 4), std::exp(random.uniform(std::log(1e-3), 0)), static_cast<double>(random.below(10)),
          static_cast<double>(random.below(3))};
}

// Trials come, go and change sides in any order. The estimator is always as if it had been made of the current trials.
TEST(ParzenTest, WhatGoesOnIsAsWhatBeginsAnew) {
  Random random{11};
  Parzen ours{kDimensions};
  std::map<std::uint64_t, std::vector<double>> there;
  for (int step = 0; step < 600; ++step) {
    const bool goes = !there.empty() && random.uniform() < (there.size() > 130 ? 0.9 : 0.4);
    if (goes) {
      const auto which = std::next(there.begin(), static_cast<std::ptrdiff_t>(random.below(there.size())));
      ours.remove(which->first);
      there.erase(which);
    } else {
      const std::uint64_t trial = random.below(1000);
      if (there.contains(trial)) continue;
      there[trial] = point(random);
      ours.add(trial, there[trial]);
    }
    if (step % 7 != 0) continue;
    Parzen anew{kDimensions};
    for (const auto& [trial, its] : there) anew.add(trial, its);
    std::vector<double> points;
    for (int i = 0; i < 3; ++i) {
      const auto each = point(random);
      points.insert(points.end(), each.begin(), each.end());
    }
    ASSERT_EQ(ours.trials(), there.size());
    ASSERT_EQ(ours.log_densities(points), anew.log_densities(points)) << "step " << step;
    for (std::size_t d = 0; d < 3; ++d) ASSERT_TRUE(std::ranges::equal(ours.deviations(d), anew.deviations(d)));
  }
}

// By counting: samples lie where the density says.
TEST(ParzenTest, SamplesLieAsDenseAsItSays) {
  Random random{5};
  Parzen parzen{{{.kind = Dimension::Kind::kSteps, .low = 0, .high = 5, .step = 1},
                 {.kind = Dimension::Kind::kChoice, .choices = 3}}};
  for (std::uint64_t trial = 0; trial < 8; ++trial) {
    parzen.add(trial, std::vector{static_cast<double>(random.below(3)), static_cast<double>(random.below(2))});
  }
  constexpr std::size_t kSamples = 200'000;
  const auto samples = parzen.sample(random, kSamples);
  std::map<std::pair<double, double>, double> share;
  for (std::size_t i = 0; i < kSamples; ++i) share[{samples[2 * i], samples[2 * i + 1]}] += 1.0 / kSamples;
  double sum = 0;
  for (double step = 0; step < 6; ++step) {
    for (double choice = 0; choice < 3; ++choice) {
      const double density = std::exp(parzen.log_densities(std::vector{step, choice})[0]);
      sum += density;
      EXPECT_NEAR((share[{step, choice}]), density, 0.005) << step << ' ' << choice;
    }
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(ParzenTest, DensitiesOfRealsAreOneInAll) {
  Random random{6};
  Parzen parzen{{{.low = -1, .high = 4}}};
  for (std::uint64_t trial = 0; trial < 40; ++trial) parzen.add(trial, std::vector{random.uniform(-1, 0)});
  constexpr int kSteps = 20'000;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    sum += std::exp(parzen.log_densities(std::vector{-1 + 5 * (i + 0.5) / kSteps})[0]) * 5 / kSteps;
  }
  EXPECT_NEAR(sum, 1, 1e-6);
}

/// Expects that a logarithm is the one of the weighted sum of the kernels whose logarithms `log_of` gives.
void expect_sum(double found, const std::vector<double>& weights, const std::function<double(std::size_t)>& log_of) {
  double largest = -1e300;
  for (std::size_t k = 0; k < weights.size(); ++k) largest = std::max(largest, log_of(k));
  double sum = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) sum += weights[k] * std::exp(log_of(k) - largest);
  EXPECT_NEAR(found, std::log(sum) + largest, 1e-12 * std::abs(largest));
}

TEST(MixtureTest, IsTheSameBitsWithAndWithoutVectors) {
  constexpr std::size_t kPoints = 6;  // some together, and some alone
  Random random{7};
  for (const std::size_t kernels : {1U, 7U, 256U, 1001U}) {
    std::vector<double> weights(kernels);
    std::vector<double> logs(kernels);
    std::vector<double> means(kernels);
    std::vector<double> sharpness(kernels);
    std::vector<double> scaled(kernels);
    for (std::size_t k = 0; k < kernels; ++k) {
      weights[k] = random.uniform();
      logs[k] = random.uniform(-500, 0);
      means[k] = random.uniform(-5, 5);
      sharpness[k] = random.uniform(0.1, 20);
      scaled[k] = means[k] * sharpness[k];
    }
    std::vector<Term> terms;
    std::vector<Term> normal;
    for (std::size_t point = 0; point < kPoints; ++point) {
      terms.push_back({.sharpness = sharpness.data(), .scaled = scaled.data(), .number = random.uniform(-5, 5)});
      normal.push_back(terms.back());
      terms.push_back({.kind = Term::Kind::kGiven, .given = logs.data()});
      terms.push_back({.kind = Term::Kind::kChoice, .means = means.data(), .number = means[0], .hit = -1, .miss = -2});
    }
    std::vector<double> plain(kPoints);
    std::vector<double> fast(kPoints);
    log_sums_plain(weights, logs, normal, plain);
    log_sums(weights, logs, normal, fast);
    EXPECT_EQ(plain, fast);
    for (std::size_t point = 0; point < kPoints; ++point)
      expect_sum(plain[point], weights, [&](std::size_t k) {
        const double far = (normal[point].number - means[k]) * sharpness[k];
        return logs[k] - far * far / 2;
      });
    log_sums_plain(weights, logs, terms, plain);
    log_sums(weights, logs, terms, fast);
    EXPECT_EQ(plain, fast);
    for (std::size_t point = 0; point < kPoints; ++point)
      expect_sum(plain[point], weights, [&](std::size_t k) {
        const double far = (normal[point].number - means[k]) * sharpness[k];
        return 2 * logs[k] - far * far / 2 + (k == 0 ? -1 : -2);
      });
  }
}

TEST(NormalTest, QuantilesAndMassesAreEachOthersInverse) {
  for (double x = -8; x <= 5; x += 0.37) EXPECT_NEAR(normal_quantile(normal_mass(x)), x, 1e-9 * std::max(1.0, -x));
  EXPECT_NEAR(normal_mass(1.959963984540054), 0.975, 1e-15);
  Random random{8};
  for (const auto& [a, b] : std::vector<std::pair<double, double>>{{-1, 2},
                                                                   {-40, -39},
                                                                   {39, 40},
                                                                   {-1e-9, 1e-9},
                                                                   {-500, 500},
                                                                   {7, 9},
                                                                   {-100, -99.999},
                                                                   {-3, -2.5},
                                                                   {30, 1000}}) {
    double before = a;
    for (const double share : {0.0, 1e-9, 0.1, 0.3, 0.5, 0.8, 0.99999, 1.0}) {
      const double x = normal_quantile_between(a, b, std::clamp(share, 1e-300, 1 - 1e-16));
      EXPECT_GE(x, before) << a << ' ' << b;
      EXPECT_LE(x, b);
      before = x;
      if (share < 0.05 || share > 0.9) continue;
      EXPECT_NEAR(std::exp(log_normal_mass(a, x) - log_normal_mass(a, b)), share, 1e-6) << a << ' ' << b << ' ' << x;
    }
  }
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 100'000, 0, 0.02);
  EXPECT_NEAR(squares / 100'000, 1, 0.02);
}

}  // namespace
}  // namespace pharos::ml
