// Reports what a caller's threads wait for. Some of that the caller knows; for the rest it asks its node.

#include <unistd.h>

#include <chrono>

#include "caller/caller.hpp"
#include "program/function_table.hpp"
#include "program/wait_report.hpp"

namespace pharos::detail {
namespace {

constexpr std::size_t kPendingMax = 1000;  // results in one report
constexpr auto kAskTime = std::chrono::seconds{1};

}  // namespace

std::vector<wire::PendingResult> Caller::pending_results() {
  std::vector<wire::PendingResult> all;
  for (const auto& wait : room_->threads().all()) {
    if (wait.cell->ready()) continue;
    const std::size_t place = all.size();
    add_pending(wait.cell, -1, all);
    if (place == all.size()) break;
    all[place].thread = wait.thread;
    if (wait.inside != nullptr) all[place].inside = actors::function_index(wait.inside);
  }
  return all;
}

void Caller::add_pending(const CellHandle& cell, std::int32_t argument_of, std::vector<wire::PendingResult>& to) {
  using Stage = wire::PendingResult::Stage;
  if (to.size() == kPendingMax) return;
  wire::PendingResult result{.argument_of = argument_of};
  const auto take = [&](bool sent, std::uint64_t number) {
    result.stage = sent ? Stage::kSent : Stage::kUnsent;
    result.function = cell->call().function;
    result.number = number;
  };
  for (actors::TaskPool* const pool : pools()) {
    const auto task = pool->find(*cell);
    if (!task) continue;
    take(static_cast<bool>(task->worker), task->number);
    result.worker = task->worker;
    result.amounts = pool->shape().demand.amounts.amounts();
  }
  for (const auto& actor : actors()) {
    const auto call = actor->calls()->find(*cell);
    if (!call) continue;
    take(call->sent, call->number);
    result.actor = actor->id();
    result.label = actor->label();
  }
  const auto missing = missing_arguments(*cell);
  if (!missing.empty()) {
    result.stage = Stage::kArguments;
    result.function = cell->call().function;
  }
  const auto place = static_cast<std::int32_t>(to.size());
  to.push_back(std::move(result));
  for (const CellHandle& argument : missing) add_pending(argument, place, to);
}

namespace {

std::string name_of_function(std::uint32_t function) {
  const auto table = actors::function_table();
  return function < table.size() ? actors::readable_name(table[function].name()) : std::string{"a function"};
}

}  // namespace

void Caller::explain(const wire::InspectedWorker& running, async::UniqueFunction<void(wire::Explained)> then) {
  wire::Explained explained{.pid = ::getpid()};
  if (running.function != wire::kNoFunction) {
    explained.function = name_of_function(running.function);
    explained.nanoseconds = running.nanoseconds;
  }
  if (pending_results().empty()) return then(std::move(explained));
  explain_waits([explained = std::move(explained), then = std::move(then)](std::string waits) mutable {
    explained.waits = std::move(waits);
    then(std::move(explained));
  });
}

void Caller::explain_waits(async::UniqueFunction<void(std::string)> then) {
  background_.spawn(ask_why(this, std::move(then)));
}

async::Async<void> Caller::ask_why(Caller* self, async::UniqueFunction<void(std::string)> then) {
  const auto deadline = async::Deadline::after(kAskTime, self->executor_.now());
  wire::Message ask = wire::Inspect{};
  auto answer = co_await self->node_->request(std::move(ask), std::vector<Fd>{}, deadline);
  const auto* const inspected = answer ? std::get_if<wire::Inspected>(&answer->message) : nullptr;
  then(actors::explain_waits(self->pending_results(), self->registered_.caller, inspected, &name_of_function));
}

}  // namespace pharos::detail
