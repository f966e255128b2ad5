#pragma once

#include <pharos/actors/member.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/result.hpp>

namespace pharos::detail {
class ResultCell;
}

namespace pharos::actors {

struct Lineage;

/// The call of a user's function that a thread is running now, in a worker. Pure interface: what a wait inside of it
/// has to do is the worker's business.
class RunningCall {
 public:
  /// None in a driver, and in a thread that the user's code started.
  static RunningCall* of_this_thread();
  /// Above this address this thread's stack is the worker's; null where it runs no call.
  static const void* stack_begin();
  /// Mangled.
  const char* function_name() const { return function_name_; }
  bool is_coroutine() const { return is_coroutine_; }

  /// As long as this lives, on the stack, its thread runs that call.
  class Scope {
   public:
    explicit Scope(RunningCall& call);
    Scope(Scope&&) = delete;
    ~Scope();

   private:
    RunningCall* const outer_;
    const void* const outer_scope_;
    const Lineage* const outer_continues_;
  };

  /// Returns when the cell is ready, at the deadline, or when the call has been cancelled.
  virtual void wait(detail::ResultCell& cell, async::Deadline deadline) = 0;
  /// Somebody has asked for it to stop.
  virtual bool cancelled() const = 0;
  /// Its worker is to end, and waits for it.
  virtual bool stopping() const = 0;
  /// After this call. kFailedPrecondition: it is none of an actor's.
  virtual Result<void> exit_actor() = 0;
  virtual Context context() const = 0;
  /// It is its actor's group's. kFailedPrecondition: of a term that is over.
  virtual Result<void> enter_group(const Member& place) = 0;
  /// As the call says it, else as its actor's group said it last. Of a group 0: its actor is in none.
  virtual Member member() const = 0;
  // What the calls that it makes inherit.
  virtual TraceId trace() const = 0;
  virtual Deadline deadline() const = 0;

 protected:
  RunningCall(const char* function_name, bool is_coroutine)
      : function_name_{function_name}, is_coroutine_{is_coroutine} {}
  ~RunningCall() = default;

 private:
  const char* const function_name_;
  const bool is_coroutine_;
};

}  // namespace pharos::actors
