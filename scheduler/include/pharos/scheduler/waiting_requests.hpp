#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pharos/base/check.hpp>
#include <pharos/base/id.hpp>

namespace pharos::scheduler {

/// One request of a caller that waits until an actor is alive. ActorTable answers each request once, or drops it. Ids
/// are not used twice.
using ActorRequestId = Id<struct ActorRequestTag>;

/// The requests that wait for actors, in one line for each actor. Owned by ActorTable, which limits how many wait, and
/// not thread-safe.
class WaitingRequests {
 public:
  /// A request that waits already must not be added again: that would end the process.
  void add(ActorRequestId request, ActorId actor) {
    const bool is_new = places_.try_emplace(request, actor, ++last_number_).second;
    PHAROS_CHECK(is_new, request);
    lines_[actor].emplace(last_number_, request);
  }
  /// Removes a request whose answer nobody waits for any more. Has no effect if the request does not wait.
  void drop(ActorRequestId request) {
    const auto dropped = places_.extract(request);
    if (dropped.empty()) return;
    const auto line = lines_.find(dropped.mapped().first);
    line->second.erase(dropped.mapped().second);
    if (line->second.empty()) lines_.erase(line);
  }
  /// Removes and returns the requests that wait for the actor, the oldest first.
  std::vector<ActorRequestId> take(ActorId actor) {
    std::vector<ActorRequestId> taken;
    const auto line = lines_.extract(actor);
    if (line.empty()) return taken;
    for (const auto& [number, request] : line.mapped()) {
      places_.erase(request);
      taken.push_back(request);
    }
    return taken;
  }
  std::size_t waiting_for(ActorId actor) const {
    const auto line = lines_.find(actor);
    return line == lines_.end() ? 0 : line->second.size();
  }
  std::size_t size() const { return places_.size(); }

 private:
  std::unordered_map<ActorId, std::map<std::uint64_t, ActorRequestId>> lines_;
  std::unordered_map<ActorRequestId, std::pair<ActorId, std::uint64_t>> places_;
  std::uint64_t last_number_ = 0;
};

}  // namespace pharos::scheduler
