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

#include "head.hpp"
#include "host.hpp"
#include "node.hpp"
#include "records.hpp"
#include "session.hpp"
#include "silence.hpp"

namespace pharos::node {

/// A node's place in its cluster: beside the head, which other nodes join here; or joined to a head elsewhere. Carries
/// what head and nodes tell each other, and sees when one of them is gone:
/// - A node is lost when its connection ends because its process does, or when nothing has come from it for too long
///   (Silence). A head that hears nothing from any other machine suspects its own link, and waits.
/// - A connection that ends after some seconds of silence is the network's fault. The node may come back until it is
///   lost: both ends go on with their session, and say again what the other has not heard (Session). Nothing else
///   changes: neither Head nor Node hears of it.
/// - A node whose connection to the head has ended keeps all that it has, and looks for a head at that address again.
///   The same head goes on with the session, or says that it has given the node up. Another head that has the records
///   of the first one knows the node, and is told what there is (Head::restore).
/// - When a head that keeps no records ends the connection, and was not silent before, it has ended, and so does the
/// node.
/// - A head that cannot write any more is made anew of what is durable, and its nodes come back to it as to another.
/// Owned by the daemon. Everything runs on one strand.
/// End: close(), then whatever is posted runs until closed().
class Membership final : public net::Peer::Owner {
 public:
  /// Blocks; not on the strand.
  using OpenRecords = std::function<Result<std::unique_ptr<storage::KvStore>>()>;
  struct Settings {
    Node::Settings node;
    OpenRecords open_records{};  ///< of the head; none: nothing outlives it, and start() is not called
    Duration away_max = std::chrono::minutes{10};  ///< without a head
  };
  /// What the owner is told, at most one of them, once.
  struct Ends {
    std::function<void(const Error& why)> lost;  ///< there is no head, and will be none
    std::function<void()> given_up;              ///< the cluster goes on without this node, which may join as another
    std::function<void()> told_to{};             ///< somebody wants it to end
  };

  /// Beside its head, unless the settings name one elsewhere.
  Membership(async::Executor& executor, Host& host, Settings settings, Ends ends);

  Node& node() { return node_; }
  const Node& node() const { return node_; }
  /// Null: it is elsewhere, or not there now.
  const Head* head() const { return head_.get(); }
  /// Null: nothing outlives the head.
  const Records* records() const { return records_.get(); }

  /// The head, from its records.
  static async::Async<Result<void>> start(Membership* self);
  /// Joins the head elsewhere, which may be about to start. `reached_at` says where other nodes reach this one, given a
  /// connection to the head.
  using ReachedAt = std::function<Result<std::string>(int socket)>;
  static async::Async<Result<void>> join(Membership* self, ReachedAt reached_at, async::Deadline deadline);
  /// Of a node that has said that it joins.
  void add_node(Fd socket);
  /// Of a driver that has proved itself. Its node knows it once it has joined; kWaitingMax may wait for that.
  void add_driver(Fd socket);

  void close();
  bool closed() const {
    return node_.closed() && background_.size() == 0 && (records_ == nullptr || records_->closed());
  }

  /// For tests, as of Node and Head.
  std::string leftovers() const { return node_.leftovers() + (head_ == nullptr ? "" : head_->leftovers()); }
  std::string check() const { return node_.check() + (head_ == nullptr ? "" : head_->check()); }

 private:
  static constexpr std::size_t kWaitingMax = 64;
  using Number = Silence::Number;
  struct FarNode {
    std::shared_ptr<net::Peer> peer;     // null: the connection has ended, and the node may come back
    std::string machine;                 // empty: the head's own
    NodeId id;                           // none until it has joined
    std::shared_ptr<Session> session{};  // the same
    bool away = false;                   // while the head suspects its own link; nothing has come from it since
    TimePoint quiet_until{};             // a connection that ends before has ended by the silence that was there
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

  // The head here.
  static async::Async<Result<std::unique_ptr<storage::KvStore>>> open_records(Membership* self);
  static async::Async<void> replace_head(Membership* self, Error why);
  void admit(Number number, const wire::JoinCluster& join, std::uint64_t request);
  bool resume(Number number, const wire::JoinCluster& join, std::uint64_t request);
  std::optional<Number> number_of(NodeId node) const;
  void lose(Number number, bool was_silent);
  void note_heard(Number number);
  void suspect_own_link();

  // A head elsewhere.
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
  std::unique_ptr<Head> head_;            // null: it is elsewhere, or not there now
  std::uint64_t heads_ = 0;               // that there were, one after the other
  std::optional<Error> trouble_;          // why it could not be made anew
  std::shared_ptr<net::Peer> head_link_;  // null: it is here, or not joined
  std::string reached_at_;
  bool joined_ = false;
  bool head_lasts_ = false;
  bool coming_back_ = false;  // the head is gone
  Session session_;           // with a head elsewhere
  TimePoint head_spoke_;      // when something came from it
  TimePoint after_silence_;   // until then the head's last silence explains the end of a connection
  std::uint64_t returns_ = 0;
  bool ticks_ = false;
  Number last_far_node_ = 0;
  bool closing_ = false;
  std::vector<Fd> waiting_;  // drivers
  Node node_;
  std::map<Number, FarNode> far_nodes_;  // in the order in which they came
  std::unordered_map<const net::Peer*, Number> far_links_;
  Silence silence_;  // of far nodes
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  async::AsyncGroup background_;
};

}  // namespace pharos::node
