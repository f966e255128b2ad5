#include "leases/lease_book.hpp"

namespace pharos::node {

void LeaseBook::apply(const scheduler::LeaseEffects& effects) {
  effects_.insert(effects_.end(), effects.begin(), effects.end());
  if (std::exchange(applies_, true)) return;
  while (!effects_.empty()) {
    const scheduler::LeaseEffect effect = std::move(effects_.front());
    effects_.pop_front();
    carry_out_(effect);
  }
  applies_ = false;
  settled_();
}

}  // namespace pharos::node
