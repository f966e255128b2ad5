#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include <pharos/net/peer.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

/// One end of the conversation between a head and one of its nodes, over one connection after the other. Each end keeps
/// its messages until it knows that the other end has heard them (beats say how many), and sends the rest again over
/// the next connection. So each message is heard once and in order, even if a connection ends while messages are on
/// their way.
/// Beats, joins and the output of workers do not belong to a session: output that is on its way when a connection ends
/// is lost.
/// Owned by HeadElsewhere at the node's end, and by JoinedNodes (shared with the head's callback) at the head's end; on
/// the strand of Membership. The destructor drops what is kept; the owner closes the connection.
/// Bound: at most kUnconfirmedMax unconfirmed messages are kept. If the other end needs an older one, the session
/// cannot be resumed, and the head gives the node up.
class Session {
 public:
  static constexpr std::size_t kUnconfirmedMax = std::size_t{1} << 18;

  /// `number` is the head's name for the session; 0: it has no number yet.
  explicit Session(std::uint64_t number = 0) : number_{number} {}

  /// Returns whether a message of this kind belongs to a session.
  static bool belongs(const wire::Message& message);
  std::uint64_t number() const { return number_; }
  void set_number(std::uint64_t number) { number_ = number; }

  /// nullptr while there is no connection.
  const std::shared_ptr<net::Peer>& link() const { return link_; }

  /// Begins the session on its first connection.
  void begin(std::shared_ptr<net::Peer> link) { link_ = std::move(link); }
  /// The connection has ended. Messages are kept from here on, and not sent.
  void pause() { link_.reset(); }
  /// Returns whether the session can go on if the other end has heard `heard` messages: the rest must still be here.
  bool can_resume(std::uint64_t heard) const { return number_ != 0 && heard >= confirmed_ && heard <= sent(); }
  /// Goes on with another connection, and sends the rest again. Aborts the process unless can_resume(heard).
  void resume(std::shared_ptr<net::Peer> link, std::uint64_t heard);

  /// Sends a message, or keeps it for the next connection. Each message counts as sent, so it must not be too large for
  /// net::Peer::send().
  void send(wire::Message message);
  /// The other end has heard `heard` messages, which need not be kept any longer.
  void confirm(std::uint64_t heard);
  /// A message has come from the other end.
  void note_received() { ++received_; }
  std::uint64_t received() const { return received_; }

 private:
  std::uint64_t sent() const { return confirmed_ + unconfirmed_.size(); }

  std::uint64_t number_;
  std::shared_ptr<net::Peer> link_;        // null while there is no connection
  std::deque<wire::Message> unconfirmed_;  // messages that are kept, oldest first
  std::uint64_t confirmed_ = 0;            // messages before these, which are not kept
  std::uint64_t received_ = 0;             // messages that have come from the other end
};

}  // namespace pharos::node
