#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/ml/searcher.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "run/sweep_rules.hpp"

namespace pharos::ml {

/// What a sweep asks its searcher, and what it tells the searcher. Where trials are proposed in order
/// (SweepRules::in_order), the searcher hears of a trial's outcome only when a later trial is to know it. Pure. Owned
/// by Sweep; one thread.
class Proposals {
 public:
  /// `rules` and `searcher` must outlive the object. What the searcher throws leaves the functions below.
  Proposals(const SweepRules& rules, const Space& space, Searcher& searcher);

  /// Returns whether the trial has to wait for the outcome of an earlier one.
  bool must_wait(std::uint64_t trial) const;
  /// Returns the parameters of a trial that is about to begin. must_wait() must be false for it.
  Params propose(std::uint64_t trial);
  /// Returns the value of a parameter that a trial asks for as it runs: with `in_order` it is sampled at random, and
  /// otherwise the searcher chooses it, and may throw InvalidArgument if the name had another domain before.
  Value answer(std::uint64_t trial, const std::string& name, const Domain& domain);

  /// The trial has begun. Trials begin in the order of their numbers.
  void began(std::uint64_t trial, const Params& params);
  /// The trial has another parameter, for which it has asked as it ran.
  void asked(std::uint64_t trial, const Params& params);
  /// The trial has ended.
  void ended(const TrialResult& trial);

 private:
  void tell_up_to(std::uint64_t trial);
  Outcome outcome_of(const TrialResult& trial) const;

  const SweepRules& rules_;
  const Space space_;
  Searcher& searcher_;
  const std::unique_ptr<Searcher> by_chance_;   // samples what trials ask for as they run, if `in_order` is set
  std::map<std::uint64_t, Params> for_later_;   // by trial: proposals for parameters that it may ask for as it runs
  std::vector<std::optional<Outcome>> untold_;  // by trial, if `in_order` is set: outcomes for the searcher
  std::uint64_t told_ = 0;                      // number of trials whose outcomes the searcher has
};

}  // namespace pharos::ml
