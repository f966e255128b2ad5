#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/net/peer.hpp>

#include "daemon/machine.hpp"
#include "link/session.hpp"
#include "node/host.hpp"

namespace pharos::node {

/// The head that this node has joined, at another address. A node whose connection to the head has ended looks for a
/// head there. The same head continues the session, or says that it has given the node up. Another head that has the
/// records of the first one knows the node, and is told what is on it.
/// When the connection to a head without records ends, and that head was not silent before, the head has ended: the
/// Listener hears this at once. Otherwise the search lasts for `away_max`, and for a head without records for 90 s at
/// most.
/// Owned by Membership; on its strand. The Host and the Listener outlive it. End: close() ends the connection and the
/// search; then the executor has to run what is posted until closed() is true, and join() must have ended.
class HeadElsewhere final : public net::Peer::Owner {
 public:
  /// What the head says, and what becomes of it. Called on the strand, not after closed() is true.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_joined(const wire::ClusterJoined& cluster) = 0;
    /// The node is back, and tells the head what is on it: the head is another one, or has not kept the session.
    virtual void on_joined_again(const wire::ClusterJoined& cluster) = 0;
    virtual void on_beat(const wire::Beat& beat) = 0;
    virtual void on_head_message(wire::Message message) = 0;
    /// The head is gone, and no other one has come. Nothing more is called.
    virtual void on_head_lost(const Error& why) = 0;
    /// The cluster has given this node up. Nothing more is called.
    virtual void on_given_up() = 0;
  };
  struct Settings {
    NodeId node;
    std::string address;  ///< of the head
    Machine machine;
    Duration away_max = std::chrono::minutes{10};  ///< how long the node looks for a head that is gone
  };
  /// Is given a connection to the head, and returns the address where other nodes reach this one.
  using ReachedAt = std::function<Result<std::string>(int socket)>;

  HeadElsewhere(async::Executor& executor, Host& host, Settings settings, Listener& listener);

  /// Joins the head, and calls on_joined() before it returns. Tries again until the deadline while the error is
  /// kUnavailable, since the head may be about to start. Any other error ends it at once: kDeadlineExceeded,
  /// kCancelled, an error of Host::reach() or of `reached_at`, or the head's refusal. closed() does not wait for this
  /// coroutine.
  async::Async<Result<void>> join(ReachedAt reached_at, async::Deadline deadline);
  const std::string& address() const { return settings_.address; }

  /// Sends the head a message. A message that belongs to the session is kept while the head is away; others are
  /// dropped. Kept messages are dropped, too, when another head takes the place of the one before. on_joined_again()
  /// then has to tell it everything.
  void tell(wire::Message message);
  /// Bytes that wait to be sent to the head; nullopt while the head is away.
  std::optional<std::size_t> queued() const;

  void close();
  bool closed() const { return background_.size() == 0; }

 private:
  enum class State : std::uint8_t {
    kNotJoined,
    kJoined,
    kComingBack,  ///< the connection has ended, and the node looks for a head
  };

  async::Async<Result<void>> try_to_join(ReachedAt reached_at, async::Deadline deadline);
  async::Async<Result<wire::ClusterJoined>> ask_to_join(Fd socket, bool again, async::Deadline deadline);
  void connect(Fd socket);
  void go_on_with(const wire::ClusterJoined& joined, std::uint64_t heard_before);
  void note_back();
  void lose(const Error& why);
  void note_spoke();
  async::Async<void> come_back(Error why);
  void tick_later();
  void tick();

  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;

  async::Executor& executor_;
  Host& host_;
  const Settings settings_;
  Listener& listener_;
  std::string reached_at_;  // the address where other nodes reach this one
  State state_ = State::kNotJoined;
  std::shared_ptr<net::Peer> link_;  // null while there is no connection
  Session session_;
  bool lasts_ = false;         // the head has records, from which another one can go on
  TimePoint spoke_;            // when the last message came from the head
  TimePoint after_silence_;    // if the connection ends before this time, the head's last silence has ended it
  std::uint64_t returns_ = 0;  // how often this node has come back to a head
  bool ticks_ = false;
  bool closing_ = false;
  const std::shared_ptr<void> life_ = std::make_shared<char>();  // expires with this object
  async::AsyncGroup background_;
};

}  // namespace pharos::node
