#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <Eigen/Dense>

namespace pharos::ml {

/// The evolution strategy with covariance matrix adaptation (Hansen, 2016), in the unit cube. Dimensions that go in
/// steps keep a margin: no step becomes so unlikely that it is never tried again (Hamano and others, 2022).
class Cma {
 public:
  struct Options {
    double sigma = 1.0 / 6;
    std::vector<double> mean{};  ///< none: the middle
    std::size_t population = 0;  ///< 0: as many as the dimensions want
    /// Of each dimension; 0: none. Each has two steps or more.
    std::vector<double> steps{};
  };
  explicit Cma(std::size_t dimensions, const Options& options);

  std::size_t population() const { return population_; }
  std::uint64_t generation() const { return generation_; }

  /// A point, from normal numbers of as many dimensions. It may be outside of the cube.
  Eigen::VectorXd point_of(const Eigen::VectorXd& normals);
  /// Whether it is in the cube, where there are no steps.
  bool is_inside(const Eigen::VectorXd& point) const;
  Eigen::VectorXd moved_inside(const Eigen::VectorXd& point) const;
  /// What is tried for it: steps are taken.
  Eigen::VectorXd tried(const Eigen::VectorXd& point) const;

  struct Solution {
    Eigen::VectorXd point;
    double value;
  };
  /// A generation's: as many as the population. Less is better.
  void tell(std::vector<Solution> solutions);
  /// There is nothing more to gain: all are alike, or the numbers have become too large or too small.
  bool is_done();

  const Eigen::VectorXd& mean() const { return mean_; }
  double sigma() const { return sigma_; }
  const Eigen::MatrixXd& covariance() const { return covariance_; }

 private:
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

  // What follows from the sizes.
  Eigen::VectorXd weights_;
  std::size_t parents_ = 0;
  double parents_effective_ = 0;
  double c1_ = 0;
  double c_mu_ = 0;
  double c_sigma_ = 0;
  double d_sigma_ = 0;
  double c_c_ = 0;
  double length_ = 0;  // of a normal vector
  double sigma_first_;

  std::uint64_t generation_ = 0;
  Eigen::VectorXd mean_;
  double sigma_;
  Eigen::MatrixXd covariance_;
  Eigen::VectorXd path_sigma_;
  Eigen::VectorXd path_c_;
  Eigen::VectorXd stretch_;  // of steps, beside sigma
  bool is_decomposed_ = false;
  Eigen::MatrixXd axes_;
  Eigen::VectorXd lengths_;
  std::vector<double> best_and_worst_;
};

}  // namespace pharos::ml
