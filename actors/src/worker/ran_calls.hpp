#pragma once

#include <mutex>
#include <optional>

#include <pharos/base/clock.hpp>
#include <pharos/net/link.hpp>
#include <pharos/wire/frame.hpp>

namespace pharos::actors {

/// The one-way calls of one connection that have run without an error, and of which the caller has not been told. One
/// reply tells it of all calls whose numbers follow each other. Owned by an IncomingCalls, for a caller on this
/// machine. Any thread. What is left at the end is dropped.
class RanCalls {
 public:
  /// Notes a call that has run. Sends the reply for the earlier ones if this call does not follow them.
  void note(net::Link& link, const wire::FrameHeader& call, Duration execution) {
    const std::lock_guard lock{mutex_};
    if (reply_ && reply_->number + 1 != call.number) send_locked(link);
    if (!reply_) {
      reply_ = call;
      reply_->kind = wire::FrameKind::kReply;
      reply_->flags = wire::kOneWay;
      reply_->acknowledged = call.number;
      reply_->time = 0;
    }
    reply_->number = call.number;
    reply_->time += execution.count();
  }
  /// Sends the reply for the calls that are noted, and does not write it: the caller of this function flushes the link.
  void send(net::Link& link) {
    const std::lock_guard lock{mutex_};
    if (reply_) send_locked(link);
  }

 private:
  void send_locked(net::Link& link) {
    link.send(*reply_, {});
    reply_.reset();
  }

  std::mutex mutex_;
  std::optional<wire::FrameHeader> reply_;
};

}  // namespace pharos::actors
