#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/trial_scheduler.hpp>

#include "search/dimension.hpp"
#include "search/sampling.hpp"

namespace pharos::ml {
namespace {

using DecisionKind = TrialScheduler::Decision::Kind;

class Pbt final : public TrialScheduler {
 public:
  Pbt(const Space& space, const PbtOptions& options) : space_{space}, options_{options} {
    const bool makes_sense = options.interval >= 1 && options.share > 0 && options.share <= 0.5 &&
                             options.redraw_probability >= 0 && options.redraw_probability <= 1 && options.change >= 1;
    if (makes_sense) return;
    throw_error(Error{ErrorCode::kInvalidArgument, "the options of population based training are out of range",
                      "In PbtOptions, interval must be 1 or more, share above 0 and at most 0.5, redraw_probability "
                      "from 0 to 1, and change 1 or more."});
  }

  void began(std::uint64_t trial, const Params& params) override { trials_[trial].params = params; }

  std::uint64_t decides_at(std::uint64_t trial) const override {
    return trials_.at(trial).looked_at + options_.interval;
  }

  Decision report(std::uint64_t trial, std::uint64_t step, double value) override {
    Trial& own = trials_.at(trial);
    own.value = std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
    own.step = step;
    if (step < own.looked_at + options_.interval) return {};
    own.looked_at = step;
    std::vector<std::pair<double, std::uint64_t>> all;
    for (const auto& [number, its] : trials_) {
      if (its.value) all.emplace_back(*its.value, number);
    }
    std::sort(all.begin(), all.end());
    const auto ends = static_cast<std::size_t>(std::ceil(options_.share * static_cast<double>(all.size())));
    if (2 * ends > all.size()) return {};
    const auto rank =
        static_cast<std::size_t>(std::find(all.begin(), all.end(), std::pair{*own.value, trial}) - all.begin());
    if (rank < all.size() - ends) return {};
    Random random{options_.seed, copies_ + 1, "copy"};
    const std::uint64_t from = all[random.below(ends)].second;
    if (trials_.at(from).step < options_.interval) return {};  // that trial may not have saved yet
    ++copies_;
    own.params = changed(trials_.at(from).params, random);
    own.value.reset();
    return {DecisionKind::kCopy, from, own.params};
  }

  void ended(std::uint64_t trial) override { trials_.erase(trial); }
  std::optional<std::uint64_t> next() override { return std::nullopt; }

 private:
  struct Trial {
    Params params{};
    std::optional<double> value{};  // the last report
    std::uint64_t looked_at = 0;    // the step of the last decision
    std::uint64_t step = 0;
  };

  Params changed(const Params& params, Random& random) const {
    return complete(space_, [&](std::string_view name, const Domain& domain) {
      const Value* value = params.find(name);
      if (value != nullptr && !domain.holds(*value)) value = nullptr;  // of another parameter of that name
      if (value == nullptr || random.uniform() < options_.redraw_probability) return sample(domain, random);
      return beside(domain, *value, random);
    });
  }
  /// Returns a number that is a little larger or smaller, or a neighbour of a choice.
  Value beside(const Domain& domain, const Value& value, Random& random) const {
    const Dimension dimension = dimension_of(domain);
    const double number = number_of(domain, value);
    const bool goes_up = random.below(2) == 1;
    if (dimension.kind == Dimension::Kind::kChoice) {
      const double last = static_cast<double>(dimension.choices) - 1;
      return value_of(domain, std::clamp(number + (goes_up ? 1 : -1), 0.0, last));
    }
    double changed = number * (goes_up ? options_.change : 1 / options_.change);
    if (number == 0) changed = (goes_up ? 1 : -1) * (options_.change - 1) * (dimension.high - dimension.low);
    const bool is_too_little = dimension.kind == Dimension::Kind::kSteps && std::abs(changed - number) < dimension.step;
    if (is_too_little) changed = number + (goes_up ? dimension.step : -dimension.step);
    return value_of(domain, dimension.from_line(dimension.to_line(std::clamp(changed, dimension.low, dimension.high))));
  }

  const Space space_;
  const PbtOptions options_;
  std::map<std::uint64_t, Trial> trials_;
  std::uint64_t copies_ = 0;
};

}  // namespace

std::unique_ptr<TrialScheduler> pbt(const Space& space, const PbtOptions& options) {
  return std::make_unique<Pbt>(space, options);
}

}  // namespace pharos::ml
