#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/message.hpp>

#include "head/job_table.hpp"

namespace pharos::node::head {

/// The callers that the head has heard of, by their questions or by a node's report, each with its node and its job.
/// Callers of unknown jobs are not kept. A caller stays until remove() or remove_job(). Owned by Head; on its strand.
class CallerTable {
 public:
  explicit CallerTable(const JobTable& jobs) : jobs_{jobs} {}

  /// Notes that the caller is at this node. A node may also ask for a caller of another node, but the caller's own node
  /// asks first. So the first node is kept.
  void note(const wire::Asker& asker, NodeId node) {
    if (jobs_.contains(asker.job)) callers_.try_emplace(asker.caller, Place{node, asker.job});
  }
  void remove(CallerId caller) { callers_.erase(caller); }
  void remove_job(JobId job) {
    std::erase_if(callers_, [job](const auto& entry) { return entry.second.job == job; });
  }
  bool contains(CallerId caller) const { return callers_.contains(caller); }
  /// Returns the caller's node; unset if the caller is not known.
  NodeId node_of(CallerId caller) const {
    const auto found = callers_.find(caller);
    return found == callers_.end() ? NodeId{} : found->second.node;
  }
  std::vector<CallerId> at(NodeId node) const {
    std::vector<CallerId> there;
    for (const auto& [caller, place] : callers_) {
      if (place.node == node) there.push_back(caller);
    }
    return there;
  }
  std::size_t size() const { return callers_.size(); }

 private:
  struct Place {
    NodeId node;
    JobId job;
  };

  const JobTable& jobs_;
  std::unordered_map<CallerId, Place> callers_;
};

}  // namespace pharos::node::head
