#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include <pharos/net/peer.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

/// One end of what a head and one of its nodes tell each other, over as many connections as that takes. Each end keeps
/// what it has said until it knows that the other end has heard it (beats say so), and says the rest again over the
/// next connection. So each message is heard once and in order, also when a connection ends with some on their way.
/// Beats, joins and what workers print do not belong to a session: lines that are on their way when a connection ends
/// are lost.
/// Owned by Membership; one strand.
/// Bound: of what is not confirmed kUnheardMax messages are kept. The session cannot be resumed when the other end
/// needs an older one.
class Session {
 public:
  static constexpr std::size_t kUnheardMax = std::size_t{1} << 18;

  /// `number`: the head's name for it; 0: it has none yet.
  explicit Session(std::uint64_t number = 0) : number_{number} {}

  static bool belongs(const wire::Message& message);
  std::uint64_t number() const { return number_; }
  void set_number(std::uint64_t number) { number_ = number; }

  /// Null: there is no connection now.
  const std::shared_ptr<net::Peer>& link() const { return link_; }

  /// Its first connection.
  void begin(std::shared_ptr<net::Peer> link) { link_ = std::move(link); }
  /// There is no connection for a while.
  void pause() { link_.reset(); }
  /// The other end has heard `heard` messages: the rest is there still.
  bool can_resume(std::uint64_t heard) const { return number_ != 0 && heard >= confirmed_ && heard <= said(); }
  /// Another connection, by which the rest is said again. Only if can_resume(heard).
  void resume(std::shared_ptr<net::Peer> link, std::uint64_t heard);

  void say(wire::Message message);
  /// The other end has heard so many.
  void confirm(std::uint64_t heard);
  /// A message has come from the other end.
  void note_heard() { ++heard_; }
  std::uint64_t heard() const { return heard_; }

 private:
  std::uint64_t said() const { return confirmed_ + unheard_.size(); }

  std::uint64_t number_;
  std::shared_ptr<net::Peer> link_;  // null: there is no connection now
  std::deque<wire::Message> unheard_;
  std::uint64_t confirmed_ = 0;  // messages that were said before these, and are not kept
  std::uint64_t heard_ = 0;
};

}  // namespace pharos::node
