#include "caller/pending_results.hpp"

#include <unistd.h>

#include <chrono>

#include "program/function_table.hpp"
#include "program/wait_report.hpp"

namespace pharos::actors {
namespace {

constexpr std::size_t kPendingMax = 1000;  // results in one report
constexpr auto kAskTime = std::chrono::seconds{1};

}  // namespace

std::vector<wire::PendingResult> PendingResults::all() {
  std::vector<wire::PendingResult> all;
  for (const auto& wait : threads_.all()) {
    if (wait.cell->ready()) continue;
    const std::size_t place = all.size();
    add(wait.cell, -1, all);
    if (place == all.size()) break;
    all[place].thread = wait.thread;
    if (wait.inside != nullptr) all[place].inside = function_index(wait.inside);
  }
  return all;
}

void PendingResults::add(const detail::CellHandle& cell, std::int32_t argument_of,
                         std::vector<wire::PendingResult>& to) {
  using Stage = wire::PendingResult::Stage;
  if (to.size() == kPendingMax) return;
  wire::PendingResult result{.argument_of = argument_of};
  const auto take = [&](bool sent, std::uint64_t number) {
    result.stage = sent ? Stage::kSent : Stage::kUnsent;
    result.function = cell->call().function;
    result.number = number;
  };
  if (const auto task = tasks_.find(*cell)) {
    take(static_cast<bool>(task->in_pool.worker), task->in_pool.number);
    result.worker = task->in_pool.worker;
    result.amounts = task->shape.demand.amounts.amounts();
  }
  for (const auto& actor : actors_.all()) {
    const auto call = actor->calls()->find(*cell);
    if (!call) continue;
    take(call->sent, call->number);
    result.actor = actor->id();
    result.label = actor->label();
  }
  const auto missing = calls_.missing_arguments(*cell);
  if (!missing.empty()) {
    result.stage = Stage::kArguments;
    result.function = cell->call().function;
  }
  const auto place = static_cast<std::int32_t>(to.size());
  to.push_back(std::move(result));
  for (const detail::CellHandle& argument : missing) add(argument, place, to);
}

namespace {

std::string name_of_function(std::uint32_t function) {
  const auto table = function_table();
  return function < table.size() ? readable_name(table[function].name()) : std::string{"a function"};
}

}  // namespace

void PendingResults::explain(const wire::InspectedWorker& running, async::UniqueFunction<void(wire::Explained)> then) {
  wire::Explained explained{.pid = ::getpid()};
  if (running.function != wire::kNoFunction) {
    explained.function = name_of_function(running.function);
    explained.nanoseconds = running.nanoseconds;
  }
  if (all().empty()) return then(std::move(explained));
  explain([explained = std::move(explained), then = std::move(then)](std::string waits) mutable {
    explained.waits = std::move(waits);
    then(std::move(explained));
  });
}

void PendingResults::explain(async::UniqueFunction<void(std::string)> then) {
  line_.spawn(ask_why(std::move(then)));
}

async::Async<void> PendingResults::ask_why(async::UniqueFunction<void(std::string)> then) {
  const auto deadline = async::Deadline::after(kAskTime, line_.executor().now());
  wire::Message ask = wire::Inspect{};
  auto answer = co_await line_.request(std::move(ask), deadline);
  const auto* const inspected = answer ? std::get_if<wire::Inspected>(&answer->message) : nullptr;
  then(actors::explain_waits(all(), line_.registered().caller, inspected, &name_of_function));
}

}  // namespace pharos::actors
