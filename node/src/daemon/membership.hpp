#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/storage/kv_store.hpp>

#include "head/head.hpp"
#include "head/records.hpp"
#include "head/silence.hpp"
#include "link/session.hpp"
#include "node/host.hpp"
#include "node/node.hpp"

namespace pharos::node {

/// Connects a node with its cluster. The node is either beside the head, which other nodes join here, or it has joined
/// a head elsewhere. Membership carries the messages between head and nodes, and notices when one of them is gone:
/// - A node is lost when its connection ends because its process has ended, or when nothing has come from it for too
///   long (Silence). A head that hears nothing from any other machine suspects its own link, and waits.
/// - If a connection ends after some seconds of silence, the network has ended it. The node may come back until it is
///   lost. Then both ends continue their session and send again what the other end has not heard (Session). Neither
///   Head nor Node hears of the break.
/// - A node whose connection to the head has ended keeps everything that it has, and looks for a head at the same
///   address. The same head continues the session, or says that it has given the node up. Another head that has the
///   records of the first one knows the node, and is told what is on it (Head::restore).
/// - When the connection to a head without records ends, and that head was not silent before, the head has ended. Then
///   the node ends, too.
/// - A head that cannot write any more is replaced by one that is made from what is durable. Its nodes return to it as
///   to another head.
/// Owned by the daemon. Everything runs on one strand.
/// End: close(); then the executor has to run what is posted until closed() is true.
class Membership final : public net::Peer::Owner {
 public:
  /// Opens the store of the records. It blocks, so it is not called on the strand.
  using OpenRecords = std::function<Result<std::unique_ptr<storage::KvStore>>()>;
  struct Settings {
    Node::Settings node;
    OpenRecords open_records{};                    ///< empty: nothing outlives the head, and start() is not called
    Duration away_max = std::chrono::minutes{10};  ///< how long the node looks for a head that is gone
  };
  /// Callbacks to the owner. At most one of them is called, and once.
  struct Ends {
    std::function<void(const Error& why)> lost;  ///< the head is gone, and no other one has come
    std::function<void()> given_up;              ///< the cluster has given this node up, which may join as another one
    std::function<void()> told_to{};             ///< a user, or the head, wants the node to end
  };

  /// The head is in this process, unless the settings name one elsewhere.
  Membership(async::Executor& executor, Host& host, Settings settings, Ends ends);

  Node& node() { return node_; }
  const Node& node() const { return node_; }
  /// nullptr if the head is elsewhere, or is not there at the moment.
  const Head* head() const { return head_.get(); }
  /// nullptr if nothing outlives the head.
  const Records* records() const { return records_.get(); }

  /// Starts the head of this process from its records. Fails if they cannot be opened or read.
  static async::Async<Result<void>> start(Membership* self);
  /// Joins the head elsewhere. Tries again until the deadline while that head cannot be reached, since it may be about
  /// to start. `reached_at` is given a connection to the head, and returns the address where other nodes reach this
  /// one.
  using ReachedAt = std::function<Result<std::string>(int socket)>;
  static async::Async<Result<void>> join(Membership* self, ReachedAt reached_at, async::Deadline deadline);
  /// Takes the connection of a node that wants to join (Introduction::Purpose::kJoin).
  void add_node(Fd socket);
  /// Takes the connection of a driver that has proved itself. It waits until the node has joined. At most kWaitingMax
  /// drivers wait; the connection of the next one is closed.
  void add_driver(Fd socket);

  void close();
  bool closed() const {
    return node_.closed() && background_.size() == 0 && (records_ == nullptr || records_->closed());
  }

  /// For tests: the same of Node and Head together.
  std::string leftovers() const { return node_.leftovers() + (head_ == nullptr ? "" : head_->leftovers()); }
  std::string check() const { return node_.check() + (head_ == nullptr ? "" : head_->check()); }

 private:
  static constexpr std::size_t kWaitingMax = 64;
  using Number = Silence::Number;
  struct FarNode {
    std::shared_ptr<net::Peer> peer;     // null: the connection has ended, and the node may come back
    std::string machine;                 // the machine that it is on; empty: the head's own
    NodeId id;                           // unset until it has joined
    std::shared_ptr<Session> session{};  // null until it has joined
    bool away = false;                   // the head suspects its own link, and nothing has come from the node since
    TimePoint quiet_until{};             // if the connection ends before this time, a silence has ended it
  };

  std::shared_ptr<net::Peer> link_to(Fd socket);
  void tell_head(wire::Message message);
  void end_all();
  void tick_later();
  void tick();
  Head::NodeDescription own_description() const;
  Head::Tell tell_own_node();
  std::size_t queued_to_head() const;
  void admit_waiting_drivers();

  // The head, if it is in this process.
  static async::Async<Result<std::unique_ptr<storage::KvStore>>> open_records(Membership* self);
  static async::Async<void> replace_head(Membership* self, Error why);
  void admit(Number number, const wire::JoinCluster& join, std::uint64_t request);
  bool resume(Number number, const wire::JoinCluster& join, std::uint64_t request);
  std::optional<Number> number_of(NodeId node) const;
  void lose(Number number, bool was_silent);
  void note_heard(Number number);
  void suspect_own_link();

  // The head, if it is elsewhere.
  static async::Async<Result<void>> try_to_join(Membership* self, ReachedAt reached_at, async::Deadline deadline);
  static async::Async<Result<wire::ClusterJoined>> ask_to_join(Membership* self, Fd head, bool again,
                                                               async::Deadline deadline);
  void go_on_with(const wire::ClusterJoined& joined, std::uint64_t heard_before);
  void lose_head(const Error& why);
  void note_head_spoke();
  static async::Async<void> come_back(Membership* self, Error why);

  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;

  async::Executor& executor_;
  Host& host_;
  const NodeId id_;
  const std::string head_address_;
  const OpenRecords open_records_;
  const Duration away_max_;
  const Ends ends_;
  std::unique_ptr<storage::KvStore> store_;  // null: nothing outlives the head
  std::unique_ptr<Records> records_;
  std::unique_ptr<Head> head_;            // null: it is elsewhere, or not there at the moment
  std::uint64_t heads_ = 0;               // heads that were started here, one after the other
  std::optional<Error> trouble_;          // why the last attempt to replace the head has failed
  std::shared_ptr<net::Peer> head_link_;  // null: the head is here, or there is no connection to it
  std::string reached_at_;
  bool joined_ = false;
  bool head_lasts_ = false;
  bool coming_back_ = false;   // the connection to the head has ended, and the node looks for a head
  Session session_;            // with a head elsewhere
  TimePoint head_spoke_;       // when the last message came from it
  TimePoint after_silence_;    // if the connection ends before this time, the head's last silence has ended it
  std::uint64_t returns_ = 0;  // how often this node has come back to a head
  bool ticks_ = false;
  Number last_far_node_ = 0;
  bool closing_ = false;
  std::vector<Fd> waiting_;  // connections of drivers that wait until the node has joined
  Node node_;
  std::map<Number, FarNode> far_nodes_;  // nodes that have joined here, in the order in which they came
  std::unordered_map<const net::Peer*, Number> far_links_;
  Silence silence_;  // how long the far nodes have been silent
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  async::AsyncGroup background_;
};

}  // namespace pharos::node
