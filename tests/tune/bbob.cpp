#include "bbob.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <vector>

#include <Eigen/Dense>

namespace pharos::ml {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kPi = std::numbers::pi;

// ---- The parts of an instance

/// The uniform numbers of the benchmark: the "minimal standard" generator with a shuffle, as of 1992.
VectorXd uniform_numbers(Index count, std::int64_t seed) {
  std::int64_t state = std::max<std::int64_t>(std::abs(seed), 1);
  const auto step = [&] {
    const std::int64_t high = state / 127773;
    state = 16807 * (state - high * 127773) - 2836 * high;
    if (state < 0) state += 2147483647;
    return state;
  };
  std::int64_t shuffled[32];
  for (int i = 39; i >= 0; --i) {
    const std::int64_t next = step();
    if (i < 32) shuffled[i] = next;
  }
  std::int64_t last = shuffled[0];
  VectorXd numbers(count);
  for (double& each : numbers) {
    const std::int64_t next = step();
    const std::int64_t place = last / 67108865;
    last = shuffled[place];
    shuffled[place] = next;
    each = last == 0 ? 1e-99 : static_cast<double>(last) / 2.147483647e9;
  }
  return numbers;
}

VectorXd normal_numbers(Index count, std::int64_t seed) {
  const VectorXd uniform = uniform_numbers(2 * count, seed);
  VectorXd numbers(count);
  for (Index i = 0; i < count; ++i) {
    numbers[i] = std::sqrt(-2 * std::log(uniform[i])) * std::cos(2 * kPi * uniform[count + i]);
    if (numbers[i] == 0) numbers[i] = 1e-99;
  }
  return numbers;
}

MatrixXd rotation(Index n, std::int64_t seed) {
  const VectorXd numbers = normal_numbers(n * n, seed);
  MatrixXd columns = Eigen::Map<const MatrixXd>(numbers.data(), n, n);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < i; ++j) columns.col(i) -= columns.col(i).dot(columns.col(j)) * columns.col(j);
    columns.col(i).normalize();
  }
  return columns;
}

VectorXd place_of_least(Index n, std::int64_t seed) {
  VectorXd x = uniform_numbers(n, seed);
  for (double& each : x) {
    each = 8 * std::floor(1e4 * each) / 1e4 - 4;
    if (each == 0) each = -1e-5;
  }
  return x;
}

double least_value(int function, std::uint32_t instance) {
  const std::int64_t like = function == 4 ? 3 : function == 18 ? 17 : function;
  const std::int64_t seed = like + 10000 * static_cast<std::int64_t>(instance);
  const double ratio = normal_numbers(1, seed)[0] / normal_numbers(1, seed + 1)[0];
  return std::clamp(std::floor(100 * 100 * ratio + 0.5) / 100, -1000.0, 1000.0);
}

// ---- Transformations of coordinates and values

/// The position of a coordinate in the row of coordinates, from 0 to 1.
double share(Index i, Index n) {
  return static_cast<double>(i) / static_cast<double>(n - 1);
}

double oscillated(double x) {
  if (x == 0) return 0;
  const double far = std::log(std::abs(x)) / 0.1;
  const double waves = x > 0 ? std::sin(far) + std::sin(0.79 * far) : std::sin(0.55 * far) + std::sin(0.31 * far);
  return std::copysign(std::pow(std::exp(far + 0.49 * waves), 0.1), x);
}
VectorXd oscillated(const VectorXd& x) {
  return x.unaryExpr([](double each) { return oscillated(each); });
}

VectorXd asymmetric(VectorXd x, double beta) {
  for (Index i = 0; i < x.size(); ++i) {
    if (x[i] > 0) x[i] = std::pow(x[i], 1 + beta * share(i, x.size()) * std::sqrt(x[i]));
  }
  return x;
}

MatrixXd conditioned(Index n, double by) {
  VectorXd diagonal(n);
  for (Index i = 0; i < n; ++i) diagonal[i] = std::pow(by, 0.5 * share(i, n));
  return diagonal.asDiagonal();
}

double rounded(double x) {
  return std::floor(x + 0.5);
}

