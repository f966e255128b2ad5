#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include <pharos/async/unique_function.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

/// The way from a node to its head. Keeps the messages that a head which has started again must be told once more
/// (is_said_again), until the head confirms them. Also numbers the node's questions and everything else on a node that
/// needs a number of its own.
/// Owned by Site; on the node's strand. Reports no failure: what becomes of a message while the head is away is decided
/// by Tell. The destructor drops the kept messages. Bounds: none; the head confirms messages soon after they are
/// durable.
class ToHead {
 public:
  /// Sends a message to the head. Never calls the node from inside.
  using Tell = async::UniqueFunction<void(wire::Message)>;

  explicit ToHead(Tell tell) : tell_{std::move(tell)} {}

  void tell(wire::Message message);
  /// The present head has made that many of the kept messages durable, counted from its first one.
  void confirm(std::uint64_t count);
  /// Another head has taken the place of the one before: it is told everything that is not confirmed.
  void tell_again();
  /// Returns a number that was not used before.
  std::uint64_t next_number() { return ++last_number_; }

 private:
  Tell tell_;
  std::deque<wire::Message> unconfirmed_;  // oldest first
  std::uint64_t confirmed_ = 0;            // how many messages the present head has confirmed
  std::uint64_t last_number_ = 0;
};

}  // namespace pharos::node
