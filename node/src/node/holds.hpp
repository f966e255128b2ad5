#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

/// Which caller of this node holds which actors, as the head counts the holds. A head that has started again gets
/// list() in this node's report. The counts follow the questions that callers ask the head, and the head's answers. A
/// count may be negative for a while. Other messages change nothing.
/// Owned by Questions; on the node's strand.
class Holds {
 public:
  /// The caller asks the head for this.
  void note_asked(CallerId caller, const wire::Message& question);
  /// The head has answered the question of the caller. `found` is the actor of the answer; ActorId{} if the question
  /// was refused.
  void note_answered(CallerId caller, const wire::Message& question, ActorId found);
  /// The caller has ended, and holds nothing. The owner must not note later questions and answers of this caller,
  /// because they would add entries that nobody removes.
  void forget(CallerId caller);

  bool contains(CallerId caller, ActorId actor) const;
  std::vector<wire::Report::Hold> list() const;

 private:
  void change(CallerId caller, ActorId actor, std::int64_t more);

  std::unordered_map<CallerId, std::unordered_map<ActorId, std::int64_t>> holds_;
  std::unordered_set<ActorId> promised_;  // actors that were promised and not asked to start yet
};

}  // namespace pharos::node
