#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>

#include "search/parzen.hpp"
#include "search/sampling.hpp"

namespace pharos::ml {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kGoodMax = 25;

/// The rank of a trial that has ended; the best trial has the lowest rank.
struct Rank {
  std::uint8_t kind;  // 0: complete, 1: stopped early, 2: violates a constraint
  double first;
  double second;
  std::uint64_t trial;
  auto operator<=>(const Rank&) const = default;
};

Rank rank_of(std::uint64_t trial, const Outcome& outcome) {
  double violation = 0;
  for (const double each : outcome.constraints) violation += std::max(each, 0.0);
  if (violation > 0) return {2, violation, 0, trial};
  if (outcome.state == Outcome::State::kStopped) return {1, -static_cast<double>(outcome.step), outcome.value, trial};
  return {0, outcome.value, 0, trial};
}

std::size_t good_ones(std::size_t ended) {
  return std::min((ended + 9) / 10, kGoodMax);
}

/// Parameters that always occur together, and the densities of the good trials and of all other trials in them.
struct Group {
  Group(std::vector<std::size_t> its, const std::vector<Dimension>& dimensions)
      : members{std::move(its)}, good{dimensions}, others{dimensions} {}

  const std::vector<std::size_t> members;  // indices of known parameters
  Parzen good;
  Parzen others;

  /// Returns the numbers of a trial in these parameters; nullopt if the trial lacks one of them.
  std::optional<std::vector<double>> point(const std::vector<double>& numbers) const {
    std::vector<double> its;
    for (const std::size_t each : members) {
      if (each >= numbers.size() || std::isnan(numbers[each])) return std::nullopt;
      its.push_back(numbers[each]);
    }
    return its;
  }
};

class Tpe final : public Searcher {
 public:
  Tpe(const Space& space, const TpeOptions& options) : space_{space}, options_{options} {
    for (const auto& [name, domain, condition] : space_.parameters()) {
      if (!find(name, domain)) add(name, domain);
    }
  }

  Params ask(std::uint64_t trial) override {
    std::map<std::size_t, Value> proposed;  // by parameter
    if (has_learned()) {
      for (auto& [members, group] : groups_) propose(trial, group, proposed);
    }
    Params params = complete(space_, [&](std::string_view name, const Domain& domain) {
      const auto value = proposed.find(*find(name, domain));
      return value == proposed.end() ? ask(trial, name, domain) : value->second;
    });
    // The space lacks the parameters that trials ask for as they run.
    for (const auto& [parameter, value] : proposed) {
      const std::string& name = parameters_[parameter].name;
      if (space_.find(name) == nullptr) params.set(name, value);
    }
    return params;
  }

  Value ask(std::uint64_t trial, std::string_view name, const Domain& domain) override {
    const std::size_t parameter = number_of_parameter(name, domain);
    Random random{options_.seed, trial, name};
    if (!has_learned() || domain.is_fixed()) return sample(domain, random);
    Group alone{{parameter}, {dimension_of(domain)}};
    for (const auto& [number, its] : trials_) put(alone, number, its, true);
    if (alone.good.trials() + alone.others.trials() == 0) return sample(domain, random);
    return value_of(domain, best_of(alone, random).front());
  }

  void began(std::uint64_t trial, const Params& params) override {
    Trial& its = trials_[trial];
    for (auto& [members, group] : groups_) put(group, trial, its, false);
    its.numbers.assign(parameters_.size(), kMissing);
    its.of_unknown_domain = {};
    for (const auto& [name, value] : params.entries()) {
      const auto known = find(name, params);
      if (!known) {
        its.of_unknown_domain.set(name, value);
        continue;
      }
      its.numbers.resize(parameters_.size(), kMissing);
      its.numbers[*known] = number_of(parameters_[*known].domain, value);
    }
    for (auto& [members, group] : groups_) put(group, trial, its, true);
  }

