#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <pharos/wire/frame.hpp>

namespace pharos::actors {

/// Of one caller on another machine: which of its calls have come, and the replies that it may not have got. With it a
/// call that comes again, because a connection ended, is answered and not run again. Pure.
/// Owned by the worker, one a caller; the strand's. Bounds: the caller acknowledges what it got; bytes() is for whoever
/// watches over one that does not.
class ReplyCache {
 public:
  /// `next`: all calls below have come before, and are forgotten.
  explicit ReplyCache(std::uint64_t next = 0) : next_{next} {}

  struct Reply {
    wire::FrameHeader header;
    std::vector<std::byte> payload;
  };

  enum class Arrival : std::uint8_t {
    kFirst,      ///< to be run
    kUnderWay,   ///< its reply follows when it is done
    kAnswered,   ///< reply_to() is to be sent again
    kForgotten,  ///< it has come before, and nothing more is known
  };
  Arrival arrive(const wire::FrameHeader& call);

  /// Keeps it until it is acknowledged, or forgotten.
  void answer(const wire::FrameHeader& reply, std::span<const std::byte> payload);
  const Reply& reply_to(std::uint64_t number) const;

  /// The caller has the replies to all calls below this …
  void acknowledge_below(std::uint64_t number);
  /// … and to this one.
  void acknowledge(std::uint64_t number);
  /// The caller does not acknowledge, or has been away for so long that it will not come again.
  void forget();
  std::uint64_t next() const { return next_; }

  /// Of the replies that are kept.
  std::size_t bytes() const { return bytes_; }
  std::size_t size() const { return calls_.size(); }

 private:
  using Calls = std::map<std::uint64_t, std::optional<Reply>>;
  void erase(Calls::iterator call);

  std::uint64_t next_;
  Calls calls_;  // those below next_ that are not acknowledged; without a reply as long as they run
  std::size_t bytes_ = 0;
};

}  // namespace pharos::actors
