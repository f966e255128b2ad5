#pragma once

#include <pharos/base/result.hpp>
#include <pharos/scheduler/resources.hpp>
#include <pharos/wire/message.hpp>

#include "node/demands.hpp"

namespace pharos::node::head {

/// How a record says which resources of a node are given to an actor or to a bundle. Pure functions, for the parts of
/// the head that write and restore records. allotment_of() fails with kInvalidArgument if the amounts make no sense.
inline wire::NodeResources share_of(NodeId node, const scheduler::Allotment& allotment) {
  return {node, allotment.amounts.amounts(), to_wire(allotment.gpus)};
}

inline Result<scheduler::Allotment> allotment_of(const wire::NodeResources& share) {
  PHAROS_TRY(scheduler::Resources amounts, scheduler::Resources::checked(share.amounts));
  return scheduler::Allotment{std::move(amounts), shares_of(share.gpus)};
}

}  // namespace pharos::node::head
