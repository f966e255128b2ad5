#include "worker/workplace.hpp"

#include <unistd.h>

#include <chrono>
#include <map>
#include <utility>

#include <pharos/scheduler/resources.hpp>

#include "program/function_table.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::Function;

constexpr Duration kExitTime = 30s;  // for a call of exit_actor() to return
constexpr Duration kFlushDelayMax = 50us;

}  // namespace

Workplace::Workplace(const std::shared_ptr<Platform>& platform)
    : platform_{platform},
      flush_queue_{FlushQueue::make(*platform, kFlushDelayMax)},
      caller_{detail::Caller::make(platform, flush_queue_, OutgoingCalls::Side::kWorker)},
      executor_{*platform, strand_} {}

void Workplace::join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered) {
  node_ = std::move(node);
  worker_ = WorkerId{registered.caller.value()};  // a worker's number is its number as a caller, too
  caller_->join(node_, registered);
}

Context Workplace::context(const Instance& instance, const wire::WorkerResources& held) const {
  std::map<std::string, double> amounts;
  ByteCount memory;
  for (const auto& [name, amount] : held.amounts) {
    if (name == "memory") {
      memory = ByteCount{static_cast<std::uint64_t>(amount)};
    } else {
      amounts.emplace(name, static_cast<double>(amount) / scheduler::Resources::kWhole);
    }
  }
  const auto cpus = amounts.extract("cpu");
  amounts.erase("gpu");  // `gpus` has their names
  return {.job = caller_->job(),
          .node = caller_->node(),
          .worker = worker_,
          .actor = instance.actor,
          .incarnation = instance.incarnation,
          .restarted = instance.incarnation > 1,
          .name_space = instance.actor ? instance.name_space : to_string(caller_->job()),
          .cpus = cpus.empty() ? 0 : cpus.mapped(),
          .gpus = held.gpus,
          .memory = memory,
          .resources = std::move(amounts)};
}

namespace {
std::atomic<const Workplace*> actor_of_process = nullptr;  // publishes the workplace's instance_
}  // namespace

std::optional<Context> Workplace::context_of_process() {
  const Workplace* const place = actor_of_process.load(std::memory_order_acquire);
  // In a simulated cluster one real process holds several workers, and code runs for one of them.
  if (place == nullptr || place->caller_ != detail::caller_of_worker()) return std::nullopt;
  return place->context(place->instance_, place->instance_.holding);
}

Error Workplace::no_actor_to_exit() {
  return {ErrorCode::kFailedPrecondition, "exit_actor() was called outside of an actor's methods"};
}

Result<void> Workplace::exit_actor() {
  if (!instance_.actor) return no_actor_to_exit();
  if (stopping_.exchange(true)) return {};
  const auto grace = std::chrono::duration_cast<std::chrono::milliseconds>(kExitTime).count();
  caller_->line().tell(wire::KillActor{
      .actor = instance_.actor, .gently = true, .grace_ms = static_cast<std::uint32_t>(grace), .why = "ended itself"});
  return {};
}

void Workplace::take_actor(const Function& constructor, const wire::ConstructActor& actor) {
  instance_.constructor = &constructor;
  instance_.actor = actor.actor;
  instance_.incarnation = actor.incarnation;
  instance_.name_space = actor.name_space;
  instance_.holding = actor.holding;
  instance_.compute_threads = ComputeThreads::number_for(actor.holding);
  if (detail::caller_of_worker() == caller_) actor_of_process.store(this, std::memory_order_release);
}

void Workplace::note_begin(const Function& function, TimePoint since, CallerId caller, std::uint64_t number,
                           bool may_run_again) {
  runs_.since.store(since.time_since_epoch().count(), std::memory_order_relaxed);
  runs_.caller.store(caller.value(), std::memory_order_relaxed);
  runs_.number.store(number, std::memory_order_relaxed);
  runs_.may_run_again.store(may_run_again, std::memory_order_relaxed);
  runs_.function.store(&function, std::memory_order_release);
}

// Takes no lock, so if a call ends meanwhile, the answer may mix it with the next one. That is good enough for a look.
wire::Inspected Workplace::inspect() const {
  wire::InspectedWorker worker{.worker = worker_, .waits = caller_->pending_results().all()};
  if (const Function* const function = runs_.function.load(std::memory_order_acquire)) {
    worker.function = function_index(function->name());
    worker.nanoseconds = platform_->now().time_since_epoch().count() - runs_.since.load();
    worker.caller = CallerId{runs_.caller.load()};
    worker.number = runs_.number.load();
    worker.may_run_again = runs_.may_run_again.load();
  }
  wire::Inspected inspected;
  inspected.workers.push_back(std::move(worker));
  return inspected;
}

void Workplace::end_if_child() const {
  if (caller_->abandoned()) ::_exit(0);
}

bool Workplace::block() {
  if (blocked_.fetch_add(1) != 0) return false;
  node_->send(wire::WorkerBlocked{true});
  return true;
}

void Workplace::unblock() {
  if (blocked_.fetch_sub(1) == 1) node_->send(wire::WorkerBlocked{false});
}

}  // namespace pharos::actors
