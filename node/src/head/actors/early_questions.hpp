#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/scheduler/actor_table.hpp>

#include "head/events.hpp"
#include "head/recovery.hpp"

namespace pharos::node::head {

/// Questions about actors that ActorTable does not know yet. A handle goes straight from process to process, so a
/// message of its receiver may come before the message of the actor's maker. Such a message waits a second for that of
/// the maker, and is then answered as one about an unknown actor. In a recovery the maker may be at a node that has not
/// come back yet, so the message waits until the recovery is over.
/// Owned by Head; on its strand. The destructor drops the questions that wait. Bound: questions about kActorsMax actors
/// wait, and as many about one actor. The next question is answered at once.
class EarlyQuestions {
 public:
  static constexpr std::size_t kActorsMax = 65536;

  EarlyQuestions(Events& events, const scheduler::ActorTable& actors, const Recovery& recovery)
      : events_{events}, actors_{actors}, recovery_{recovery} {}

  /// Runs `answer` at once, inside this call, if the actor is known; else in answer(), or when its time is over, as an
  /// event of its own.
  void ask(ActorId actor, Events::Task answer);
  /// The actor is known now: runs the answers that wait, in order.
  void answer(ActorId actor);
  /// The number of actors with questions that wait.
  std::size_t size() const { return waiting_.size(); }

 private:
  void answer_later(ActorId actor);

  Events& events_;
  const scheduler::ActorTable& actors_;
  const Recovery& recovery_;
  std::unordered_map<ActorId, std::vector<Events::Task>> waiting_;
};

}  // namespace pharos::node::head
