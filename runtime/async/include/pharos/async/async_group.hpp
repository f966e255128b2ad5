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

/// Coroutines that run in the background, and the one way to start them. What is spawned is joined: no coroutine
/// outlives its group, so whatever outlives the group may be used by them.
///
/// Owned by whoever needs the coroutines, as its last member; the executor outlives it.
/// Threads: every member may be called from any thread; the coroutines run on the group's executor, one at a time.
/// Failure: an exception that leaves a spawned coroutine goes to `on_error`, on the executor; without one it is a bug,
/// and ends the process with what it was.
/// End: cancel(), join(), then the destructor, which ends the process if a coroutine is left.
/// Bounds: none of its own; whoever spawns for each request counts them with size().
class PHAROS_API AsyncGroup {
 public:
  using OnError = UniqueFunction<void(std::exception_ptr)>;

  explicit AsyncGroup(Executor& executor, OnError on_error = {});
  AsyncGroup(AsyncGroup&&) = delete;
  ~AsyncGroup();

  /// Starts it soon, never inside this call. After cancel() it still runs, and each of its waits ends at once.
  void spawn(Async<void> coroutine);

  /// Every wait inside the coroutines, the present one and all later ones, ends with kCancelled; what they wait for
  /// goes on. Only a join() is waited for: what is cancelled must still see its own group end. For good.
  void cancel();

  /// Waits until all have ended and their frames are gone. Fails with kDeadlineExceeded only: a coroutine that is
  /// itself cancelled can still join what it spawned. From any executor, but not from within the group.
  Async<Result<void>> join(Deadline deadline);

  /// The same for a thread that is not the executor's: `main`, a destructor.
  Result<void> join_blocking(Deadline deadline);

  /// Those that have not ended.
  std::size_t size() const;

 private:
  class Member;
  class Members;

  static Async<Result<void>> join(std::shared_ptr<Members> members, Deadline deadline);

  std::shared_ptr<Members> members_;
};

}  // namespace pharos::async
