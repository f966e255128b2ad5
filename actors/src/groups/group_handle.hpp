#pragma once

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include <pharos/actors/placement_group.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/id.hpp>

namespace pharos::detail {

/// A placement group that this process has made, or that was sent to it. Shared by the user's PlacementGroups and by
/// the handles of actors that were made with it. When the last of these is gone, the destructor tells the node to
/// remove the group, unless it was sent; remove() does so earlier. After the Runtime's end neither does anything. Any
/// thread.
class GroupHandle {
 public:
  /// `remove` tells the node to remove the group, and does nothing after the Runtime's end.
  GroupHandle(GroupId id, std::size_t size, const CellHandle& nodes, async::Callback remove)
      : id_{id}, size_{size}, nodes_{nodes}, remove_{std::move(remove)} {}
  GroupHandle(GroupHandle&&) = delete;
  ~GroupHandle() {
    if (!was_sent_) remove();
  }

  GroupId id() const { return id_; }
  std::size_t size() const { return size_; }
  const Ref<std::vector<NodeId>>& nodes() const { return nodes_; }
  void remove();
  /// Notes that other processes have the group, too.
  void note_sent() { was_sent_ = true; }

 private:
  const GroupId id_;
  const std::size_t size_;
  const Ref<std::vector<NodeId>> nodes_;
  async::Callback remove_;
  std::atomic<bool> removed_ = false;
  std::atomic<bool> was_sent_ = false;
};

}  // namespace pharos::detail
