#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/scheduler/leases.hpp>
#include <pharos/wire/message.hpp>

#include "node/client.hpp"
#include "node/holds.hpp"
#include "node/to_head.hpp"

namespace pharos::node {

/// A request of a caller: for a lease, or a question that was passed on to the head. A value in Questions or
/// TaskLeases.
struct Asked {
  Client client;                           ///< without a peer: a caller of another node, for which the head asks
  std::optional<std::uint64_t> request{};  ///< number for the answer, the head's for its own; nullopt: nobody waits
  wire::Amounts amounts{};                 ///< resources of a lease
  wire::Message question = wire::Done{};   ///< the question to the head
  bool reaching = false;                   ///< the head has answered, and the node that it named is being reached
  WorkerId granted{};                      ///< the leased worker that is being reached
  scheduler::LeaseRequestId waits_here{};  ///< the request that waits here while the head looks for room elsewhere
  std::optional<TimePoint> asked_again{};  ///< when the actor could not be reached for the first time
  TimePoint asked_at{};                    ///< when the head was asked again for the last time
};

/// Questions that the head has not answered, and which of its actors each caller holds thereby. Another head is asked
/// them again.
/// Owned by Node; on its strand. Each question has a number, which the answer names. A question leaves when it is taken
/// for its answer, or when nobody waits for the answer any more. It has no time limit. Answers to unknown questions are
/// ignored. The destructor answers nobody.
class Questions {
 public:
  /// Is told, inside forget_if(), of a question that nobody waits for any more. Must not change the questions.
  using Forgotten = std::function<void(const Asked& asked)>;

  Questions(ToHead& head, Forgotten forgotten) : head_{head}, forgotten_{std::move(forgotten)} {}

  /// Passes what a caller asks on to the head; not everything is answered. `message` must have an asker, which is
  /// filled in; else the process aborts. If the message takes an earlier question back (BreakPromise, RemoveGroup),
  /// that question is refused with kCancelled.
  void pass_on(const Client& client, wire::Message message, std::optional<std::uint64_t> request);
  /// Asks the head `asked.question`, which says this number.
  void ask(std::uint64_t number, Asked asked);
  /// Keeps a question that was taken: it is to be asked again.
  void put_back(std::uint64_t number, Asked asked) { asked_.emplace(number, std::move(asked)); }
  /// Null if there is no such question. Valid until the question leaves.
  Asked* find(std::uint64_t number);
  std::optional<Asked> take(std::uint64_t number);
  /// Forgets the questions of these clients, without an answer.
  void forget_if(const std::function<bool(const Client&)>& of);
  /// Asks another head what the one before has not answered.
  void ask_again() const;

  // ---- Answers

  void on_found(const wire::ActorFound& found);
  /// Takes the answer to a question that changes nothing here.
  void on_answer(std::uint64_t number, const wire::Message& message);
  /// The head refuses a question that was taken.
  void on_refused(const Asked& asked, const Error& why);
  /// Answers the caller that has asked, if it waits. refuse() answers the head if the head has asked.
  static void answer(const Asked& asked, const wire::Message& message);
  void refuse(const Asked& asked, Error why) const;

  Holds& holds() { return holds_; }
  const Holds& holds() const { return holds_; }
  const std::map<std::uint64_t, Asked>& all() const { return asked_; }

 private:
  void forget_undone(const wire::Message& message);

  ToHead& head_;
  const Forgotten forgotten_;
  std::map<std::uint64_t, Asked> asked_;  // by number
  Holds holds_;
};

/// The actor that a question makes or promises; ActorId{} for any other question.
ActorId actor_made_by(const wire::Message& question);

}  // namespace pharos::node
