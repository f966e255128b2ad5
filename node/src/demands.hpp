#pragma once

#include <pharos/base/result.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

/// What a caller asks for, which may be anything: kInvalidArgument when it makes no sense.
Result<scheduler::Demand> checked(const wire::Demand& demand);
/// Of what was checked.
scheduler::Demand demand_of(const wire::Demand& demand);
scheduler::Preference preference_of(const wire::Demand& demand, NodeId asked_at);

}  // namespace pharos::node
