#include "search/parzen.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "search/mixture.hpp"
#include "search/normal.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kFlat = 25;              // the number of newest trials that have full weight
constexpr double kNarrowestShare = 1 / 100.0;  // smallest standard deviation, as a share of the range
const double kLogOfRoot2Pi = 0.5 * std::log(2 * std::numbers::pi);

}  // namespace

// ---- The kernels of a dimension

Parzen::Kernels::Kernels(const Dimension& its) : dimension{its} {
  if (!is_choice()) {
    low = dimension.line_low();
    high = dimension.line_high();
  }
  for (auto* const each : {&means, &widths, &deviations, &sharpness, &scaled, &logs}) each->push_back(0);
  if (is_choice()) {
    means[0] = -1;  // equals no choice
    return;
  }
  means[0] = 0.5 * (low + high);
  widths[0] = high - low;
  resize(0, 1);
}

/// Returns the position of the new kernel in `order`.
std::size_t Parzen::Kernels::insert(std::size_t kernel, double mean) {
  const auto at = static_cast<std::ptrdiff_t>(kernel);
  means.insert(means.begin() + at, mean);
  for (auto* const each : {&widths, &deviations, &sharpness, &scaled, &logs}) each->insert(each->begin() + at, 0);
  if (is_choice()) return 0;
  if (kernel + 1 != means.size()) {
    for (std::uint32_t& each : order) each += each >= kernel ? 1 : 0;
  }
  const auto is_before = [this](std::uint32_t a, std::uint32_t b) {
    return means[a] != means[b] ? means[a] < means[b] : a < b;
  };
  const auto number = static_cast<std::uint32_t>(kernel);
  const auto at_order = order.insert(std::upper_bound(order.begin(), order.end(), number, is_before), number);
  return static_cast<std::size_t>(at_order - order.begin());
}

/// Returns the position that the kernel had in `order`.
std::size_t Parzen::Kernels::erase(std::size_t kernel) {
  const auto at = static_cast<std::ptrdiff_t>(kernel);
  for (auto* const each : {&means, &widths, &deviations, &sharpness, &scaled, &logs}) each->erase(each->begin() + at);
  if (is_choice()) return 0;
  const auto found = std::find(order.begin(), order.end(), static_cast<std::uint32_t>(kernel));
  const auto position = static_cast<std::size_t>(found - order.begin());
  order.erase(found);
  for (std::uint32_t& each : order) each -= each > kernel ? 1 : 0;
  return position;
}

/// Updates the standard deviation of a kernel, and what follows from it, after a change of its width or of
/// `least_share`.
void Parzen::Kernels::resize(std::size_t kernel, double least_share) {
  const double deviation = std::clamp(widths[kernel], least_share * (high - low), high - low);
  if (deviation == deviations[kernel]) return;
  deviations[kernel] = deviation;
  sharpness[kernel] = 1 / deviation;
  scaled[kernel] = means[kernel] * sharpness[kernel];
  logs[kernel] = -log_normal_mass((low - means[kernel]) / deviation, (high - means[kernel]) / deviation);
  if (dimension.kind == Dimension::Kind::kReal) logs[kernel] -= std::log(deviation) + kLogOfRoot2Pi;
}

// ---- Parzen

Parzen::Parzen(std::vector<Dimension> dimensions) {
  for (const Dimension& each : dimensions) dimensions_.emplace_back(each);
}

void Parzen::add(std::uint64_t trial, std::span<const double> point) {
  const auto at = std::lower_bound(trials_.begin(), trials_.end(), trial) - trials_.begin();
  const auto kernel = static_cast<std::size_t>(at) + 1;
  trials_.insert(trials_.begin() + at, trial);
  logs_.insert(logs_.begin() + at + 1, 0);
  is_changed_.insert(is_changed_.begin() + at + 1, 1);
  for (std::size_t d = 0; d < dimensions_.size(); ++d) {
    Kernels& its = dimensions_[d];
    const std::size_t position = its.insert(kernel, its.is_choice() ? point[d] : its.dimension.to_line(point[d]));
    if (!its.is_choice()) change_beside(its, position);
  }
}

