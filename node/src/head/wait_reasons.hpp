#pragma once

#include <map>
#include <string>
#include <utility>

#include <pharos/base/id.hpp>
#include <pharos/scheduler/placement.hpp>
#include <pharos/wire/message.hpp>

#include "head/actors/actor_places.hpp"
#include "head/group_table.hpp"

namespace pharos::node::head {

/// Says for users why actors and groups wait for resources, and who holds these. One answer to a user makes one object,
/// which explains each demand once, and 32 demands at most: for a further one it only says what the demand is. Actors
/// of other programs are not named. Made by Listing on the head's strand, and used within one event; it refers to the
/// head's tables. Nothing here fails.
class WaitReasons {
 public:
  WaitReasons(const scheduler::Placement& placement, const ActorPlaces& places, const GroupTable& groups)
      : placement_{placement}, places_{places}, groups_{groups} {}

  /// Says what an actor waits for: "it waits for 1 GPU: 1 of 1 GPUs are in use, by actor "a"".
  std::string of_actor(const wire::StartActor& making);
  /// Says what a group waits for.
  std::string of_group(const GroupTable::Group& group);

 private:
  const std::string& use_of(const scheduler::Demand& demand, JobId asker);
  std::string describe_use(const scheduler::Demand& demand, JobId asker) const;

  const scheduler::Placement& placement_;
  const ActorPlaces& places_;
  const GroupTable& groups_;
  std::map<std::pair<JobId, scheduler::Demand>, std::string> uses_;  // what is in use of the resources of a demand
};

/// "2 CPUs, 1 GPU": the demands of a group's bundles.
std::string text_of(const std::vector<scheduler::Demand>& bundles);
std::string text_of(Strategy strategy);

}  // namespace pharos::node::head
