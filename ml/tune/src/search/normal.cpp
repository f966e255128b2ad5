#include "search/normal.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <boost/math/special_functions/erf.hpp>

#include "search/random.hpp"

namespace pharos::ml {
namespace {

constexpr double kRoot2 = std::numbers::sqrt2;
constexpr double kFarOut = -20;  // below this point the mass is computed from a series
const double kLogRoot2Pi = 0.5 * std::log(2 * std::numbers::pi);

/// Boost throws no exceptions: the result is infinite if it is out of range.
using Policy = boost::math::policies::policy<boost::math::policies::overflow_error<boost::math::policies::ignore_error>,
                                             boost::math::policies::promote_double<false>>;

double log_mass_below(double x) {
  if (x > 6) return -normal_mass(-x);
  if (x > kFarOut) return std::log(normal_mass(x));
  // The asymptotic series for x far below 0: 1 - 1/x^2 + 3/x^4 - ...
  double sum = 1;
  double term = 1;
  for (int i = 1; i < 20; ++i) {
    const double before = sum;
    term *= -(2 * i - 1) / (x * x);
    sum += term;
    if (sum == before) break;
  }
  return -0.5 * x * x - std::log(-x) - kLogRoot2Pi + std::log(sum);
}

/// Returns the x whose log_mass_below() is `log_mass`, for x far out in the lower tail.
double far_quantile(double log_mass) {
  double x = -std::sqrt(std::max(-2 * (log_mass + kLogRoot2Pi), 1.0));
  for (int i = 0; i < 60; ++i) {
    const double below = log_mass_below(x);
    const double step = (below - log_mass) * std::exp(below + 0.5 * x * x + kLogRoot2Pi);
    x -= step;
    if (std::abs(step) <= 1e-14 * std::abs(x)) break;
  }
  return x;
}

double log_difference(double larger, double smaller) {
  return larger + std::log1p(-std::exp(smaller - larger));
}

}  // namespace

double normal_mass(double x) {
  return 0.5 * std::erfc(-x / kRoot2);
}

double normal_quantile(double mass) {
  return -kRoot2 * boost::math::erfc_inv(2 * mass, Policy{});
}

// Computes in the lower tail, where the numbers lose no precision. An interval that contains 0 is computed from the two
// masses outside of it.
double log_normal_mass(double a, double b) {
  if (b <= 0) return log_difference(log_mass_below(b), log_mass_below(a));
  if (a > 0) return log_difference(log_mass_below(-a), log_mass_below(-b));
  return std::log1p(-normal_mass(a) - normal_mass(-b));
}

double normal_quantile_between(double a, double b, double share) {
  if (a > 0) return -normal_quantile_between(-b, -a, 1 - share);
  const double below = normal_mass(a);
  const double above = b > 0 ? normal_mass(-b) : 0;
  const double between = b > 0 ? 1 - below - above : normal_mass(b) - below;
  const double mass = below + share * between;
  if (mass > 0.5) return std::clamp(-normal_quantile(above + (1 - share) * between), a, b);
  if (b > kFarOut && mass > std::numeric_limits<double>::min()) return std::clamp(normal_quantile(mass), a, b);
  const double log_below = log_mass_below(a);
  const double log_between = std::log(share) + log_normal_mass(a, b);
  const double larger = std::max(log_below, log_between);
  return std::clamp(far_quantile(larger + std::log1p(std::exp(std::min(log_below, log_between) - larger))), a, b);
}

double Random::normal() {
  return normal_quantile(uniform());
}

}  // namespace pharos::ml