double rastrigin(const VectorXd& z) {
  const auto n = static_cast<double>(z.size());
  return 10 * (n - (2 * kPi * z.array()).cos().sum()) + z.squaredNorm();
}
double ellipsoid(const VectorXd& z, double condition) {
  double sum = 0;
  for (Index i = 0; i < z.size(); ++i) sum += std::pow(condition, share(i, z.size())) * z[i] * z[i];
  return sum;
}
double rosenbrock(const VectorXd& z) {
  double sum = 0;
  for (Index i = 0; i + 1 < z.size(); ++i) {
    sum += 100 * std::pow(z[i] * z[i] - z[i + 1], 2) + std::pow(z[i] - 1, 2);
  }
  return sum;
}
double griewank_rosenbrock(const VectorXd& z) {
  double sum = 0;
  for (Index i = 0; i + 1 < z.size(); ++i) {
    const double each = 100 * std::pow(z[i] * z[i] - z[i + 1], 2) + std::pow(1 - z[i], 2);
    sum += each / 4000 - std::cos(each);
  }
  return 10 + 10 * sum / static_cast<double>(z.size() - 1);
}
double schaffers(const VectorXd& z) {
  double sum = 0;
  for (Index i = 0; i + 1 < z.size(); ++i) {
    const double far = z[i] * z[i] + z[i + 1] * z[i + 1];
    sum += std::pow(far, 0.25) * (1 + std::pow(std::sin(50 * std::pow(far, 0.1)), 2));
  }
  return std::pow(sum / static_cast<double>(z.size() - 1), 2);
}
double weierstrass(const VectorXd& z) {
  double sum = 0;
  double least = 0;
  for (int k = 0; k < 12; ++k) {
    const double height = std::pow(0.5, k);
    const double often = std::pow(3.0, k);
    least += height * std::cos(kPi * often);
    for (const double each : z) sum += height * std::cos(2 * kPi * (each + 0.5) * often);
  }
  return 10 * std::pow(sum / static_cast<double>(z.size()) - least, 3);
}
double katsuura(const VectorXd& z) {
  const auto n = static_cast<double>(z.size());
  double product = 1;
  for (Index i = 0; i < z.size(); ++i) {
    double sum = 0;
    for (int j = 1; j < 33; ++j) {
      const double power = std::pow(2.0, j);
      sum += std::abs(power * z[i] - rounded(power * z[i])) / power;
    }
    product *= 1 + static_cast<double>(i + 1) * sum;
  }
  return 10 / n / n * (std::pow(product, 10 / std::pow(n, 1.2)) - 1);
}

std::vector<std::size_t> order_of(const VectorXd& numbers) {
  std::vector<std::size_t> order(static_cast<std::size_t>(numbers.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return numbers[static_cast<Index>(a)] < numbers[static_cast<Index>(b)];
  });
  return order;
}

using Function = std::function<double(const VectorXd& x)>;

/// Many peaks, of which one is the highest.
Function gallagher(Index n, std::int64_t seed, Index peaks, double first_condition, double width) {
  const MatrixXd turned = rotation(n, seed);
  const auto conditions = order_of(uniform_numbers(peaks - 1, seed));
  const VectorXd numbers = uniform_numbers(n * peaks, seed);
  MatrixXd places(n, peaks);
  MatrixXd scales(n, peaks);
  VectorXd heights(peaks);
  for (Index peak = 0; peak < peaks; ++peak) {
    const double rank = static_cast<double>(peak - 1) / static_cast<double>(peaks - 2);
    heights[peak] = peak == 0 ? 10 : 1.1 + 8 * rank;
    const double condition =
        peak == 0 ? first_condition
                  : std::pow(1000.0, static_cast<double>(conditions[static_cast<std::size_t>(peak - 1)]) /
                                         static_cast<double>(peaks - 2));
    const auto order = order_of(uniform_numbers(n, seed + 1000 * peak));
    for (Index i = 0; i < n; ++i) {
      scales(i, peak) = std::pow(
          condition, static_cast<double>(order[static_cast<std::size_t>(i)]) / static_cast<double>(n - 1) - 0.5);
    }
    places.col(peak) = turned * (width * numbers.segment(peak * n, n).array() - width / 2).matrix();
  }
  places.col(0) *= 0.8;
  return [=](const VectorXd& x) {
    const VectorXd z = turned * x;
    double highest = 0;
    for (Index peak = 0; peak < peaks; ++peak) {
      const double far = scales.col(peak).dot((z - places.col(peak)).cwiseAbs2());
      highest = std::max(highest, heights[peak] * std::exp(-0.5 / static_cast<double>(n) * far));
    }
    return std::pow(oscillated(10 - highest), 2);
  };
}