void Parzen::remove(std::uint64_t trial) {
  const auto at = std::lower_bound(trials_.begin(), trials_.end(), trial) - trials_.begin();
  const auto kernel = static_cast<std::size_t>(at) + 1;
  trials_.erase(trials_.begin() + at);
  logs_.erase(logs_.begin() + at + 1);
  is_changed_.erase(is_changed_.begin() + at + 1);
  for (Kernels& its : dimensions_) {
    const std::size_t position = its.erase(kernel);
    if (!its.is_choice()) change_beside(its, position);
  }
}

/// Updates the widths of the kernels around a position in `order` where a kernel was added or removed: their neighbours
/// have changed.
void Parzen::change_beside(Kernels& kernels, std::size_t position) {
  const auto& order = kernels.order;
  const std::size_t last = order.size() - 1;
  for (std::size_t p = position == 0 ? 0 : position - 1; p < std::min(position + 2, order.size()); ++p) {
    const double mean = kernels.means[order[p]];
    const double below = mean - (p == 0 ? kernels.low : kernels.means[order[p - 1]]);
    const double above = (p == last ? kernels.high : kernels.means[order[p + 1]]) - mean;
    // The outermost kernels reach to their only neighbour, not to the end of the range. A single kernel has no
    // neighbour, and reaches to the farther end.
    const bool is_alone = last == 0;
    const double width = is_alone || (p != 0 && p != last) ? std::max(below, above) : p == 0 ? above : below;
    kernels.widths[order[p]] = width;
    is_changed_[order[p]] = 1;
  }
}

/// Returns the smallest standard deviation of a kernel, as a share of the range. It is larger if there are fewer
/// trials.
double Parzen::least_share() const {
  return std::max(kNarrowestShare, 1 / (2 + static_cast<double>(trials_.size())));
}

void Parzen::settle() {
  const bool all = least_share() != settled_share_;
  settled_share_ = least_share();
  // To the wide kernel all choices are equally likely. log_densities() counts the wide kernel as one that misses, with
  // the probability of a miss, so the difference is added here.
  logs_[0] = 0;
  for (const Kernels& its : dimensions_) {
    const auto alike = static_cast<double>(its.dimension.choices);
    logs_[0] += its.is_choice() ? -std::log(alike * chances(its.dimension.choices).second) : its.logs[0];
  }
  for (std::size_t kernel = 1; kernel < logs_.size(); ++kernel) {
    if (!all && is_changed_[kernel] == 0) continue;
    is_changed_[kernel] = 0;
    logs_[kernel] = 0;
    for (Kernels& its : dimensions_) {
      if (its.is_choice()) continue;
      its.resize(kernel, settled_share_);
      logs_[kernel] += its.logs[kernel];
    }
  }
}

std::span<const double> Parzen::weights() {
  const std::size_t n = trials_.size();
  if (weights_.size() == n + 1) return weights_;
  weights_.assign(n + 1, 1);
  if (n > kFlat) {
    const auto older = static_cast<double>(n - kFlat);
    const double least = 1 / static_cast<double>(n);
    for (std::size_t i = 0; i < n - kFlat; ++i) {
      weights_[i + 1] = n - kFlat == 1 ? least : least + (1 - least) * static_cast<double>(i) / (older - 1);
    }
  }
  double sum = 0;
  for (const double each : weights_) sum += each;
  for (double& each : weights_) each /= sum;
  return weights_;
}

std::span<const double> Parzen::means(std::size_t dimension) {
  return dimensions_[dimension].means;
}
std::span<const double> Parzen::deviations(std::size_t dimension) {
  settle();
  return dimensions_[dimension].deviations;
}