  void tell(std::uint64_t trial, const Outcome& outcome) override {
    const auto found = trials_.find(trial);
    if (found == trials_.end() || found->second.rank) return;
    Trial& its = found->second;
    const bool says_something = outcome.state != Outcome::State::kFailed && !std::isnan(outcome.value);
    if (!says_something) {
      for (auto& [members, group] : groups_) put(group, trial, its, false);
      trials_.erase(found);
      return;
    }
    its.rank = rank_of(trial, outcome);
    (good_.empty() || *good_.rbegin() < *its.rank ? others_ : good_).insert(*its.rank);
    if (good_.contains(*its.rank)) move(*its.rank, true);
    const std::size_t wanted = good_ones(good_.size() + others_.size());
    while (good_.size() > wanted) {
      const Rank worst = *good_.rbegin();
      good_.erase(worst);
      others_.insert(worst);
      move(worst, false);
    }
    while (good_.size() < wanted) {
      const Rank best = *others_.begin();
      others_.erase(best);
      good_.insert(best);
      move(best, true);
    }
    regroup(its.numbers);
  }

 private:
  struct Parameter {
    std::string name;
    Domain domain;
  };
  struct Trial {
    std::vector<double> numbers{};  // by parameter; kMissing if the trial lacks it
    Params of_unknown_domain{};     // parameters for which no trial has asked yet
    std::optional<Rank> rank{};     // nullopt while the trial runs
    bool is_good = false;
  };

  bool has_learned() const { return good_.size() + others_.size() >= options_.startup; }

