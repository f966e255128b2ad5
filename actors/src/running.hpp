#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <pharos/wire/encoder.hpp>

#include "call_marks.hpp"
#include "calls.hpp"
#include "platform.hpp"
#include "running_call.hpp"

namespace pharos::actors {

/// As long as this lives, its thread runs user code, of this call.
struct UserCode {
  UserCode(RunningCall& call, Platform& platform) : scope{call}, detour{platform} {}
  const RunningCall::Scope scope;
  const Platform::Detour detour;
};

/// A call that runs, or is suspended.
class Running final : public RunningCall {
 public:
  /// `link`: what the call came with; a constructor came with none.
  Running(Calls& calls, const detail::Function& function, CallerLink* link, std::uint64_t number, TraceId trace,
          bool is_task, std::uint32_t attempt = 0)
      : RunningCall{function.name(), function.begin != nullptr},
        calls_{calls},
        link_{link},
        number_{number},
        trace_{trace},
        is_task_{is_task},
        attempt_{attempt} {}

  /// It has failed with what it may be run again for: false if not once more.
  bool may_run_again(const Retries& retries) {
    const bool may = attempt_ < retries.max && !cancelled() && !deadline().expired(calls_.platform().now());
    if (may) ++attempt_;
    return may;
  }
  /// Runs it, at once again as long as it may be. Not for a coroutine. `buffer`: what keeps the payload, if it may be
  /// shared.
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
  bool run_instead(detail::ResultCell& cell);

  Calls& calls_;
  CallerLink* const link_;
  const std::uint64_t number_;  // of the call that came with the link; what runs inside of it is cancelled with it
  const TraceId trace_;
  const bool is_task_;
  std::uint32_t attempt_;
  std::optional<Member> member_;
  detail::ResultCell* in_place_of_ = nullptr;  // a worker that would have run this task
};

}  // namespace pharos::actors
