#pragma once

#include <string>
#include <utility>
#include <variant>

#include <pharos/base/overloaded.hpp>
#include <pharos/scheduler/actor_table.hpp>

#include "head/actors/actor_connections.hpp"
#include "head/actors/actor_handles.hpp"
#include "head/actors/actor_maker.hpp"
#include "head/actors/actor_places.hpp"
#include "head/actors/actor_records.hpp"
#include "head/group_table.hpp"
#include "head/job_table.hpp"
#include "head_parts.hpp"

namespace pharos::node::head {

/// The parts of a head that are about actors, without the head. Job 7 has its driver at node 1; nodes 1 and 2 have 4
/// CPUs each.
class HeadActorParts : public HeadParts, protected Effects {
 protected:
  HeadActorParts() {
    for (const std::uint64_t node : {1, 2}) {
      add_node(node);
      apply(placement_.add_node(NodeId{node}, *scheduler::Resources::parse("cpu=4")));
    }
    jobs_.add(NodeId{1}, wire::AddJob{JobId{7}, {}, {}, {}});
  }

  /// How actor `actor` is made, on the node `only`.
  static wire::StartActor making(std::uint64_t actor, const std::string& amounts = "cpu=1", std::uint64_t only = 2) {
    wire::StartActor start{.actor = ActorId{actor}};
    start.label = "a" + std::to_string(actor);
    start.type = "5Actor";
    start.demand = demand(amounts);
    start.demand.only = NodeId{only};
    start.asker = asker(actor);
    return start;
  }
  /// Starts an actor whose constructor succeeds.
  void start_alive(wire::StartActor start) {
    const ActorId actor = start.actor;
    maker_.start(NodeId{1}, std::move(start));
    apply(actors_.incarnation_started(actor, 1));
  }
  void add_job_of_another_build(JobId job) {
    wire::RegisterJob other;
    other.build_id[0] = 1;
    other.executable = "/their/program";
    jobs_.add(NodeId{2}, wire::AddJob{job, other, {}, {}});
  }
  void start_alive_and_detached(std::uint64_t actor, const std::string& name) {
    wire::StartActor start = making(actor);
    start.name = name;
    start.detached = true;
    start_alive(std::move(start));
  }

  void apply(const scheduler::ActorEffects& effects) override {
    for (const auto& effect : effects) {
      std::visit(Overloaded{
                     [&](const scheduler::StartIncarnation& start) { places_.place(start); },
                     [&](const scheduler::EndIncarnation& end) { places_.end(end); },
                     [&](const scheduler::ActorReady& ready) { connections_.answer(ready); },
                     [&](const scheduler::ActorRefused& refused) { connections_.refuse(refused); },
                 },
                 effect);
    }
  }
  void apply(const scheduler::PlacementEffects& effects) override {
    for (const auto& effect : effects) {
      if (const auto* const placed = std::get_if<scheduler::Placed>(&effect)) places_.note_placed(*placed);
      if (const auto* const nowhere = std::get_if<scheduler::Unplaceable>(&effect)) places_.refuse(*nowhere);
    }
  }

  scheduler::ActorTable actors_;
  scheduler::Fleet fleet_;
  scheduler::Placement placement_{fleet_};
  JobTable jobs_{events_};
  GroupTable groups_{events_, placement_, recovery_, *this};
  RequestNumbers numbers_{0};
  ActorPlaces places_{events_,
                      actors_,
                      placement_,
                      jobs_,
                      recovery_,
                      *this,
                      [this](ActorId actor) { connections_.connect_again(actor); }};
  ActorRecords records_{events_, actors_, placement_, jobs_, recovery_, places_};
  ActorConnections connections_{events_, actors_, nodes_, places_, numbers_, *this};
  ActorMaker maker_{events_, actors_, groups_, recovery_, places_, connections_, *this};
  ActorHandles handles_{events_, actors_, jobs_, *this};
};

}  // namespace pharos::node::head
