#pragma once

#include <utility>

#include <pharos/async/async.hpp>
#include <pharos/async/routine.hpp>

namespace pharos::async::detail {

/// The Routine of a coroutine that no other coroutine awaits. A derived class runs it and overrides ended(), which is
/// called at the coroutine's end. Owned by an AsyncGroup, or by a call of a worker whose method is a coroutine.
/// Threads: after start() only the executor uses it. End: the destructor destroys the coroutine, and aborts the process
/// if the coroutine has started and not ended.
class Outermost : public Routine {
 public:
  /// `cancelled` must outlive this object.
  Outermost(Executor& executor, const std::atomic<bool>& cancelled, Async<void> coroutine)
      : Routine{executor, cancelled}, coroutine_{std::move(coroutine)} {}

  /// Prepares the coroutine; the first run() starts it.
  void start() { coroutine_.start(*this, {}); }

 protected:
  /// Throws the coroutine's exception if it ended with one. To be called once, after the coroutine's end.
  void take() { coroutine_.take(); }

 private:
  Async<void> coroutine_;
};

}  // namespace pharos::async::detail
