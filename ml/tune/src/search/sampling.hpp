#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <pharos/ml/searcher.hpp>

#include "search/random.hpp"

namespace pharos::ml {

// Searchers and schedulers call these functions, on any thread. The functions check nothing.

/// Samples a value from the distribution that the domain describes.
Value sample(const Domain& domain, Random& random);
/// Returns the value at a share of the domain, where a share from 0 to 1 goes through all values.
Value value_at(const Domain& domain, double share);

/// Returns a value for each active parameter of the space, which `value_for` chooses. What that throws is passed on.
Params complete(const Space& space, const std::function<Value(std::string_view name, const Domain& domain)>& value_for);

/// A searcher that samples at random and learns nothing. A derived class proposes some of the parameters itself. Owned
/// by the tuner, as each Searcher; one thread. Keeps a copy of the space. Nothing fails.
class Unlearned : public Searcher {
 public:
  Unlearned(const Space& space, std::uint64_t seed) : space_{space}, seed_{seed} {}

  Params ask(std::uint64_t trial) override;
  Value ask(std::uint64_t trial, std::string_view name, const Domain& domain) override;
  void began(std::uint64_t, const Params&) override {}
  void tell(std::uint64_t, const Outcome&) override {}
  bool learns() const override { return false; }

 protected:
  /// Returns the parameters that are not sampled at random, of those that are active with the proposed values.
  virtual Params propose(std::uint64_t) { return {}; }
  const Space& space() const { return space_; }
  std::uint64_t seed() const { return seed_; }

 private:
  const Space space_;
  const std::uint64_t seed_;
};

}  // namespace pharos::ml
