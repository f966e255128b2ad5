#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <pharos/base/object_location.hpp>

// The object store. See pharos/wire/message.hpp.

namespace pharos::wire {

/// Caller to node, once. Answered by StoreOpened.
struct OpenStore {};
/// Node to caller, with the ledger, the memory of objects, and a descriptor that stays open while it uses them.
struct StoreOpened {
  static constexpr std::size_t kDescriptors = 3;
  std::uint32_t table = 0;  ///< index of the process's table of pins in the ledger
};
/// Caller to node. Answered by SlabLeased, perhaps only when other processes have given memory back.
struct LeaseSlab {
  std::uint64_t slot_bytes = 0;
};
/// Node to caller.
struct SlabLeased {
  std::uint64_t offset = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t first_slot = 0;
  std::uint32_t slots = 0;
};
/// Caller to node.
struct ReturnSlab {
  std::uint32_t first_slot = 0;
};
/// Node to caller: others need memory, so give back what is free.
struct TrimStore {};
/// Caller to node: bring the object to memory. Answered by Done or Failure.
struct BringObject {
  ObjectLocation object;
};
/// Caller to node, for an object of another node. Answered by ObjectImported, or not if sent ahead of the need.
struct ImportObject {
  ObjectLocation object;
};
/// Node to caller, and to the node that has sent TakeObject: where it is here.
struct ObjectImported {
  ObjectLocation object;
};
/// Node to the node that has the object, which keeps the object from then on. Answered by ObjectClaimed.
struct ClaimObject {
  ObjectLocation object;
};
/// The answer to ClaimObject.
struct ObjectClaimed {
  std::uint64_t size = 0;
  std::string label{};
  ObjectLocation elsewhere{};  ///< if its node is set, that node has the object, and nothing was claimed
};
/// Node that drains to a node that claims the object: fetch it, and have it from now on. Answered by ObjectImported.
struct TakeObject {
  ObjectLocation object;
};
/// Node that drains to a node that claims the object: claim it at the node that has it now. Answered by Done.
struct ObjectMoved {
  ObjectLocation object;
  ObjectLocation to;
};
/// Node to the node that has the object.
struct ReleaseObject {
  /// The object to release. None: release all objects that earlier connections have claimed and this one has not.
  ObjectLocation object;
};

}  // namespace pharos::wire
