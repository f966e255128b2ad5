#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "search/dimension.hpp"
#include "search/random.hpp"

namespace pharos::ml {

/// The density of trials in some dimensions, as the tree-structured Parzen estimator of Optuna 5 estimates it: a
/// mixture of kernels. Each trial has one kernel, a product over the dimensions; one more kernel, the wide one, covers
/// the whole range. In each dimension a kernel's standard deviation is the distance to the farther one of its two
/// neighbours, and at least a hundredth of the range. The oldest trials have less weight.
///
/// Incremental: adding or removing a trial marks only the kernels beside it, and only marked kernels are computed
/// again.
///
/// Owned by the searcher of tpe(); one thread. Nothing is checked: there must be at least one dimension, and points
/// must lie in the dimensions.
class Parzen {
 public:
  explicit Parzen(std::vector<Dimension> dimensions);

  /// Adds a trial that is not in the mixture yet. `point` has a number for each dimension.
  void add(std::uint64_t trial, std::span<const double> point);
  /// Removes a trial that is in the mixture.
  void remove(std::uint64_t trial);
  std::size_t trials() const { return trials_.size(); }

  /// Samples `count` points, and returns their numbers one point after the other.
  std::vector<double> sample(Random& random, std::size_t count);
  /// Returns the logarithm of the density at each point. `points` is as sample() returns it.
  std::vector<double> log_densities(std::span<const double> points);

  /// Returns the weights of the kernels: first the wide one, then one for each trial, by trial number. Their sum is 1.
  /// This span and the following two are valid until the next add() or remove().
  std::span<const double> weights();
  /// Mean and standard deviation of each kernel, in a dimension that is no choice.
  std::span<const double> means(std::size_t dimension);
  std::span<const double> deviations(std::size_t dimension);

 private:
  /// The kernels in one dimension. The vectors have the wide kernel first, then one for each trial, by trial number.
  struct Kernels {
    explicit Kernels(const Dimension& its);

    const Dimension dimension;
    double low = 0;  // ends of the line that the kernels lie on
    double high = 0;
    std::vector<double> means{};         // a choice: its index
    std::vector<double> widths{};        // distances to the farther neighbour
    std::vector<double> deviations{};    // the widths, clamped between the smallest allowed one and the range
    std::vector<double> sharpness{};     // 1 / deviation
    std::vector<double> scaled{};        // mean / deviation
    std::vector<double> logs{};          // logarithms of the factors that normalise the densities
    std::vector<std::uint32_t> order{};  // the trials' kernels, sorted by mean

    bool is_choice() const { return dimension.kind == Dimension::Kind::kChoice; }
    std::size_t insert(std::size_t kernel, double mean);
    std::size_t erase(std::size_t kernel);
    void resize(std::size_t kernel, double least_share);
  };

  void settle();
  void change_beside(Kernels& kernels, std::size_t position);
  double least_share() const;
  std::pair<double, double> chances(std::size_t choices) const;
  std::vector<double> masses_of_step(const Kernels& kernels, double number) const;

  std::vector<Kernels> dimensions_;
  std::vector<std::uint64_t> trials_;  // sorted
  std::vector<double> weights_;        // of as many kernels as there were when they were needed last
  std::vector<double> logs_{0};        // by kernel: the sum of Kernels::logs over the dimensions
  std::vector<char> is_changed_{0};    // by kernel
  double settled_share_ = 0;           // least_share() at the last settle()
};

}  // namespace pharos::ml
