#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <Eigen/Dense>

namespace pharos::ml {

/// The evolution strategy with covariance matrix adaptation (Hansen, 2016), in the unit cube. Dimensions with steps
/// keep a margin, a smallest probability: no step becomes so unlikely that it is never tried again (Hamano and others,
/// 2022). Owned by the searcher of cma_es(); one thread. Nothing is checked: there must be at least one dimension, and
/// lists and vectors must have an element for each.
class Cma {
 public:
  struct Options {
    double sigma = 1.0 / 6;      ///< standard deviation at the start
    std::vector<double> mean{};  ///< empty: the middle of the cube
    std::size_t population = 0;  ///< at least 2; 0: a size that suits the number of dimensions
    /// Step size of each dimension; 0 for a dimension without steps. A dimension with steps has at least two values.
    std::vector<double> steps{};
  };
  explicit Cma(std::size_t dimensions, const Options& options);

  std::size_t population() const { return population_; }
  std::uint64_t generation() const { return generation_; }

  /// Transforms a vector of independent normal numbers into a point of the current distribution. The point may lie
  /// outside of the cube.
  Eigen::VectorXd point_of(const Eigen::VectorXd& normals);
  /// Returns whether the point lies inside the cube in all dimensions without steps.
  bool is_inside(const Eigen::VectorXd& point) const;
  Eigen::VectorXd moved_inside(const Eigen::VectorXd& point) const;
  /// Returns the point that is tried: in dimensions with steps, it lies at the nearest step.
  Eigen::VectorXd tried(const Eigen::VectorXd& point) const;

  struct Solution {
    Eigen::VectorXd point;
    double value;
  };
  /// Learns from the solutions of one generation, exactly as many as the population. Less is better; a value must not
  /// be NaN.
  void tell(std::vector<Solution> solutions);
  /// Returns true if there is nothing more to gain: all solutions are alike, or the numbers have become too large or
  /// too small.
  bool is_done();

  const Eigen::VectorXd& mean() const { return mean_; }
  double sigma() const { return sigma_; }
  const Eigen::MatrixXd& covariance() const { return covariance_; }

 private:
  /// Constants of the adaptation. They follow from the number of dimensions and the population.
  struct Rates {
    Eigen::VectorXd weights;   ///< of the solutions of a generation, the best one first
    Eigen::Index parents;      ///< how many of the best solutions move the mean
    double parents_effective;  ///< how many solutions of equal weight would count as much as the parents
    double rank_one;           ///< how fast the covariance learns from its path (c_1)
    double rank_mu;            ///< how fast the covariance learns from one generation (c_mu)
    double sigma_path;         ///< how fast the path of sigma forgets (c_sigma)
    double damping;            ///< how slowly sigma follows its path (d_sigma)
    double covariance_path;    ///< how fast the path of the covariance forgets (c_c)
    double length;             ///< expected length of a vector of normal numbers
  };
  static Rates rates_for(std::size_t dimensions, std::size_t population);

  void decompose();
  void adapt(const std::vector<Solution>& solutions);
  void keep_margin();
  Eigen::Index nearest_step(Eigen::Index dimension, double place) const;
  Eigen::Index steps_of(Eigen::Index dimension) const;
  double between(Eigen::Index dimension, Eigen::Index step) const;

  const Eigen::Index dimensions_;
  const std::size_t population_;
  const std::vector<double> steps_;
  const double margin_;

  const Rates rates_;
  const double sigma_first_;

  std::uint64_t generation_ = 0;
  Eigen::VectorXd mean_;
  double sigma_;
  Eigen::MatrixXd covariance_;
  Eigen::VectorXd path_sigma_;
  Eigen::VectorXd path_c_;
  Eigen::VectorXd stretch_;  // further scale of dimensions with steps, beside sigma
  bool is_decomposed_ = false;
  Eigen::MatrixXd axes_;
  Eigen::VectorXd lengths_;
  std::vector<double> best_and_worst_;
};

}  // namespace pharos::ml
