#pragma once

#include <cstddef>
#include <optional>

#include <pharos/async/executor.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/wire/message.hpp>

#include "leases/lease_book.hpp"
#include "node/to_head.hpp"

namespace pharos::node {

/// Tells the head what tasks use on this node, and what they wait for (the 16 longest lines). Short tasks change the
/// load all the time, so the head is told after a pause: 100 ms, or 1 s if only the waiting tasks have changed.
/// Owned by TaskLeases; on the node's strand. Its timers use it, so the executor has to stop before the destructor. A
/// report that the head does not get is told again by tell_again().
class LoadReport {
 public:
  LoadReport(async::Executor& executor, const LeaseBook& book, ToHead& head)
      : executor_{executor}, book_{book}, head_{head} {}

  /// The load may have changed.
  void note_change();
  /// Tells the load at once.
  void tell();
  /// The head counts something else than it was told, because it has sent a request here.
  void forget_told() { told_.reset(); }
  /// Tells another head what the one before was told.
  void tell_again();

 private:
  wire::NodeLoad load() const;

  async::Executor& executor_;
  const LeaseBook& book_;
  ToHead& head_;
  std::optional<wire::NodeLoad> told_ = wire::NodeLoad{};  // nullopt: the head may count something else
  std::size_t told_waiting_ = 0;
  std::optional<TimePoint> tells_at_{};
};

}  // namespace pharos::node
