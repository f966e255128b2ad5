#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include <pharos/actors/placement_group.hpp>
#include <pharos/base/id.hpp>

namespace pharos::detail {

class Caller;

/// A placement group that this process has made. Shared by the user's PlacementGroups and by the handles of actors that
/// were made with it. When the last of these is gone, the destructor tells the node to remove the group; remove() does
/// so earlier. After the Runtime's end neither does anything. Any thread.
class GroupHandle {
 public:
  GroupHandle(std::weak_ptr<Caller> caller, GroupId id, std::size_t size, const CellHandle& nodes)
      : caller_{std::move(caller)}, id_{id}, size_{size}, nodes_{nodes} {}
  GroupHandle(GroupHandle&&) = delete;
  ~GroupHandle() { remove(); }

  GroupId id() const { return id_; }
  std::size_t size() const { return size_; }
  const Ref<std::vector<NodeId>>& nodes() const { return nodes_; }
  void remove();

 private:
  const std::weak_ptr<Caller> caller_;
  const GroupId id_;
  const std::size_t size_;
  const Ref<std::vector<NodeId>> nodes_;
  std::atomic<bool> removed_ = false;
};

}  // namespace pharos::detail
