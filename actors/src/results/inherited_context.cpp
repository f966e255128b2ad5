#include "results/inherited_context.hpp"

#include <utility>

#include <pharos/base/random.hpp>

#include "program/thread_state.hpp"
#include "worker/running_call.hpp"

namespace pharos::actors {

std::optional<InheritedContext> InheritedContext::of_this_thread() {
  if (this_thread.continues != nullptr) [[unlikely]]
    return *this_thread.continues;
  if (const auto* const running = this_thread.running) return InheritedContext{running->trace(), running->deadline()};
  return std::nullopt;
}

InheritedContext InheritedContext::of_new_call() {
  if (const auto inherited = of_this_thread()) return *inherited;
  std::uint64_t& last = this_thread.last_trace;
  if (last == 0) last = random_u64();
  return {.trace = TraceId{++last}};
}

async::Callback as_continuation(async::Callback then) {
  const auto inherited = InheritedContext::of_this_thread();
  if (!inherited) return then;
  return [inherited = *inherited, then = std::move(then)]() mutable {
    const InheritedContext* const outer = std::exchange(this_thread.continues, &inherited);
    then();
    this_thread.continues = outer;
  };
}

}  // namespace pharos::actors
