#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/executor.hpp>

#include "store/exported_objects.hpp"

namespace pharos::node {

/// Moves the objects that other nodes claim here to those nodes, because this node drains. Of the nodes that claim an
/// object, the one that has taken the fewest bytes so far fetches it and has it from then on; the others then claim it
/// there. So each object moves once, however many nodes use it.
/// Owned by StoreService; on the node's strand. Bound: kMovesMax objects move at a time.
/// Failure: an object that a node could not take, or not find at its new place, is tried again by the next go_on(),
/// with another of its nodes first. A node that dies claims nothing any more, so every pass ends. End: close(); then
/// closed() becomes true soon.
class DepartingObjects {
 public:
  static constexpr std::size_t kMovesMax = 4;

  DepartingObjects(async::Executor& executor, ExportedObjects& exports);

  /// Begins to move everything that is claimed now, unless an earlier pass is still under way.
  void go_on();
  /// The number of objects that other nodes have taken.
  std::size_t taken() const { return taken_; }
  void close() { background_.cancel(); }
  bool closed() const { return background_.size() == 0; }

 private:
  using Location = object_store::Location;

  async::Async<void> move_waiting();
  async::Async<void> move(ExportedObjects::Claimed object);
  async::Async<void> give(NodeId node, ExportedObjects::Claimed object);
  async::Async<void> tell(NodeId node, Location object, Location to);

  async::Executor& executor_;
  ExportedObjects& exports_;
  std::deque<ExportedObjects::Claimed> waiting_;
  std::size_t movers_ = 0;
  std::size_t taken_ = 0;
  std::map<NodeId, std::uint64_t> bytes_;  // that each node was given, or has refused
  async::AsyncGroup background_;
};

}  // namespace pharos::node