  /// The parameter of this name and domain.
  std::optional<std::size_t> find(std::string_view name, const Domain& domain) const {
    const auto known = numbers_.find(name);
    if (known == numbers_.end()) return std::nullopt;
    for (const std::size_t each : known->second) {
      if (parameters_[each].domain == domain) return each;
    }
    return std::nullopt;
  }
  /// The parameter of this name that is active in a trial.
  std::optional<std::size_t> find(std::string_view name, const Params& params) const {
    const auto known = numbers_.find(name);
    if (known == numbers_.end()) return std::nullopt;
    if (known->second.size() == 1) return known->second.front();
    for (std::size_t i = 0; i < space_.parameters().size(); ++i) {
      const auto& [its, domain, condition] = space_.parameters()[i];
      if (its == name && space_.is_active(i, params)) return find(name, domain);
    }
    return std::nullopt;
  }
  void add(std::string_view name, const Domain& domain) {
    numbers_[std::string{name}].push_back(parameters_.size());
    parameters_.push_back({std::string{name}, domain});
    learn_from_earlier(parameters_.size() - 1);
  }
  /// The same as find(), for a parameter that a trial asks for, which may be new.
  std::size_t number_of_parameter(std::string_view name, const Domain& domain) {
    const auto known = numbers_.find(name);
    if (known == numbers_.end()) add(name, domain);
    if (const auto found = find(name, domain)) return *found;
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "parameter \"" + std::string{name} + "\" was asked for as " +
                          to_string(parameters_[known->second.front()].domain) + " before, and is asked for as " +
                          to_string(domain) + " now",
                      "Give it another name."});
  }

  /// Trials of a journal may have had a parameter for which no trial has asked since then, so that its domain was
  /// unknown. Gives these trials their numbers in it.
  void learn_from_earlier(std::size_t parameter) {
    const auto& [name, domain] = parameters_[parameter];
    for (auto& [trial, its] : trials_) {
      const Value* const value = its.of_unknown_domain.find(name);
      if (value == nullptr || !domain.holds(*value)) continue;
      for (auto& [members, group] : groups_) put(group, trial, its, false);
      its.numbers.resize(parameters_.size(), kMissing);
      its.numbers[parameter] = number_of(domain, *value);
      for (auto& [members, group] : groups_) put(group, trial, its, true);
      if (its.rank) regroup(its.numbers);
    }
  }

  /// Adds a trial to the density that it belongs to, or removes it from there, if it has the group's parameters.
  static void put(Group& group, std::uint64_t trial, const Trial& its, bool in) {
    const auto point = group.point(its.numbers);
    if (!point) return;
    Parzen& where = its.is_good ? group.good : group.others;
    if (in) {
      where.add(trial, *point);
    } else {
      where.remove(trial);
    }
  }
  void move(const Rank& rank, bool is_good) {
    Trial& its = trials_.at(rank.trial);
    if (its.is_good == is_good) return;
    for (auto& [members, group] : groups_) put(group, rank.trial, its, false);
    its.is_good = is_good;
    for (auto& [members, group] : groups_) put(group, rank.trial, its, true);
  }

  /// Splits groups so that the trial of these numbers has all parameters of a group or none.
  void regroup(const std::vector<double>& numbers) {
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!std::isnan(numbers[i]) && !parameters_[i].domain.is_fixed()) own.push_back(i);
    }
    if (!seen_.insert(own).second) return;
    std::set<std::vector<std::size_t>> parts;
    std::vector<std::size_t> rest = own;
    const auto take = [&](std::vector<std::size_t> part) {
      if (!part.empty()) parts.insert(std::move(part));
    };
    for (const auto& [members, group] : groups_) {
      std::vector<std::size_t> both;
      std::vector<std::size_t> alone;
      std::vector<std::size_t> left;
      std::set_intersection(members.begin(), members.end(), own.begin(), own.end(), std::back_inserter(both));
      std::set_difference(members.begin(), members.end(), own.begin(), own.end(), std::back_inserter(alone));
      std::set_difference(rest.begin(), rest.end(), members.begin(), members.end(), std::back_inserter(left));
      take(std::move(both));
      take(std::move(alone));
      rest = std::move(left);
    }
    take(std::move(rest));
    std::erase_if(groups_, [&](const auto& each) { return !parts.contains(each.first); });
    for (const auto& members : parts) {
      if (groups_.contains(members)) continue;
      std::vector<Dimension> dimensions;
      for (const std::size_t each : members) dimensions.push_back(dimension_of(parameters_[each].domain));
      Group& group = groups_.emplace(members, Group{members, dimensions}).first->second;
      for (const auto& [trial, its] : trials_) put(group, trial, its, true);
    }
  }

  void propose(std::uint64_t trial, Group& group, std::map<std::size_t, Value>& proposed) {
    Random random{options_.seed, trial, parameters_[group.members.front()].name};
    const std::vector<double> best = best_of(group, random);
    for (std::size_t i = 0; i < best.size(); ++i) {
      proposed.insert_or_assign(group.members[i], value_of(parameters_[group.members[i]].domain, best[i]));
    }
  }

  /// Returns the candidate at which good trials are densest in comparison with the others.
  std::vector<double> best_of(Group& group, Random& random) const {
    const std::vector<double> points = group.good.sample(random, options_.candidates);
    const std::vector<double> good = group.good.log_densities(points);
    const std::vector<double> others = group.others.log_densities(points);
    std::size_t best = 0;
    for (std::size_t i = 1; i < good.size(); ++i) {
      if (good[i] - others[i] > good[best] - others[best]) best = i;
    }
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(best * group.members.size());
    return {begin, begin + static_cast<std::ptrdiff_t>(group.members.size())};
  }

  const Space space_;
  const TpeOptions options_;
  std::vector<Parameter> parameters_;
  /// By name. There are several only of a name that the space has several times.
  std::map<std::string, std::vector<std::size_t>, std::less<>> numbers_;
  std::map<std::uint64_t, Trial> trials_;  // running trials, and ended ones that have a value
  std::set<Rank> good_;
  std::set<Rank> others_;
  std::map<std::vector<std::size_t>, Group> groups_;
  std::set<std::vector<std::size_t>> seen_;  // the sets of parameters that trials have had
};

}  // namespace

std::unique_ptr<Searcher> tpe(const Space& space, const TpeOptions& options) {
  if (options.candidates == 0) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "TpeOptions::candidates is 0, but a proposal is chosen from at least one candidate",
                      "Set TpeOptions::candidates to 1 or more."});
  }
  return std::make_unique<Tpe>(space, options);
}

}  // namespace pharos::ml
