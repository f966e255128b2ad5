#pragma once

#include <optional>

#include <pharos/async/executor.hpp>
#include <pharos/base/clock.hpp>

#include "leases/lease_book.hpp"

namespace pharos::node {

/// Looks every few milliseconds whether leases are to be recalled, while something waits for the resources of another
/// lessee. After 20 looks that recall nothing it looks every 100 ms, until something changes.
/// While a single caller has all leases here, and no other caller and no actor waits, there is nothing to recall.
/// Owned by TaskLeases; on the node's strand. Its timers use it, so the executor has to stop before the destructor.
class RecallTimer {
 public:
  RecallTimer(async::Executor& executor, LeaseBook& book) : executor_{executor}, book_{book} {}

  /// Leases, requests or reservations have changed.
  void note_change();

 private:
  void look_later();

  async::Executor& executor_;
  LeaseBook& book_;
  std::optional<TimePoint> looks_at_;
  int quiet_looks_ = 0;  // looks in a row that recalled nothing, since the last change
};

}  // namespace pharos::node
