#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/object_store/transfer.hpp>

#include "host.hpp"
#include "node_store.hpp"

namespace pharos::node {

/// Objects of other nodes that processes here have a share in. Each has a place in this node's store, as one that is
/// out: processes keep it and read it like any other, and when it is read it is pulled from its node, or from one that
/// pulls it just now. While it has a place here its node keeps it for this one, which has claimed it there; so its
/// memory here may be taken at any time. When nobody here keeps it any more its node is told.
///
/// Owned by StoreService; on the node's strand. When the connection to a node breaks, what it has is claimed still
/// until the head says that the node is lost, or kAwayTime has passed; then what is not in memory here is lost. End:
/// close(), then closed() soon.
class Imports final : public net::Peer::Owner {
 public:
  static constexpr auto kGraceTime = std::chrono::seconds{10};  ///< before the head is asked whether a node is lost
  static constexpr Duration kAwayTime = std::chrono::seconds{90};
  static constexpr Duration kKeepTime = std::chrono::seconds{1};
  static constexpr Duration kAheadTime = std::chrono::seconds{30};

  using Location = object_store::Location;
  using Place = object_store::Place;
  using Body = object_store::Lender::Body;
  /// Where a node is reached.
  using Find = std::function<async::Async<Result<std::string>>(NodeId node)>;

  Imports(async::Executor& executor, Host& host, NodeId self, std::shared_ptr<NodeStore> store, NodePins pins,
          Find find);

  /// Where an object lies here, for the process that has this table and keeps it within that time. Also one of this
  /// node that comes back to it.
  static async::Async<Result<Location>> import(Imports* self, std::uint32_t table, Location object, Duration time);
  /// It does, and need not be waited for.
  void is_kept(std::uint32_t table, const Place& here);

  /// Of an import: what its own node knows it by.
  const Location* origin_of(const Place& here) const;
  /// It need not be kept here: it can be pulled again.
  bool is_elsewhere(const Place& here) const;
  /// What somebody waits for is pulled before all that may be needed soon.
  enum class Urgency : std::uint8_t { kWaitedFor, kAhead };
  /// Pulls it to its memory here. `done` runs later.
  void bring(const Body& body, Urgency urgency, async::UniqueFunction<void(Result<void>)> done);
  /// Somebody waits now.
  void hurry(const Place& here);

  /// One that is here, or on its way.
  std::optional<Location> find(const ObjectId& id) const;
  /// On its way: those chunks, to be passed on until end_relay().
  std::shared_ptr<object_store::Chunks> begin_relay(const ObjectId& id);
  void end_relay(const ObjectId& id);

  /// Whether the head says that it is no node of this cluster any more. False too if the head says nothing.
  void ask_whether_lost(NodeId node, async::UniqueFunction<void(bool lost)> then);

  /// Tells nodes of what has ended here.
  void look();
  /// What was kept for it need not be.
  void process_ended(std::uint32_t table);
  bool empty() const { return imports_.empty(); }
  std::size_t size() const { return imports_.size(); }

  void close();
  bool closed() const { return background_.size() == 0; }

 private:
  struct Import {
    Location origin;
    Location here;
    bool claimed = true;
    std::shared_ptr<object_store::Chunks> coming{};  // while it is pulled
    std::size_t relays = 0;                          // that pass on these
    async::Completion<void> no_relays{};
    std::vector<NodeId> others{};  // that had it, or were to get it
  };
  struct Neighbour {
    std::string address;
    std::shared_ptr<net::Peer> link;  // null while there is none
    bool connecting = false;
    std::vector<async::Completion<std::shared_ptr<net::Peer>>> waiting;
    std::size_t pulls_aside = 0;  // from this node, which does not answer
  };
  class Aside;
  using Done = async::UniqueFunction<void(Result<void>)>;
  struct Pull {
    ObjectId id;
    Body body;
    Done done;
  };

  static async::Async<void> ask_whether_lost(Imports* self, NodeId node, async::UniqueFunction<void(bool lost)> then);
  static async::Async<Result<wire::ObjectClaimed>> claim(Imports* self, Location object);
  Result<Location> take_in(std::uint32_t table, const Location& origin, const wire::ObjectClaimed& claimed,
                           Duration time);
  Result<Location> keep_for(std::uint32_t table, const Location& here, Duration time);
  void release_if_unused(const Location& origin);

  static async::Async<Result<std::string>> find_address(Imports* self, NodeId node);
  static async::Async<Result<std::shared_ptr<net::Peer>>> reach(Imports* self, NodeId node);
  static async::Async<Result<std::shared_ptr<net::Peer>>> connect(Imports* self, NodeId node);
  static async::Async<void> claim_again(Imports* self, NodeId node, std::shared_ptr<net::Peer> link);
  static async::Async<void> reach_again(Imports* self, NodeId node);
  void give_up(NodeId node, net::Peer& link);
  bool has_any_of(NodeId node) const;
  void forget_if_unused(NodeId node);

  static async::Async<void> pull(Imports* self, ObjectId id, Body body, Done done);
  static async::Async<Result<void>> pull_all(Imports* self, ObjectId id, Body body);
  static async::Async<Result<std::optional<NodeId>>> pull_from(Imports* self, NodeId source, object_store::Wish wish,
                                                               std::shared_ptr<object_store::Chunks> chunks);
  static async::Async<Result<void>> provide(Imports* self, Body body);
  void ask_anew_where(NodeId node);
  void begin_pulls();
  void begin_pulls(std::deque<Pull>& from, std::size_t pulls_max);
  void begin_pull(Pull pull);

  void on_message(net::Peer&, net::Parcel, std::optional<std::uint64_t>) override {}
  void on_peer_closed(net::Peer& peer, const Error& why) override;

  async::Executor& executor_;
  Host& host_;
  const NodeId self_;
  const std::shared_ptr<NodeStore> store_;
  NodePins pins_;
  const Find find_;

  std::map<ObjectId, Import> imports_;
  std::map<Place, ObjectId> by_place_;
  std::map<ObjectId, std::size_t> claiming_;
  struct Kept {
    Place here;
    std::uint32_t table;
    std::uint32_t pin;
  };
  std::map<std::uint64_t, Kept> kept_;  // for those who asked, oldest first
  std::uint64_t last_kept_ = 0;
  std::unordered_map<NodeId, Neighbour> neighbours_;
  std::size_t pulls_ = 0;     // under way, without those that are aside
  std::deque<Pull> waiting_;  // that somebody waits for
  std::deque<Pull> ahead_;

  async::AsyncGroup background_;
};

}  // namespace pharos::node
