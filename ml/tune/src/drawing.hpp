#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <pharos/ml/searcher.hpp>

#include "random.hpp"

namespace pharos::ml {

/// Any of its values, each as likely as its domain says.
Value draw(const Domain& domain, Random& random);
/// The value at a share of the domain, from 0 to 1.
Value value_at(const Domain& domain, double share);

/// All parameters of the space that are there given those before them: as proposed, or else as drawn.
Params complete(const Space& space, const Params& proposed,
                const std::function<Value(std::string_view name, const Domain& domain)>& draw);

/// A searcher that learns nothing.
class Unlearned : public Searcher {
 public:
  Unlearned(const Space& space, std::uint64_t seed) : space_{space}, seed_{seed} {}

  Params ask(std::uint64_t trial) override;
  Value ask(std::uint64_t trial, std::string_view name, const Domain& domain) override;
  void began(std::uint64_t, const Params&) override {}
  void tell(std::uint64_t, const Outcome&) override {}
  bool learns() const override { return false; }

 protected:
  /// What is not left to chance.
  virtual Params propose(std::uint64_t) { return {}; }
  const Space& space() const { return space_; }
  std::uint64_t seed() const { return seed_; }

 private:
  const Space space_;
  const std::uint64_t seed_;
};

}  // namespace pharos::ml