Function schwefel(Index n, std::int64_t seed) {
  const VectorXd signs = uniform_numbers(n, seed).unaryExpr([](double each) { return each < 0.5 ? -1.0 : 1.0; });
  constexpr double kFar = 4.2096874637;  // twice the distance of the minimum from 0, in each coordinate
  const MatrixXd scaled = conditioned(n, 10);
  return [=](const VectorXd& x) {
    const VectorXd hat = 2 * signs.cwiseProduct(x);
    VectorXd z = hat;
    for (Index i = 1; i < n; ++i) z[i] += 0.25 * (hat[i - 1] - kFar);
    z = 100 * ((scaled * (z.array() - kFar).matrix()).array() + kFar).matrix();
    double sum = 0;
    double penalty = 0;
    for (const double each : z) {
      sum += each * std::sin(std::sqrt(std::abs(each)));
      penalty += std::pow(std::max(std::abs(each) - 500, 0.0), 2);
    }
    return 0.01 * (penalty + 418.9828872724339 - sum / static_cast<double>(n));
  };
}

Function lunacek(Index n, std::int64_t seed) {
  constexpr double kFirst = 2.5;
  const MatrixXd turned = rotation(n, seed + 1000000) * conditioned(n, 100) * rotation(n, seed);
  const VectorXd signs = normal_numbers(n, seed).unaryExpr([](double each) { return each < 0 ? -1.0 : 1.0; });
  const auto dimensions = static_cast<double>(n);
  const double s = 1 - 0.5 / (std::sqrt(dimensions + 20) - 4.1);
  const double second = -std::sqrt((kFirst * kFirst - 1) / s);
  return [=](const VectorXd& x) {
    const VectorXd hat = 2 * signs.cwiseProduct(x);
    const VectorXd z = turned * (hat.array() - kFirst).matrix();
    const double near = (hat.array() - kFirst).square().sum();
    const double other = dimensions + s * (hat.array() - second).square().sum();
    return std::min(near, other) + 10 * (dimensions - (2 * kPi * z.array()).cos().sum());
  };
}

Function step_ellipsoid(const VectorXd& least, const MatrixXd& first, const MatrixXd& second) {
  const MatrixXd scaled = conditioned(least.size(), 10) * second;
  return [=](const VectorXd& x) {
    VectorXd z = scaled * (x - least);
    const double along = std::abs(z[0]);
    for (double& each : z) each = std::abs(each) > 0.5 ? rounded(each) : rounded(10 * each) / 10;
    return 0.1 * std::max(1e-4 * along, ellipsoid(first * z, 100));
  };
}

