#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/wire/message.hpp>

#include "head/actors/actor_places.hpp"
#include "head/effects.hpp"
#include "head/events.hpp"
#include "head/node_table.hpp"
#include "head/request_numbers.hpp"

namespace pharos::node::head {

/// Connects callers with actors: passes their requests to ActorTable, and its answers to the callers' nodes. A caller
/// that has lost its connection to an incarnation says so. Nearly always the process has died, and the head is told of
/// that within a moment. So the request waits for that moment (50 ms, or 500 ms if the actor is at another node), and
/// as long as nothing comes from the actor's node. Otherwise requests wait without a limit for the actor to be alive.
/// Failure: a request that ActorTable refuses is answered with its error: kNotFound, or the reason of the actor's end.
/// Owned by Head; on its strand. The destructor answers nobody.
class ActorConnections {
 public:
  ActorConnections(Events& events, scheduler::ActorTable& actors, const NodeTable& nodes, const ActorPlaces& places,
                   RequestNumbers& numbers, Effects& effects)
      : events_{events}, actors_{actors}, nodes_{nodes}, places_{places}, numbers_{numbers}, effects_{effects} {}

  /// Returns the id of a new request, which ActorTable is to answer.
  scheduler::ActorRequestId expect_answer(NodeId from, const wire::Asker& asker);
  void connect(NodeId from, const wire::ConnectActor& connect);

  /// Carries out what ActorTable decides; ignored if the request was forgotten. The incarnation in `ready` must run,
  /// else the process aborts.
  void answer(const scheduler::ActorReady& ready);
  void refuse(const scheduler::ActorRefused& refused);

  /// An incarnation of the actor has ended: callers that had lost their connection to it get the next one.
  void connect_again(ActorId actor);
  /// The node is heard again. Callers that lost their connections to the actors there may try again.
  void connect_again_at(NodeId node);
  /// Forgets the requests of a caller or of a job, without an answer.
  void end_caller(CallerId caller);
  void end_job(JobId job);

  /// The number of requests without an answer.
  std::size_t size() const { return requests_.size(); }

 private:
  struct Request {
    NodeId node;
    wire::Asker asker;
  };
  void connect_again_if_running(ActorId actor, std::uint32_t incarnation);

  Events& events_;
  scheduler::ActorTable& actors_;
  const NodeTable& nodes_;
  const ActorPlaces& places_;
  RequestNumbers& numbers_;
  Effects& effects_;
  std::unordered_map<scheduler::ActorRequestId, Request> requests_;
  // Requests of callers that have lost their connection to the present incarnation of an actor.
  std::unordered_map<ActorId, std::vector<scheduler::ActorRequestId>> lost_;
};

}  // namespace pharos::node::head
