#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <pharos/wire/frame.hpp>

namespace pharos::actors {

/// Knows which calls of one caller on another machine have arrived, and keeps the replies that the caller may not have
/// received. If the caller sends a call again, because a connection has ended, the call is answered and not run again.
/// A pure core.
/// The worker owns one for each such caller, and uses it on its strand. A reply is dropped when the caller acknowledges
/// it; bytes() lets the worker notice a caller that acknowledges none. The cache itself has no bound.
class ReplyCache {
 public:
  /// `next`: all calls with lower numbers have arrived before, and nothing more is known of them.
  explicit ReplyCache(std::uint64_t next = 0) : next_{next} {}

  struct Reply {
    wire::FrameHeader header;
    std::vector<std::byte> payload;
  };

  enum class Arrival : std::uint8_t {
    kFirst,      ///< The call is to be run.
    kUnderWay,   ///< The call is running or waiting, and its reply will follow.
    kAnswered,   ///< The call has run, and reply_to() is to be sent again.
    kForgotten,  ///< The call has arrived before, and nothing more is known of it.
  };
  /// Notes that a call has arrived, and returns what to do with it.
  Arrival arrive(const wire::FrameHeader& call);

  /// Keeps the reply until it is acknowledged or forgotten. Does nothing for a call that is forgotten already. A second
  /// reply to one call is a bug and aborts the process.
  void answer(const wire::FrameHeader& reply, std::span<const std::byte> payload);
  /// Returns the reply that is kept. Only after arrive() has returned kAnswered; otherwise it throws. Valid until the
  /// reply is acknowledged or forgotten.
  const Reply& reply_to(std::uint64_t number) const;

  /// The caller has received the replies to all calls with lower numbers than this.
  void acknowledge_below(std::uint64_t number);
  /// The caller has received the reply to this call. Ignored for a call that still runs.
  void acknowledge(std::uint64_t number);
  /// Forgets all calls and replies, because the caller acknowledges none.
  void forget();
  /// All calls that have arrived have lower numbers than this.
  std::uint64_t next() const { return next_; }

  /// Size of all replies that are kept.
  std::size_t bytes() const { return bytes_; }
  std::size_t size() const { return calls_.size(); }

 private:
  using Calls = std::map<std::uint64_t, std::optional<Reply>>;
  void erase(Calls::iterator call);

  std::uint64_t next_;
  Calls calls_;  // calls below next_ that are not acknowledged; without a reply while they run
  std::size_t bytes_ = 0;
};

}  // namespace pharos::actors
