#include "run/proposals.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "search/sampling.hpp"

namespace pharos::ml {

Proposals::Proposals(const SweepRules& rules, const Space& space, Searcher& searcher)
    : rules_{rules}, space_{space}, searcher_{searcher}, by_chance_{random_search({})} {}

bool Proposals::must_wait(std::uint64_t trial) const {
  if (rules_.in_order == 0) return false;
  for (std::uint64_t each = told_; each + rules_.in_order <= trial; ++each) {
    if (!untold_[each]) return true;
  }
  return false;
}

// The searcher may also propose parameters that the space lacks, because earlier trials have asked for them as they
// ran. These proposals wait until this trial asks.
Params Proposals::propose(std::uint64_t trial) {
  tell_up_to(trial);
  Params proposed = searcher_.ask(trial);
  Params of_space;
  Params others;
  for (const auto& [name, value] : proposed.entries())
    (space_.find(name) != nullptr ? of_space : others).set(name, value);
  if (!others.empty()) for_later_.insert_or_assign(trial, std::move(others));
  if (trial >= rules_.first.size()) return of_space;
  return complete(space_, [&](std::string_view name, const Domain& domain) {
    // A value may be meant for another parameter of that name.
    for (const Params* each : {&rules_.first[trial], &std::as_const(of_space)}) {
      if (const Value* const value = each->find(name); value != nullptr && domain.holds(*value)) return *value;
    }
    return searcher_.ask(trial, name, domain);
  });
}

Value Proposals::answer(std::uint64_t trial, const std::string& name, const Domain& domain) {
  if (rules_.in_order != 0) return by_chance_->ask(trial, name, domain);
  if (const auto known = for_later_.find(trial); known != for_later_.end()) {
    const Value* const value = known->second.find(name);
    if (value != nullptr && domain.holds(*value)) return *value;
  }
  return searcher_.ask(trial, name, domain);
}

void Proposals::began(std::uint64_t trial, const Params& params) {
  tell_up_to(trial);
  if (rules_.in_order != 0) untold_.emplace_back();
  searcher_.began(trial, params);
}

void Proposals::asked(std::uint64_t trial, const Params& params) {
  if (rules_.in_order == 0) searcher_.began(trial, params);
}

void Proposals::ended(const TrialResult& trial) {
  for_later_.erase(trial.number);
  const Outcome outcome = outcome_of(trial);
  if (rules_.in_order == 0) {
    searcher_.tell(trial.number, outcome);
  } else {
    untold_[trial.number] = outcome;
  }
}

Outcome Proposals::outcome_of(const TrialResult& trial) const {
  using State = TrialResult::State;
  Outcome outcome{.state = Outcome::State::kFailed, .step = trial.step};
  if (!trial.value || std::isnan(*trial.value)) return outcome;
  if (trial.state == State::kComplete) outcome.state = Outcome::State::kComplete;
  if (trial.state == State::kStopped) outcome.state = Outcome::State::kStopped;
  outcome.value = (rules_.goal == Goal::kMaximise ? -1 : 1) * *trial.value;
  for (const std::string& name : rules_.constraints) {
    const double* const value = trial.metrics.find(name);
    outcome.constraints.push_back(value == nullptr || std::isnan(*value) ? std::numeric_limits<double>::infinity()
                                                                         : *value);
  }
  return outcome;
}

void Proposals::tell_up_to(std::uint64_t trial) {
  if (rules_.in_order == 0) return;
  for (; told_ + rules_.in_order <= trial; ++told_) {
    const Outcome outcome = *std::exchange(untold_[told_], Outcome{});
    searcher_.tell(told_, outcome);
  }
}

}  // namespace pharos::ml
