#include "worker/running.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "results/large_values.hpp"
#include "results/result_cell.hpp"
#include "worker/guarded.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::Function;

constexpr Duration kPatience = 200us;  // how long a task waits before it lends its CPU to others

}  // namespace

std::optional<Error> Running::run(const Function& function, void* object, std::uint8_t flags,
                                  std::span<const std::byte> payload, const std::shared_ptr<const void>& buffer,
                                  Encoder& result, const Retries& retries) {
  const UserCode inside{*this};
  const auto call = [&] {
    const Arrived arrived{workplace_.caller()->large_values(), flags, payload, buffer};
    Decoder arguments = arrived.decoder();
    function.call(object, arguments, result);
  };
  if (retries.types == nullptr) [[likely]]
    return guarded(function, call);
  for (;;) {
    bool again = false;
    auto error = guarded(function, call, retries.types, &again);
    if (!error || !again || !may_run_again(retries)) return error;
    result.clear();
  }
}

/// Sets the number of threads with which this call computes. Returns null if the end of the call does not matter.
ComputeThreads* Running::begin_computing() {
  ComputeThreads* const threads = workplace_.compute_threads();
  // A task that runs in the thread of the call that waits for it has that call's CPUs.
  if (threads == nullptr || of_this_thread() != nullptr) return nullptr;
  if (is_task_) {
    threads->begin_of_task(origin_->compute_threads());
    return nullptr;
  }
  threads->begin_of_actor(workplace_.instance().compute_threads);
  return threads;
}

void Running::wait(detail::ResultCell& cell, async::Deadline deadline) {
  if (run_instead(cell)) return;
  cell.park(std::min(deadline, async::Deadline::after(kPatience, workplace_.platform().now())));
  if (cell.ready() || deadline.expired(workplace_.platform().now())) return;
  if (is_task_) origin_->block();
  // The thread wakes from time to time for two reasons. A worker that has not begun the awaited task may give it back
  // to this process's pool, so that it can be run here; and this call may be cancelled.
  for (Duration slice = 1ms; !cell.ready() && !deadline.expired(workplace_.platform().now());
       slice = std::min<Duration>(2 * slice, 64ms)) {
    if (run_instead(cell)) break;
    if (cancelled()) {
      cell.cancel();
      break;
    }
    cell.park(std::min(deadline, async::Deadline::after(slice, workplace_.platform().now())));
  }
  if (is_task_) workplace_.unblock();
}

bool Running::cancelled() const {
  if (in_place_of_ != nullptr && in_place_of_->call().cancelled()) return true;
  return origin_ != nullptr && origin_->cancelled(number_);
}

bool Running::stopping() const {
  return workplace_.stopping();
}

Result<void> Running::exit_actor() {
  if (in_place_of_ != nullptr) return Workplace::no_actor_to_exit();  // a task, which only runs in an actor's thread
  return workplace_.exit_actor();
}

Result<void> Running::enter_group(const Member& place) {
  Member& latest = workplace_.instance().member;
  if (place.term < latest.term) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the call was made for term " + std::to_string(place.term) + " of its group, which is in term " +
                     std::to_string(latest.term) + " now",
                 "The group has lost a member or changed its size: make the call again, through a current "
                 "handle of the group."};
  }
  member_ = latest = place;
  return {};
}

Member Running::member() const {
  if (is_task_ || in_place_of_ != nullptr) return {};
  return member_.value_or(workplace_.instance().member);
}

Deadline Running::deadline() const {
  if (in_place_of_ != nullptr) return in_place_of_->call().deadline;
  return origin_ == nullptr ? Deadline::never() : origin_->deadline_of(number_);
}

Context Running::context() const {
  static const Instance kNone{};
  const bool is_actors = !is_task_ && in_place_of_ == nullptr;
  const Instance& instance = is_actors ? workplace_.instance() : kNone;
  const wire::WorkerResources& held = is_task_ ? origin_->holding() : workplace_.instance().holding;
  Context its = workplace_.context(instance, held);
  its.attempt = attempt_;
  its.trace = trace_;
  its.deadline = deadline();
  return its;
}

// If no worker will come soon for a waiting task, the thread that waits for its result runs it. Returns whether it did.
bool Running::run_instead(detail::ResultCell& cell) {
  if (!workplace_.caller()->tasks().take_back(cell)) return false;
  const auto& call = cell.call();
  Retries retries;
  if (call.retry_on != 0) retries = {exception_types(call.retry_on - 1), call.max_retries};
  RoomIn room{workplace_.caller()->large_values()};
  CodecContext carried;
  Encoder result;
  result.set_large_room(&room);
  result.set_context(&carried);
  const Function& function = function_table()[call.function];
  room.for_result_of(function);
  Running running{workplace_, function, origin_, number_, call.trace, is_task_, call.attempt};
  running.in_place_of_ = &cell;
  auto error = running.run(function, nullptr, call.flags, cell.arguments(), nullptr, result, retries);
  workplace_.end_if_child();
  if (error) {
    cell.set_error(std::move(*error));
  } else if (result.failed()) {
    cell.set_error(not_encoded("the result", result));
  } else if (result.in_room()) {
    cell.set_object(room.seal(), std::move(carried.actors));
  } else {
    cell.set_value(result, std::move(carried.actors));
  }
  return true;
}

}  // namespace pharos::actors
