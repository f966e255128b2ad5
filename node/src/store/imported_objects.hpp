#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/object_store/transfer.hpp>

#include "node/host.hpp"
#include "store/node_links.hpp"
#include "store/node_store.hpp"
#include "store/pull_queue.hpp"

namespace pharos::node {

/// Objects of other nodes that processes here use. Each has a place in this node's store, like an object that is out on
/// disk: processes keep it and read it like any other. When it is read it is pulled from its own node, or from a node
/// that is pulling it at this moment.
/// While an object has a place here, this node has claimed it at its own node, which keeps it. So its memory here may
/// be taken away at any time. When no process here keeps it any more its own node is told.
///
/// A node that drains asks this one to take objects that it claims there. It fetches them, and has them from then on:
/// their place here stays the same, they go to disk when memory is short, and other nodes claim them here.
///
/// Owned by StoreService. Everything is on the node's strand. When the connection to a node breaks, the claims there
/// stay valid until the head says that the node is lost or kAwayTime has passed. After that its objects are lost unless
/// they are in memory here. PullQueue says how many pulls run at once; the others wait.
/// End: close() cancels imports and pulls, which end with kCancelled, and closes the connections; then closed() becomes
/// true soon. Timers use this object: the executor has to stop before the destructor.
class ImportedObjects {
 public:
  static constexpr auto kGraceTime = std::chrono::seconds{10};  ///< before the head is asked whether a node is lost
  /// How long claims outlive the connection over which they were made.
  static constexpr Duration kAwayTime = std::chrono::seconds{90};
  /// How long an imported object is kept for a process that waits for it, and for one that has asked for it ahead.
  static constexpr Duration kKeepTime = std::chrono::seconds{1};
  static constexpr Duration kAheadTime = std::chrono::seconds{30};

  using Location = object_store::Location;
  using Place = object_store::Place;
  using Body = object_store::StoreBook::Body;
  using Find = NodeLinks::Find;
  /// Brings an object that is pinned in this table to memory, and then calls `then`.
  using Bring =
      std::function<void(std::uint32_t table, const Location& here, async::UniqueFunction<void(Result<void>)> then)>;

  ImportedObjects(async::Executor& executor, Host& host, NodeId self, std::shared_ptr<NodeStore> store, NodePins pins,
                  Find find, Bring bring);

  /// Claims an object and returns where it lies here. It is kept for `time`; by then the process with this pin table
  /// has to keep it itself. The object may also be one of this node that comes back to it. Fails with kOwnerDied or
  /// kObjectLost if the object is gone, and with kObjectLost if its node does not answer in four attempts, the
  /// silent ones of the first 25 s not counted, or is not found for kAwayTime; with kCorrupt or kUnavailable if nodes
  /// answer nonsense or name each other, kExhausted if the store has no place for it, kCancelled.
  async::Async<Result<Location>> import(std::uint32_t table, Location object, Duration time);
  /// The process with this table keeps the object itself, so the import need not keep it any longer.
  void is_kept(std::uint32_t table, const Place& here);

  /// The location of an imported object at its own node, which is this one if it has taken the object. nullptr if
  /// nothing was imported to this place.
  const Location* origin_of(const Place& here) const;
  /// Returns whether the object in this place can be pulled again, so that its memory here may go.
  bool is_elsewhere(const Place& here) const;
  using Urgency = PullQueue::Urgency;
  /// Pulls an imported object to its memory here. `done` runs later, never inside this call. Its errors are kOwnerDied
  /// and kObjectLost, also if the object's node cannot be reached any more, kCancelled, or that of the memory.
  void bring(const Body& body, Urgency urgency, async::UniqueFunction<void(Result<void>)> done);
  /// A caller now waits for an object that was to be pulled ahead.
  void hurry(const Place& here);

  /// The place here of an object that is here or on its way; nullopt if it was not imported.
  std::optional<Location> find(const ObjectId& id) const;
  /// The chunks of an object that is being pulled, to be passed on until end_relay(). nullptr if it is not being
  /// pulled.
  std::shared_ptr<object_store::Chunks> begin_relay(const ObjectId& id);
  void end_relay(const ObjectId& id);

  /// Asks the head whether this is no node of the cluster any more. `lost` is false, too, if the head does not answer.
  /// `then` runs later, and not at all if this node ends.
  void ask_whether_lost(NodeId node, async::UniqueFunction<void(bool lost)> then);

  /// Forgets objects that have ended here, and tells their nodes.
  void look();
  /// The process with this table has ended: nothing is kept for it any longer.
  void process_ended(std::uint32_t table);
  bool empty() const { return imports_.empty(); }
  std::size_t size() const { return imports_.size(); }

  void close();
  bool closed() const { return background_.size() == 0; }

 private:
  struct Import {
    Location origin;  // the same as `here` if this node has taken the object
    Location here;
    bool claimed = true;
    std::shared_ptr<object_store::Chunks> coming{};  // set while the object is pulled
    std::size_t relays = 0;                          // streams that pass these chunks on
    async::Completion<void> no_relays{};
    std::vector<NodeId> others{};  // other nodes that have pulled it or were about to
  };
  using Done = async::UniqueFunction<void(Result<void>)>;

  async::Async<void> ask_address(NodeId node, async::UniqueFunction<void(bool lost)> then);
  async::Async<Result<wire::ObjectClaimed>> claim(Location object);
  Result<Location> take_in(std::uint32_t table, const Location& origin, const wire::ObjectClaimed& claimed,
                           Duration time);
  Result<Location> keep_for(std::uint32_t table, const Location& here, Duration time);
  void release_if_unused(const Location& origin);

  bool on_asked(const NodeLinks::Link& link, const wire::Message& message, std::uint64_t request);
  Error not_taken(const Location& object) const;
  async::Async<void> answer_take(NodeLinks::Link link, Location object, std::uint64_t request);
  async::Async<Result<Location>> take(Location object);
  async::Async<void> answer_moved(NodeLinks::Link link, wire::ObjectMoved moved, std::uint64_t request);
  async::Async<Result<void>> follow(wire::ObjectMoved moved);

  NodeLinks::Events link_events();
  async::Async<void> claim_again(NodeId node, NodeLinks::Link link);
  async::Async<void> reach_again(NodeId node);

  async::Async<void> pull(ObjectId id, Body body, Done done);
  async::Async<Result<void>> pull_all(ObjectId id, Body body);
  async::Async<Result<std::optional<NodeId>>> pull_from(NodeId source, object_store::PullRequest request,
                                                        std::shared_ptr<object_store::Chunks> chunks);
  async::Async<Result<void>> provide(Body body);
  void begin_pulls();
  void set_aside(std::optional<PullQueue::Aside>& aside, NodeId origin);

  async::Executor& executor_;
  Host& host_;
  const NodeId self_;
  const std::shared_ptr<NodeStore> store_;
  NodePins pins_;
  const Find find_;
  const Bring bring_;

  std::map<ObjectId, Import> imports_;
  std::map<Place, ObjectId> by_place_;
  std::map<ObjectId, std::size_t> claiming_;
  struct Kept {
    Place here;
    std::uint32_t table;
    std::uint32_t pin;
  };
  std::map<std::uint64_t, Kept> kept_;  // objects that are kept for the processes that have asked, oldest first
  std::uint64_t last_kept_ = 0;
  NodeLinks links_;
  PullQueue pulls_;

  async::AsyncGroup background_;
};

}  // namespace pharos::node
