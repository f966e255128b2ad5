#pragma once

#include <deque>
#include <functional>
#include <utility>

#include <pharos/scheduler/leases.hpp>

namespace pharos::node {

/// Who has the resources of this node: tasks by leases, actors and bundles by reservations. scheduler::Leases decides,
/// and this class has its decisions carried out, one after the other. An effect may lead to more effects, which are
/// carried out after the others. So the calls do not nest, however many grants fail and go to the next request.
/// Owned by Node; on its strand. Whoever changes `leases()` passes the effects on to apply(). An apply() inside of
/// another one returns before its effects are carried out. The callbacks use parts of Node, which must live as long as
/// apply() is called.
class LeaseBook {
 public:
  using CarryOut = std::function<void(const scheduler::LeaseEffect& effect)>;

  /// `settled` runs after each apply() whose effects, and those that they led to, are carried out.
  LeaseBook(scheduler::Leases leases, CarryOut carry_out, std::function<void()> settled)
      : leases_{std::move(leases)}, carry_out_{std::move(carry_out)}, settled_{std::move(settled)} {}

  scheduler::Leases& leases() { return leases_; }
  const scheduler::Leases& leases() const { return leases_; }
  void apply(const scheduler::LeaseEffects& effects);

 private:
  scheduler::Leases leases_;
  const CarryOut carry_out_;
  const std::function<void()> settled_;
  std::deque<scheduler::LeaseEffect> effects_;  // still to be carried out
  bool applies_ = false;
};

}  // namespace pharos::node