Function make(int function, std::uint32_t instance, Index n) {
  const std::int64_t like = function == 4 ? 3 : function == 18 ? 17 : function;
  const std::int64_t seed = like + 10000 * static_cast<std::int64_t>(instance);
  VectorXd least = place_of_least(n, function == 12 ? seed + 1000000 : seed);
  const MatrixXd r = rotation(n, seed + 1000000);
  const MatrixXd q = rotation(n, seed);
  const double factor = std::max(1.0, std::sqrt(static_cast<double>(n)) / 8);
  const MatrixXd ten = conditioned(n, 10);
  switch (function) {
    case 1: return [=](const VectorXd& x) { return (x - least).squaredNorm(); };
    case 2: return [=](const VectorXd& x) { return ellipsoid(oscillated(x - least), 1e6); };
    case 3: return [=](const VectorXd& x) { return rastrigin(ten * asymmetric(oscillated(x - least), 0.2)); };
    case 4:
      for (Index i = 0; i < n; i += 2) least[i] = std::abs(least[i]);
      return [=](const VectorXd& x) {
        VectorXd z = oscillated(x - least);
        for (Index i = 0; i < n; ++i) z[i] *= std::pow(10, 0.5 * share(i, n)) * (z[i] > 0 && i % 2 == 0 ? 10 : 1);
        return rastrigin(z);
      };
    case 5:
      return [=](const VectorXd& x) {
        double sum = 0;
        for (Index i = 0; i < n; ++i) {
          const double slope = std::copysign(std::pow(10, share(i, n)), least[i]);
          const double end = std::copysign(5, least[i]);
          sum += 5 * std::abs(slope) - slope * (x[i] * end < 25 ? x[i] : end);
        }
        return sum;
      };
    case 6: {
      const MatrixXd turned = r * ten * q;
      return [=](const VectorXd& x) {
        const VectorXd z = turned * (x - least);
        double sum = 0;
        for (Index i = 0; i < n; ++i) sum += std::pow(z[i] * (least[i] * z[i] > 0 ? 100 : 1), 2);
        return std::pow(oscillated(sum), 0.9);
      };
    }
    case 7: return step_ellipsoid(least, r, q);
    case 8: return [=](const VectorXd& x) { return rosenbrock((factor * (x - 0.75 * least)).array() + 1); };
    case 9: return [=](const VectorXd& x) { return rosenbrock((factor * q * x).array() + 0.5); };
    case 10: return [=](const VectorXd& x) { return ellipsoid(oscillated(r * (x - least)), 1e6); };
    case 11:
      return [=](const VectorXd& x) {
        const VectorXd z = oscillated(r * (x - least));
        return 1e6 * z[0] * z[0] + z.tail(n - 1).squaredNorm();
      };
    case 12:
      return [=](const VectorXd& x) {
        const VectorXd z = r * asymmetric(r * (x - least), 0.5);
        return z[0] * z[0] + 1e6 * z.tail(n - 1).squaredNorm();
      };
    case 13: {
      const MatrixXd turned = r * ten * q;
      return [=](const VectorXd& x) {
        const VectorXd z = turned * (x - least);
        return z[0] * z[0] + 100 * z.tail(n - 1).norm();
      };
    }
    case 14:
      return [=](const VectorXd& x) {
        const VectorXd z = r * (x - least);
        double sum = 0;
        for (Index i = 0; i < n; ++i) sum += std::pow(std::abs(z[i]), 2 + 4 * share(i, n));
        return std::sqrt(sum);
      };
    case 15: {
      const MatrixXd turned = r * ten * q;
      return [=](const VectorXd& x) { return rastrigin(turned * asymmetric(oscillated(r * (x - least)), 0.2)); };
    }
    case 16: {
      const MatrixXd turned = r * conditioned(n, 0.01) * q;
      return [=](const VectorXd& x) { return weierstrass(turned * oscillated(r * (x - least))); };
    }
    case 17:
    case 18: {
      const MatrixXd turned = conditioned(n, function == 17 ? 10 : 1000) * q;
      return [=](const VectorXd& x) { return schaffers(turned * asymmetric(r * (x - least), 0.5)); };
    }
    case 19: return [=](const VectorXd& x) { return griewank_rosenbrock((factor * q * x).array() + 0.5); };
    case 20: return schwefel(n, seed);
    case 21: return gallagher(n, seed, 101, std::sqrt(1000.0), 10);
    case 22: return gallagher(n, seed, 21, 1000, 9.8);
    case 23: {
      const MatrixXd turned = r * conditioned(n, 100) * q;
      return [=](const VectorXd& x) { return katsuura(turned * (x - least)); };
    }
    default: return lunacek(n, seed);
  }
}

}  // namespace

struct Bbob::Instance {
  Function function;
  double least;
};

Bbob::Bbob(int function, std::uint32_t instance, std::size_t dimensions)
    : its_{std::make_unique<const Instance>(
          Instance{make(function, instance, static_cast<Index>(dimensions)), least_value(function, instance)})} {}

Bbob::~Bbob() = default;

double Bbob::operator()(std::span<const double> x) const {
  return its_->function(Eigen::Map<const VectorXd>(x.data(), static_cast<Index>(x.size()))) + its_->least;
}

double Bbob::least() const {
  return its_->least;
}

}  // namespace pharos::ml
