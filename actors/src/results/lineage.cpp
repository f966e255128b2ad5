#include "results/lineage.hpp"

#include <utility>

#include <pharos/base/random.hpp>

#include "program/thread_state.hpp"
#include "worker/running_call.hpp"

namespace pharos::actors {

std::optional<Lineage> Lineage::of_this_thread() {
  if (this_thread.continues != nullptr) [[unlikely]]
    return *this_thread.continues;
  if (const auto* const running = this_thread.running) return Lineage{running->trace(), running->deadline()};
  return std::nullopt;
}

Lineage Lineage::of_new_call() {
  if (const auto inherited = of_this_thread()) return *inherited;
  std::uint64_t& last = this_thread.last_trace;
  if (last == 0) last = random_u64();
  return {.trace = TraceId{++last}};
}

async::Callback as_continuation(async::Callback then) {
  const auto lineage = Lineage::of_this_thread();
  if (!lineage) return then;
  return [lineage = *lineage, then = std::move(then)]() mutable {
    const Lineage* const outer = std::exchange(this_thread.continues, &lineage);
    then();
    this_thread.continues = outer;
  };
}

}  // namespace pharos::actors
