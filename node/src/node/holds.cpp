#include "node/holds.hpp"

#include <variant>

namespace pharos::node {

void Holds::note_asked(CallerId caller, const wire::Message& question) {
  if (const auto* const promise = std::get_if<wire::PromiseActor>(&question)) {
    promised_.insert(promise->actor);
    change(caller, promise->actor, 1);
  } else if (const auto* const start = std::get_if<wire::StartActor>(&question)) {
    if (promised_.erase(start->actor) == 0) change(caller, start->actor, 1);
  } else if (const auto* const broken = std::get_if<wire::BreakPromise>(&question)) {
    promised_.erase(broken->actor);
  } else if (const auto* const hold = std::get_if<wire::HoldActor>(&question)) {
    change(caller, hold->actor, hold->count);
  }
}

void Holds::note_answered(CallerId caller, const wire::Message& question, ActorId found) {
  if (const auto* const promise = std::get_if<wire::PromiseActor>(&question)) {
    if (found == promise->actor) return;
    promised_.erase(promise->actor);
    change(caller, promise->actor, -1);
  } else if (!std::holds_alternative<wire::FindActor>(question)) {
    return;
  }
  if (found) change(caller, found, 1);
}

void Holds::forget(CallerId caller) {
  const auto held = holds_.extract(caller);
  if (held.empty()) return;
  for (const auto& [actor, count] : held.mapped()) promised_.erase(actor);
}

bool Holds::contains(CallerId caller, ActorId actor) const {
  const auto actors = holds_.find(caller);
  return actors != holds_.end() && actors->second.contains(actor);
}

std::vector<wire::Report::Hold> Holds::list() const {
  std::vector<wire::Report::Hold> all;
  for (const auto& [caller, actors] : holds_) {
    for (const auto& [actor, count] : actors) all.push_back({caller, actor, count});
  }
  return all;
}

void Holds::change(CallerId caller, ActorId actor, std::int64_t more) {
  auto& actors = holds_[caller];
  auto& count = actors[actor];
  count += more;
  if (count == 0) actors.erase(actor);
  if (actors.empty()) holds_.erase(caller);
}

}  // namespace pharos::node
