#pragma once

#include <utility>

#include <pharos/async/async.hpp>
#include <pharos/async/routine.hpp>

namespace pharos::async::detail {

/// The routine of a coroutine that nobody awaits: whoever derives from this runs it, and hears of its end.
class Outermost : public Routine {
 public:
  /// `cancelled` outlives it.
  Outermost(Executor& executor, const std::atomic<bool>& cancelled, Async<void> coroutine)
      : Routine{executor, cancelled}, coroutine_{std::move(coroutine)} {}

  /// The first run() then begins it.
  void start() { coroutine_.start(*this, {}); }

 protected:
  /// Throws what it threw; once, after its end.
  void take() { coroutine_.take(); }

 private:
  Async<void> coroutine_;
};

}  // namespace pharos::async::detail
