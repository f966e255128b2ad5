#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dimension.hpp"
#include "random.hpp"

namespace pharos::ml {

/// How trials lie in some dimensions: a mixture of one product of kernels for each of them, and one that is as wide as
/// the whole. As the tree-structured Parzen estimator of Optuna 5 has it: a kernel reaches to the farther one of its
/// neighbours, and no less than a hundredth of the range; the oldest trials count less.
///
/// Goes on from one trial to the next: what a new one changes is reckoned again, and nothing else.
class Parzen {
 public:
  explicit Parzen(std::vector<Dimension> dimensions);

  /// `trial`: not there yet. A number for each dimension.
  void add(std::uint64_t trial, std::span<const double> point);
  void remove(std::uint64_t trial);
  std::size_t trials() const { return trials_.size(); }

  /// Points, one behind the other.
  std::vector<double> sample(Random& random, std::size_t count);
  /// The logarithm of how dense it is at each of them.
  std::vector<double> log_densities(std::span<const double> points);

  /// By kernel: the wide one, then those of the trials in their order. Their sum is 1.
  std::vector<double> weights() const;
  /// Of a dimension that is no choice.
  std::span<const double> means(std::size_t dimension);
  std::span<const double> deviations(std::size_t dimension);

 private:
  /// Of a dimension. By kernel: the wide one, then those of the trials in their order.
  struct Kernels {
    explicit Kernels(const Dimension& its);

    const Dimension dimension;
    double low = 0;  // of the line
    double high = 0;
    std::vector<double> means{};  // of a choice: which
    std::vector<double> widths{};
    std::vector<double> deviations{};    // the same, but not too small or large
    std::vector<double> sharpness{};     // 1 / deviation
    std::vector<double> logs{};          // of what the density is multiplied by
    std::vector<std::uint32_t> order{};  // of trials' kernels, by mean

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
  std::vector<std::uint64_t> trials_;  // rising
  std::vector<double> logs_{0};        // by kernel: the sum over the dimensions
  std::vector<char> is_changed_{0};    // by kernel
  double settled_share_ = 0;
};

}  // namespace pharos::ml
