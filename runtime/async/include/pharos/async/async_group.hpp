#pragma once

#include <cstddef>
#include <exception>
#include <memory>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>

namespace pharos::async {

/// Coroutines that run in the background. Except for the calls of a worker, this is the only way to start such
/// coroutines. No coroutine outlives its group, so coroutines may use every object that outlives the group.
///
/// Owned by the object that needs the coroutines, as its last member. The executor outlives the group.
/// Threads: any thread may call every member. The coroutines run on the group's executor, one at a time.
/// Failure: an exception that leaves a spawned coroutine goes to `on_error`, on the executor; `on_error` must not
/// throw. Without `on_error` such an exception is a bug: the process prints the exception and aborts.
/// End: cancel(), join(), then the destructor. The destructor neither cancels nor waits, and aborts the process if a
/// coroutine is left.
/// Bounds: the group sets none; code that spawns a coroutine for each request limits the number with size().
class PHAROS_API AsyncGroup {
 public:
  using OnError = UniqueFunction<void(std::exception_ptr)>;

  explicit AsyncGroup(Executor& executor, OnError on_error = {});
  AsyncGroup(AsyncGroup&&) = delete;
  ~AsyncGroup();

  /// Starts the coroutine soon, never inside this call. After cancel() it still runs, but each of its waits ends at
  /// once.
  void spawn(Async<void> coroutine);

  /// Ends the present wait and all later waits of the coroutines with kCancelled. Returns at once: the executor ends
  /// the present waits later. The operations that the coroutines wait for go on. A join() inside the coroutines is not
  /// cancelled, because a cancelled coroutine must still wait for its own groups. Cannot be undone.
  void cancel();

  /// Waits until all coroutines have ended and their frames are destroyed. Fails only with kDeadlineExceeded: a
  /// coroutine that is itself cancelled can still join its groups. The coroutines then go on, and join() may be called
  /// again. May run on any executor, but not within the group.
  Async<Result<void>> join(Deadline deadline);

  /// Like join(), but blocks the calling thread: for `main` or a destructor. On the executor's own thread no coroutine
  /// could end meanwhile.
  Result<void> join_blocking(Deadline deadline);

  /// The number of coroutines that have not ended, or whose frames are not destroyed yet.
  std::size_t size() const;

 private:
  class Member;
  class Members;

  static Async<Result<void>> join(std::shared_ptr<Members> members, Deadline deadline);

  std::shared_ptr<Members> members_;
};

}  // namespace pharos::async
