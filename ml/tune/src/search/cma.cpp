#include "search/cma.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <boost/math/special_functions/erf.hpp>

#include "search/normal.hpp"

namespace pharos::ml {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kLittle = 1e-8;
constexpr double kSigmaMax = 1e32;

double square(double x) {
  return x * x;
}

std::size_t population_for(std::size_t dimensions) {
  return 4 + static_cast<std::size_t>(3 * std::log(static_cast<double>(dimensions)));
}

/// Returns the square root of this quantile of the chi-squared distribution with one degree of freedom.
double root_of_chi_squared(double share) {
  return std::numbers::sqrt2 * boost::math::erf_inv(share);
}

}  // namespace

Cma::Cma(std::size_t dimensions, const Options& options)
    : dimensions_{static_cast<Index>(dimensions)},
      population_{options.population == 0 ? population_for(dimensions) : options.population},
      steps_{options.steps.empty() ? std::vector<double>(dimensions) : options.steps},
      margin_{1 / static_cast<double>(dimensions * population_)},
      rates_{rates_for(dimensions, population_)},
      sigma_first_{options.sigma},
      mean_{VectorXd::Constant(dimensions_, 0.5)},
      sigma_{options.sigma},
      covariance_{MatrixXd::Identity(dimensions_, dimensions_)},
      path_sigma_{VectorXd::Zero(dimensions_)},
      path_c_{VectorXd::Zero(dimensions_)},
      stretch_{VectorXd::Ones(dimensions_)} {
  for (std::size_t i = 0; i < options.mean.size(); ++i) mean_[static_cast<Index>(i)] = options.mean[i];
  const double remembered = 10 + std::ceil(30 * static_cast<double>(dimensions) / static_cast<double>(population_));
  best_and_worst_.resize(2 * static_cast<std::size_t>(remembered));
}

Cma::Rates Cma::rates_for(std::size_t dimensions, std::size_t population) {
  const auto n = static_cast<double>(dimensions);
  const auto parents = static_cast<Index>(population / 2);
  VectorXd raw(static_cast<Index>(population));
  for (Index i = 0; i < raw.size(); ++i) {
    raw[i] = std::log((static_cast<double>(population) + 1) / 2) - std::log(static_cast<double>(i + 1));
  }
  const double mu_eff = square(raw.head(parents).sum()) / raw.head(parents).squaredNorm();
  const Index others = raw.size() - parents;
  const double others_effective = square(raw.tail(others).sum()) / raw.tail(others).squaredNorm();
  const double c1 = 2 / (square(n + 1.3) + mu_eff);
  const double c_mu = std::min(1 - c1 - 1e-8, 2 * (mu_eff - 2 + 1 / mu_eff) / (square(n + 2) + mu_eff));
  const double least = std::min({1 + c1 / c_mu, 1 + 2 * others_effective / (mu_eff + 2), (1 - c1 - c_mu) / (n * c_mu)});
  const double above = raw.cwiseMax(0).sum();
  const double below = -raw.cwiseMin(0).sum();
  const double c_sigma = (mu_eff + 2) / (n + mu_eff + 5);
  return {.weights = raw.unaryExpr([&](double each) { return each >= 0 ? each / above : least / below * each; }),
          .parents = parents,
          .parents_effective = mu_eff,
          .rank_one = c1,
          .rank_mu = c_mu,
          .sigma_path = c_sigma,
          .damping = 1 + 2 * std::max(0.0, std::sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma,
          .covariance_path = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n),
          .length = std::sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))};
}

// ---- Points

void Cma::decompose() {
  if (std::exchange(is_decomposed_, true)) return;
  covariance_ = ((covariance_ + covariance_.transpose()) / 2).eval();
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver{covariance_};
  axes_ = solver.eigenvectors();
  // The sign of an eigenvector is arbitrary. Each gets the sign that makes its largest component positive, so that the
  // result is always the same.
  for (Index i = 0; i < dimensions_; ++i) {
    Index largest = 0;
    axes_.col(i).cwiseAbs().maxCoeff(&largest);
    if (axes_(largest, i) < 0) axes_.col(i) *= -1;
  }
  lengths_ = solver.eigenvalues().unaryExpr([](double each) { return std::sqrt(each < 0 ? kLittle : each); });
  covariance_ = axes_ * lengths_.cwiseAbs2().asDiagonal() * axes_.transpose();
}