/// Returns two probabilities of a trial's kernel: that of the trial's own choice, and that of each other choice.
std::pair<double, double> Parzen::chances(std::size_t choices) const {
  const double any = 1 / static_cast<double>(trials_.size() + 1);
  const double sum = 1 + any * static_cast<double>(choices);
  return {(1 + any) / sum, any / sum};
}

std::vector<double> Parzen::sample(Random& random, std::size_t count) {
  settle();
  const auto each = weights();
  std::vector<double> sums(each.begin(), each.end());
  for (std::size_t k = 1; k < sums.size(); ++k) sums[k] += sums[k - 1];
  std::vector<double> points;
  points.reserve(count * dimensions_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = std::upper_bound(sums.begin(), sums.end() - 1, random.uniform());
    const auto kernel = static_cast<std::size_t>(found - sums.begin());
    for (const Kernels& its : dimensions_) {
      if (its.is_choice()) {
        const auto other = static_cast<double>(random.below(its.dimension.choices));
        const auto [hit, miss] = chances(its.dimension.choices);
        const bool is_hit = kernel != 0 && random.uniform() < hit - miss;
        points.push_back(is_hit ? its.means[kernel] : other);
        continue;
      }
      const double mean = its.means[kernel];
      const double deviation = its.deviations[kernel];
      const double place =
          normal_quantile_between((its.low - mean) / deviation, (its.high - mean) / deviation, random.uniform());
      points.push_back(its.dimension.from_line(mean + deviation * place));
    }
  }
  return points;
}

/// Returns, for each kernel, the logarithm of its probability of the step at `number`.
std::vector<double> Parzen::masses_of_step(const Kernels& kernels, double number) const {
  const double from = kernels.dimension.to_line(number - kernels.dimension.step / 2);
  const double to = kernels.dimension.to_line(number + kernels.dimension.step / 2);
  const auto mass_of = [&](std::size_t kernel) {
    const double mean = kernels.means[kernel];
    return log_normal_mass((from - mean) * kernels.sharpness[kernel], (to - mean) * kernels.sharpness[kernel]);
  };
  std::vector<double> all(kernels.means.size());
  all[0] = mass_of(0);
  std::size_t last = 0;
  for (const std::uint32_t kernel : kernels.order) {
    // Often many trials are at the same step, and then their kernels are computed once.
    const bool is_same = last != 0 && kernels.means[kernel] == kernels.means[last] &&
                         kernels.deviations[kernel] == kernels.deviations[last];
    all[kernel] = is_same ? all[last] : mass_of(kernel);
    last = kernel;
  }
  return all;
}

std::vector<double> Parzen::log_densities(std::span<const double> points) {
  settle();
  const std::size_t count = points.size() / dimensions_.size();
  std::vector<std::map<double, std::vector<double>>> steps(dimensions_.size());
  std::vector<Term> terms;
  terms.reserve(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Kernels& its = dimensions_[i % dimensions_.size()];
    Term term{
        .means = its.means.data(), .sharpness = its.sharpness.data(), .scaled = its.scaled.data(), .number = points[i]};
    if (its.dimension.kind == Dimension::Kind::kReal) {
      term.number = its.dimension.to_line(points[i]);
    } else if (its.dimension.kind == Dimension::Kind::kSteps) {
      auto& masses = steps[i % dimensions_.size()][points[i]];
      if (masses.empty()) masses = masses_of_step(its, points[i]);
      term.kind = Term::Kind::kGiven;
      term.given = masses.data();
    } else {
      const auto [hit, miss] = chances(its.dimension.choices);
      term.kind = Term::Kind::kChoice;
      term.hit = std::log(hit);
      term.miss = std::log(miss);
    }
    terms.push_back(term);
  }
  std::vector<double> densities(count);
  log_sums(weights(), logs_, terms, densities);
  return densities;
}

}  // namespace pharos::ml
