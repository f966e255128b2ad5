#pragma once

#include <pharos/async/deadline.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>

namespace pharos {
struct Context;
struct Member;
namespace detail {
class ResultCell;
}
}  // namespace pharos

namespace pharos::actors {

struct InheritedContext;

/// The call of a user's function that a thread of a worker is running. An interface, because the worker decides what a
/// wait inside the call does. Owned by the worker's code that runs the call. Only the thread that is running the call
/// uses it.
class RunningCall {
 public:
  /// Returns null in a thread that runs no call: in a driver, in a callback of then(), and in a thread that the user's
  /// code started. The pointer is valid until the innermost Scope on this thread's stack ends.
  static RunningCall* of_this_thread();
  /// Returns the address above which this thread's stack belongs to the worker and not to the call; null if the thread
  /// runs no call.
  static const void* stack_begin();
  /// Returns the mangled name.
  const char* function_name() const { return function_name_; }
  bool is_coroutine() const { return is_coroutine_; }

  /// While this lives, on the stack, its thread runs that call. The call must outlive it. Scopes nest: the destructor
  /// restores the outer call.
  class Scope {
   public:
    explicit Scope(RunningCall& call);
    Scope(Scope&&) = delete;
    ~Scope();

   private:
    RunningCall* const outer_;
    const void* const outer_scope_;
    const InheritedContext* const outer_continues_;
  };

  /// Returns when the cell is ready, at the deadline, or when this call has been cancelled: then the cell is cancelled,
  /// too. A cancellation is noticed within 64 ms. If no worker will soon take the task that makes the result, this
  /// thread runs the task.
  virtual void wait(detail::ResultCell& cell, async::Deadline deadline) = 0;
  /// Returns whether the call was asked to stop.
  virtual bool cancelled() const = 0;
  /// Returns whether the worker is to end, and waits for the call.
  virtual bool stopping() const = 0;
  /// Ends the actor after this call. kFailedPrecondition if this call is a task, even one that runs in an actor's
  /// process.
  virtual Result<void> exit_actor() = 0;
  virtual Context context() const = 0;
  /// Notes that the actor's group has made this call, and which place it gives the actor. kFailedPrecondition if the
  /// call is of a term that is over.
  virtual Result<void> enter_group(const Member& place) = 0;
  /// Returns the actor's place as this call gives it, else as the group gave it last. Group 0 if the actor is in none.
  virtual Member member() const = 0;
  // The calls that this call makes inherit its trace and its deadline.
  virtual TraceId trace() const = 0;
  virtual async::Deadline deadline() const = 0;

 protected:
  RunningCall(const char* function_name, bool is_coroutine)
      : function_name_{function_name}, is_coroutine_{is_coroutine} {}
  ~RunningCall() = default;

 private:
  const char* const function_name_;
  const bool is_coroutine_;
};

}  // namespace pharos::actors