VectorXd Cma::point_of(const VectorXd& normals) {
  decompose();
  return mean_ + sigma_ * (axes_ * lengths_.cwiseProduct(normals));
}

bool Cma::is_inside(const VectorXd& point) const {
  for (Index i = 0; i < dimensions_; ++i) {
    if (steps_[static_cast<std::size_t>(i)] == 0 && (point[i] < 0 || point[i] > 1)) return false;
  }
  return true;
}

VectorXd Cma::moved_inside(const VectorXd& point) const {
  VectorXd inside = point;
  for (Index i = 0; i < dimensions_; ++i) {
    if (steps_[static_cast<std::size_t>(i)] == 0) inside[i] = std::clamp(point[i], 0.0, 1.0);
  }
  return inside;
}

VectorXd Cma::tried(const VectorXd& point) const {
  VectorXd all = point;
  for (Index i = 0; i < dimensions_; ++i) {
    const double step = steps_[static_cast<std::size_t>(i)];
    if (step == 0) continue;
    all[i] = static_cast<double>(nearest_step(i, (point[i] - mean_[i]) * stretch_[i] + mean_[i])) * step;
  }
  return all;
}

Index Cma::steps_of(Index dimension) const {
  const double step = steps_[static_cast<std::size_t>(dimension)];
  return static_cast<Index>(std::ceil((1 + step / 2) / step));
}

/// Returns the place halfway between a step and the next one.
double Cma::between(Index dimension, Index step) const {
  const double size = steps_[static_cast<std::size_t>(dimension)];
  return (static_cast<double>(step) * size + static_cast<double>(step + 1) * size) / 2;
}

/// Returns the step nearest to a place; the lower of two if the place is halfway.
Index Cma::nearest_step(Index dimension, double place) const {
  const Index last = steps_of(dimension) - 1;
  const double near = std::floor(place / steps_[static_cast<std::size_t>(dimension)] + 0.5);
  auto step = static_cast<Index>(std::clamp(near, 0.0, static_cast<double>(last)));
  if (step > 0 && place <= between(dimension, step - 1)) --step;
  if (step < last && place > between(dimension, step)) ++step;
  return step;
}

// ---- Learning

