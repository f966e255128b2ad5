#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>

#include "daemon/head_elsewhere.hpp"
#include "daemon/head_here.hpp"
#include "daemon/joined_nodes.hpp"
#include "node/host.hpp"
#include "node/node.hpp"

namespace pharos::node {

/// Connects a node with its cluster. The node is either beside the head (HeadHere), which other nodes join here
/// (JoinedNodes), or it has joined a head elsewhere (HeadElsewhere). Neither Head nor Node hears of a connection that
/// ends and is replaced by another one in time.
/// Owned by the daemon. Everything runs on one strand. The Host outlives it. End: close() closes all connections; then
/// the executor has to run what is posted until closed() is true, and start() or join() must have ended. closed() does
/// not wait for these two.
class Membership final : public HeadElsewhere::Listener {
 public:
  using OpenRecords = HeadHere::OpenRecords;
  using ReachedAt = HeadElsewhere::ReachedAt;
  struct Settings {
    Node::Settings node;
    OpenRecords open_records{};                    ///< empty: nothing outlives the head, and start() is not called
    Duration away_max = std::chrono::minutes{10};  ///< how long the node looks for a head that is gone
  };
  /// Callbacks to the owner, on the strand. Each says that the owner has to close the membership. `lost` and `given_up`
  /// come once at most, and only if the head is elsewhere; `told_to` may come again.
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
  const Head* head() const { return here_ == nullptr ? nullptr : std::as_const(*here_).head(); }
  /// nullptr if nothing outlives the head.
  const Records* records() const { return here_ == nullptr ? nullptr : here_->records(); }

  /// Starts the head of this process from its records: see HeadHere::start().
  async::Async<Result<void>> start() { return here_->start(); }
  /// Joins the head elsewhere: see HeadElsewhere::join().
  async::Async<Result<void>> join(ReachedAt reached_at, async::Deadline deadline) {
    return elsewhere_->join(std::move(reached_at), deadline);
  }
  /// Takes the connection of a node that wants to join (Introduction::Purpose::kJoin).
  void add_node(Fd socket) { joined_nodes_.add(std::move(socket)); }
  /// Takes the connection of a driver that has proved itself. It waits until the node has joined, or its head has
  /// started. At most kWaitingMax drivers wait; the connection of the next one is closed. The destructor closes the
  /// connections that still wait.
  void add_driver(Fd socket);

  void close();
  bool closed() const {
    return node_.closed() && (here_ == nullptr || here_->closed()) && (elsewhere_ == nullptr || elsewhere_->closed());
  }

  /// For tests: the same of Node and Head together.
  std::string leftovers() const { return node_.leftovers() + (head() == nullptr ? "" : head()->leftovers()); }
  std::string check() const { return node_.check() + (head() == nullptr ? "" : head()->check()); }

 private:
  static constexpr std::size_t kWaitingMax = 64;

  std::unique_ptr<HeadHere> make_head_here(async::Executor& executor, Host& host, NodeId id, OpenRecords open_records);
  Result<Head*> find_head();
  void tell_head(wire::Message message);
  std::size_t queued_to_head() const;
  void note_joined();
  void end_all();

  void on_joined(const wire::ClusterJoined& cluster) override;
  void on_joined_again(const wire::ClusterJoined& cluster) override;
  void on_beat(const wire::Beat& beat) override { node_.pass_on_beat(beat); }
  void on_head_message(wire::Message message) override;
  void on_head_lost(const Error& why) override { ends_.lost(why); }
  void on_given_up() override { ends_.given_up(); }

  const Ends ends_;
  std::unique_ptr<HeadHere> here_;            // null if the head is elsewhere
  std::unique_ptr<HeadElsewhere> elsewhere_;  // null if the head is here
  JoinedNodes joined_nodes_;
  Node node_;
  bool joined_ = false;
  std::vector<Fd> waiting_;  // connections of drivers that wait until the node has joined
};

}  // namespace pharos::node
