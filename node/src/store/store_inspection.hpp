#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/object_location.hpp>

namespace pharos::node {

/// What users are told of a node's object store. A value.
struct StoreInspection {
  struct Object {
    ObjectId id{};
    ByteCount size{};
    std::string label{};     ///< where it comes from
    bool is_sealed = false;  ///< it is completely written
    bool is_out = false;     ///< it is not in memory
    bool is_copy = false;    ///< of another node's object; if it is out here, only that node has it
    CallerId holder{};       ///< none if it was let go
    std::vector<CallerId> kept_by{};
    std::vector<CallerId> read_by{};
  };
  ByteCount capacity{};  ///< 0 if no process has used the store
  ByteCount used{};      ///< memory of objects, and of free slots that processes keep
  ByteCount idle{};      ///< free memory, which goes back to the system soon
  ByteCount on_disk{};
  std::size_t count = 0;             ///< number of objects
  std::vector<Object> largest{};     ///< the largest objects, the largest first
  std::vector<NodeId> neighbours{};  ///< nodes that have claimed objects
  std::vector<CallerId> own{};       ///< the ids under which this node keeps and reads objects itself
};

}  // namespace pharos::node
