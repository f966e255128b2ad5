#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <pharos/wire/encoder.hpp>

#include "caller/call_notes.hpp"
#include "program/platform.hpp"
#include "worker/call_origin.hpp"
#include "worker/running_call.hpp"
#include "worker/workplace.hpp"

namespace pharos::actors {

/// A call that runs, or a coroutine's call that is suspended. Lives on the stack of the thread that runs the call, or
/// in its CoroutineCall. The interface is used by the threads that run the call's code. `workplace`, `function` and
/// `origin` must outlive it. Exceptions of the user's code become the error that run() returns.
class Running final : public RunningCall {
 public:
  /// `origin`: the connection that the call came over; null for a constructor.
  Running(Workplace& workplace, const detail::Function& function, CallOrigin* origin, std::uint64_t number,
          TraceId trace, bool is_task, std::uint8_t attempt = 0)
      : RunningCall{function.name(), function.begin != nullptr},
        workplace_{workplace},
        origin_{origin},
        number_{number},
        trace_{trace},
        is_task_{is_task},
        attempt_{attempt} {}

  /// Called when the call has thrown one of the exceptions for which it is run again. Returns true and counts the
  /// attempt if it may be run once more: it has retries left, is not cancelled, and its deadline has not passed.
  bool may_run_again(const Retries& retries) {
    const bool may = attempt_ < retries.max && !cancelled() && !deadline().expired(workplace_.platform().now());
    if (may) attempt_ = wire::next_attempt(attempt_);
    return may;
  }
  /// Runs the function, and runs it again at once as long as it may be. Not for a coroutine. Returns the error of the
  /// last attempt, or nullopt; BadArguments and exceptions of other types are not repeated. `buffer` keeps the payload
  /// alive if values may share its bytes; else null.
  std::optional<Error> run(const detail::Function& function, void* object, std::uint8_t flags,
                           std::span<const std::byte> payload, const std::shared_ptr<const void>& buffer,
                           Encoder& result, const Retries& retries);

  void wait(detail::ResultCell& cell, async::Deadline deadline) override;
  Context context() const override;
  Result<void> enter_group(const Member& place) override;
  Member member() const override;
  bool cancelled() const override;
  bool stopping() const override;
  Result<void> exit_actor() override;
  TraceId trace() const override { return trace_; }
  Deadline deadline() const override;

 private:
  friend class UserCode;
  bool run_instead(detail::ResultCell& cell);
  ComputeThreads* begin_computing();

  Workplace& workplace_;
  CallOrigin* const origin_;
  const std::uint64_t number_;  // the number of the call among them; a task that runs inside it is cancelled with it
  const TraceId trace_;
  const bool is_task_;
  std::uint8_t attempt_;
  std::optional<Member> member_;
  detail::ResultCell* in_place_of_ = nullptr;  // the result of the task if run_instead() runs it; else null
};

/// While this lives, on the stack, its thread runs user code of this call. The call and its workplace must outlive it.
class UserCode {
 public:
  explicit UserCode(Running& call)
      : actors_{call.begin_computing()}, scope_{call}, detour_{call.workplace_.platform()} {}
  UserCode(UserCode&&) = delete;
  ~UserCode() {
    if (actors_ != nullptr) actors_->end_of_actor();
  }

 private:
  ComputeThreads* const actors_;  // null in a task
  const RunningCall::Scope scope_;
  const Platform::Detour detour_;
};

}  // namespace pharos::actors
