#include <utility>

#include <pharos/scheduler/holders.hpp>

namespace pharos::scheduler {

void Holders::take(ActorId actor, CallerId caller) {
  if (has_ended(caller)) return;
  ++holds_[actor][caller];
  held_by_[caller].insert(actor);
}

bool Holders::add(ActorId actor, CallerId caller, std::int64_t count) {
  if (count == 0 || has_ended(caller)) return false;
  std::int64_t& held = holds_[actor][caller];
  held += count;
  if (held == 0) return remove(actor, caller);
  held_by_[caller].insert(actor);
  return false;
}

bool Holders::set(ActorId actor, CallerId caller, std::int64_t count) {
  if (has_ended(caller)) return false;
  if (count == 0) return remove(actor, caller);
  holds_[actor][caller] = count;
  held_by_[caller].insert(actor);
  return false;
}

bool Holders::remove(ActorId actor, CallerId caller) {
  const auto found = holds_.find(actor);
  if (found == holds_.end() || found->second.erase(caller) == 0) return false;
  if (found->second.empty()) holds_.erase(found);
  forget_held(actor, caller);
  return true;
}

void Holders::forget_held(ActorId actor, CallerId caller) {
  const auto held = held_by_.find(caller);
  if (held == held_by_.end()) return;
  held->second.erase(actor);
  if (held->second.empty()) held_by_.erase(held);
}

std::vector<CallerId> Holders::of(ActorId actor) const {
  std::vector<CallerId> holders;
  const auto found = holds_.find(actor);
  if (found == holds_.end()) return holders;
  for (const auto& [caller, count] : found->second) holders.push_back(caller);
  return holders;
}

void Holders::release_all(ActorId actor) {
  const auto released = holds_.extract(actor);
  if (released.empty()) return;
  for (const auto& [caller, count] : released.mapped()) forget_held(actor, caller);
}

void Holders::end_promise(ActorId actor, CallerId creator) {
  const auto promised = promised_.find(creator);
  if (promised == promised_.end()) return;
  promised->second.erase(actor);
  if (promised->second.empty()) promised_.erase(promised);
}

std::unordered_set<ActorId> Holders::promised_by(CallerId creator) const {
  const auto promised = promised_.find(creator);
  return promised == promised_.end() ? std::unordered_set<ActorId>{} : promised->second;
}

std::unordered_set<ActorId> Holders::end_caller(CallerId caller) {
  if (ended_.insert(caller).second) ended_in_order_.push_back(caller);
  if (ended_in_order_.size() > kEndedMax) {
    ended_.erase(ended_in_order_.front());
    ended_in_order_.pop_front();
  }
  auto held = held_by_.extract(caller);
  if (held.empty()) return {};
  for (const ActorId actor : held.mapped()) {
    const auto counts = holds_.find(actor);
    counts->second.erase(caller);
    if (counts->second.empty()) holds_.erase(counts);
  }
  return std::move(held.mapped());
}

std::vector<CallerId> Holders::callers() const {
  std::vector<CallerId> all;
  for (const auto& [caller, promised] : promised_) all.push_back(caller);
  for (const auto& [caller, held] : held_by_) all.push_back(caller);
  return all;
}

}  // namespace pharos::scheduler
