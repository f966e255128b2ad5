#pragma once

#include <cstdint>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

// Pure functions, for the parts of node and head.

/// Checks and converts what a caller asks for, which may be anything. kInvalidArgument if it makes no sense.
Result<scheduler::Demand> checked(const wire::Demand& demand);
/// Converts a demand that checked() has accepted.
scheduler::Demand demand_of(const wire::Demand& demand);
scheduler::Preference preference_of(const wire::Demand& demand, NodeId asked_at);

std::vector<wire::GpuShare> to_wire(const std::vector<scheduler::GpuShare>& gpus);
std::vector<scheduler::GpuShare> shares_of(const std::vector<wire::GpuShare>& gpus);

/// The CPUs of these resources, rounded up.
inline std::uint32_t whole_cpus(const scheduler::Resources& resources) {
  return static_cast<std::uint32_t>((resources.cpus() + scheduler::Resources::kWhole - 1) /
                                    scheduler::Resources::kWhole);
}

/// The asker in a message that is a question of a caller; nullptr for any other message. Valid as long as the message.
wire::Asker* asker_of(wire::Message& message);

/// The spec of the actor that a PromiseActor or a StartActor is about.
template <class Message>
scheduler::ActorSpec spec_of(const Message& message) {
  return {.job = message.asker.job,
          .label = message.label,
          .name = message.name,
          .name_space = message.name_space,
          .type = message.type,
          .max_restarts = message.max_restarts,
          .detached = message.detached};
}

}  // namespace pharos::node