void Cma::tell(std::vector<Solution> solutions) {
  ++generation_;
  std::stable_sort(solutions.begin(), solutions.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  const std::size_t place = 2 * (generation_ % (best_and_worst_.size() / 2));
  best_and_worst_[place] = solutions.front().value;
  best_and_worst_[place + 1] = solutions.back().value;
  adapt(solutions);
  keep_margin();
}

void Cma::adapt(const std::vector<Solution>& solutions) {
  decompose();
  is_decomposed_ = false;
  const auto n = static_cast<double>(dimensions_);
  MatrixXd ways(dimensions_, static_cast<Index>(population_));
  for (Index i = 0; i < ways.cols(); ++i) ways.col(i) = (solutions[static_cast<std::size_t>(i)].point - mean_) / sigma_;
  const VectorXd way = ways.leftCols(rates_.parents) * rates_.weights.head(rates_.parents);
  mean_ += sigma_ * way;

  const MatrixXd inverse_root = axes_ * lengths_.cwiseInverse().asDiagonal() * axes_.transpose();
  const double c_sigma = rates_.sigma_path;
  path_sigma_ = (1 - c_sigma) * path_sigma_ +
                std::sqrt(c_sigma * (2 - c_sigma) * rates_.parents_effective) * (inverse_root * way);
  const double length = path_sigma_.norm();
  sigma_ = std::min(sigma_ * std::exp(c_sigma / rates_.damping * (length / rates_.length - 1)), kSigmaMax);

  const double left = length / std::sqrt(1 - std::pow(1 - c_sigma, 2 * static_cast<double>(generation_ + 1)));
  const double goes_on = left < (1.4 + 2 / (n + 1)) * rates_.length ? 1 : 0;
  const double c_c = rates_.covariance_path;
  path_c_ = (1 - c_c) * path_c_ + goes_on * std::sqrt(c_c * (2 - c_c) * rates_.parents_effective) * way;

  const VectorXd far = (inverse_root * ways).colwise().squaredNorm().transpose();
  VectorXd weights = rates_.weights;
  for (Index i = 0; i < weights.size(); ++i) {
    if (weights[i] < 0) weights[i] *= n / (far[i] + kLittle);
  }
  const double kept =
      1 + rates_.rank_one * (1 - goes_on) * c_c * (2 - c_c) - rates_.rank_one - rates_.rank_mu * rates_.weights.sum();
  covariance_ = (kept * covariance_ + rates_.rank_one * path_c_ * path_c_.transpose() +
                 rates_.rank_mu * ways * weights.asDiagonal() * ways.transpose())
                    .eval();
}

void Cma::keep_margin() {
  const VectorXd mean = mean_;
  for (Index i = 0; i < dimensions_; ++i) {
    if (steps_[static_cast<std::size_t>(i)] == 0) continue;
    const Index last = steps_of(i) - 1;
    const Index step = nearest_step(i, mean[i]);
    const double low = between(i, std::clamp<Index>(step - 1, 0, last - 1));
    const double high = between(i, std::clamp<Index>(step, 0, last - 1));
    const double root = std::sqrt(covariance_(i, i));
    const double scale = sigma_ * stretch_[i] * root;
    double below = normal_mass((low - mean[i]) / scale);
    double above = 1 - normal_mass((high - mean[i]) / scale);
    const double middle = 1 - (below + above);
    if (std::max(below, above) > 0.5) {
      // The mean is at the first or the last step. It may go only so far out that the other steps keep the margin.
      if (std::min(below, above) < margin_) {
        const double side = mean[i] == high ? 0 : mean[i] > high ? 1 : -1;
        mean_[i] = high + side * scale * root_of_chi_squared(1 - 2 * margin_);
      }
      continue;
    }
    below = std::max(below, margin_ / 2);
    above = std::max(above, margin_ / 2);
    const double excess = 1 - below - above - middle;
    const double room = below + middle + above - 3 * margin_ / 2;
    const auto shared = [&](double side) {
      return std::clamp(side + excess * (side - margin_ / 2) / room, 1e-10, 0.5 - 1e-10);
    };
    const double to_low = root_of_chi_squared(1 - 2 * shared(below));
    const double to_high = root_of_chi_squared(1 - 2 * shared(above));
    stretch_[i] = (high - low) / ((to_low + to_high) * sigma_ * root);
    mean_[i] = (low * to_high + high * to_low) / (to_low + to_high);
  }
}

bool Cma::is_done() {
  decompose();
  const std::size_t remembered = best_and_worst_.size() / 2;
  const auto [least, most] = std::minmax_element(best_and_worst_.begin(), best_and_worst_.end());
  if (generation_ > remembered && *most - *least < 1e-12) return true;
  const VectorXd spread = covariance_.diagonal();
  const double tiny = 1e-12 * sigma_first_;
  if ((sigma_ * spread).maxCoeff() < tiny && (sigma_ * path_c_).maxCoeff() < tiny) return true;
  if (sigma_ * lengths_.maxCoeff() > 1e4) return true;
  const VectorXd moved = mean_ + 0.2 * sigma_ * spread.cwiseSqrt();
  if ((mean_.array() == moved.array()).any()) return true;
  const auto axis = static_cast<Index>(generation_ % static_cast<std::uint64_t>(dimensions_));
  const VectorXd along = mean_ + 0.1 * sigma_ * lengths_[axis] * axes_.col(axis);
  if (mean_ == along) return true;
  return lengths_.maxCoeff() / lengths_.minCoeff() > 1e14;
}

}  // namespace pharos::ml
