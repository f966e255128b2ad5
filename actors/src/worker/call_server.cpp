#include "worker/call_server.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include <pharos/scheduler/resources.hpp>

#include "program/function_table.hpp"
#include "results/large_values.hpp"
#include "worker/guarded.hpp"
#include "worker/incoming_calls.hpp"
#include "worker/running.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::Function;
using detail::FunctionKind;

constexpr Duration kExitTime = 30s;    // for a call of exit_actor() to return
constexpr auto kBusyTime = 100ms;      // for a call that still runs when the grace is over
constexpr auto kGiveBackTime = 200ms;  // to return calls that are under way to an actor that moves
constexpr Duration kFlushDelayMax = 50us;
constexpr auto kReturnTime = 90s;    // for a remote caller to connect again; a node that is cut off is given up before
constexpr auto kHandOverTime = 10s;  // to take over what came with a reply, if the connection ends right after it

}  // namespace

CallServer::CallServer(const std::shared_ptr<Platform>& platform)
    : platform_{platform},
      flush_queue_{FlushQueue::make(*platform, kFlushDelayMax)},
      caller_{detail::Caller::make(platform, flush_queue_, OutgoingCalls::Side::kWorker)},
      executor_{*platform, strand_} {}

void CallServer::on_node_message(const std::shared_ptr<net::Peer>& node, net::Parcel parcel) {
  if (const auto* const caller = std::get_if<wire::ServeCaller>(&parcel.message)) {
    serve(*caller, std::move(parcel.descriptors.front()));
  } else if (const auto* const registered = std::get_if<wire::JobRegistered>(&parcel.message)) {
    join(node, *registered);
  } else if (auto* const actor = std::get_if<wire::ConstructActor>(&parcel.message)) {
    construct(std::move(*actor));
  } else {
    caller_->on_node_message(parcel.message);
  }
}

void CallServer::join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered) {
  node_ = node;
  worker_ = WorkerId{registered.caller.value()};  // a worker's number is its number as a caller, too
  caller_->join(std::move(node), registered);
}

Context CallServer::context(const Instance& instance, const wire::Holding& held) const {
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
std::atomic<const CallServer*> actor_of_process = nullptr;
}  // namespace

std::optional<Context> CallServer::context_of_process() {
  const CallServer* const calls = actor_of_process.load(std::memory_order_acquire);
  if (calls == nullptr) return std::nullopt;
  return calls->context(calls->instance_, calls->instance_.holding);
}

bool CallServer::stop(Duration grace) {
  async::Executor& executor = platform_->executor();
  if (!stopping()) begin_stop();
  if (grace != Duration{}) strand_.wait_until_idle(executor, async::Deadline::after(grace, executor));
  // During this time calls that arrive are returned to their callers, which then send nothing more.
  if (moves()) std::this_thread::sleep_for(kGiveBackTime);
  return strand_.stop(executor, async::Deadline::after(kBusyTime, executor), [this] { instance_.destroy(); });
}

Result<void> CallServer::exit_actor() {
  if (!instance_.actor) {
    return Error{ErrorCode::kFailedPrecondition, "exit_actor() was called outside of an actor's methods"};
  }
  if (stopping_.exchange(true)) return {};
  const auto grace = std::chrono::duration_cast<std::chrono::milliseconds>(kExitTime).count();
  caller_->tell_node(wire::KillActor{instance_.actor, {}, true, static_cast<std::uint32_t>(grace), "ended itself"});
  return {};
}

std::optional<Error> CallServer::run_constructor(const wire::ConstructActor& actor) {
  const auto functions = function_table();
  if (actor.constructor >= functions.size() || functions[actor.constructor].kind != FunctionKind::kConstructor) {
    return Error{ErrorCode::kFunctionNotFound, "the worker's executable does not have the actor's constructor",
                 "Caller and worker must be the same build."};
  }
  const Function& constructor = functions[actor.constructor];
  instance_.constructor = &constructor;
  instance_.actor = actor.actor;
  instance_.incarnation = actor.incarnation;
  instance_.name_space = actor.name_space;
  instance_.holding = actor.holding;
  if (detail::caller_of_worker() == caller_) actor_of_process.store(this, std::memory_order_release);
  note_begin(constructor, platform_->now(), CallerId{}, 0, false);
  Running running{*this, constructor, nullptr, 0, actor.trace, false};
  const UserCode inside{running, *platform_};
  const auto error = guarded(constructor, [&] {
    const std::uint8_t flags = actor.in_pieces ? wire::kInPieces : wire::kNoFlags;
    const Arrived arrived{caller_->large_values(), flags, actor.arguments, nullptr};
    Decoder arguments = arrived.decoder();
    instance_.object = constructor.construct(arguments);
  });
  end_if_child();
  note_end();
  if (!error) return std::nullopt;
  Error died =
      Error{ErrorCode::kActorDied, "the actor's constructor failed: " + error->story(), error->remedy()}.with_outcome(
          Outcome::kNotStarted);
  return error->thrown() ? std::move(died).with_thrown(*error->thrown()) : died;
}

void CallServer::construct(wire::ConstructActor actor) {
  executor_.post([this, actor = std::move(actor)] {
    node_->send(wire::ActorConstructed{actor.actor, actor.incarnation, run_constructor(actor)});
  });
}

void CallServer::serve(wire::ServeCaller caller, Fd socket) {
  std::shared_ptr<IncomingCalls> incoming;
  {
    const std::lock_guard lock{connections_mutex_};
    std::shared_ptr<RemoteCaller> remote;
    if (caller.remote && caller.actor) {
      auto& there = remote_callers_[caller.caller];
      if (there == nullptr) {
        const auto forgotten = forgotten_callers_.extract(caller.caller);
        there = std::make_shared<RemoteCaller>(caller.caller, forgotten.empty() ? 0 : forgotten.mapped());
      }
      remote = there;
    }
    incoming = std::make_shared<IncomingCalls>(*this, caller, std::move(remote));
    connections_.push_back(incoming);
  }
  incoming->start(platform_->make_call_link(std::move(socket)));
}

void CallServer::forget(const IncomingCalls& incoming) {
  std::shared_ptr<IncomingCalls> forgotten;  // destroyed after the lock is released
  const std::lock_guard lock{connections_mutex_};
  const auto found =
      std::find_if(connections_.begin(), connections_.end(), [&](const auto& each) { return each.get() == &incoming; });
  if (found == connections_.end()) return;
  forgotten = std::move(*found);
  connections_.erase(found);
  const auto& remote = incoming.remote();
  if (remote == nullptr) {
    forgotten->notes().cancel_suspended();
    if (!forgotten->keeps_for_caller()) return;
    return static_cast<void>(platform_->executor().run_at(platform_->now() + kHandOverTime, [forgotten] {}));
  }
  remote->last_here = platform_->now();
  platform_->executor().run_at(remote->last_here + kReturnTime,
                               [this, remote] { executor_.post([this, remote] { forget_if_away(remote); }); });
}

// On the strand, where the calls that this caller sent before have had their turn.
void CallServer::forget_if_away(const std::shared_ptr<RemoteCaller>& caller) {
  {
    const std::lock_guard lock{connections_mutex_};
    const bool here = std::any_of(connections_.begin(), connections_.end(),
                                  [&](const auto& each) { return each->remote() == caller; });
    if (here || platform_->now() < caller->last_here + kReturnTime) return;
    if (remote_callers_.erase(caller->id) == 0) return;
    forgotten_callers_.emplace(caller->id, caller->replies.next());
  }
  caller->notes.cancel_suspended();
  caller->handed_over.let_go_of_all();
}

void CallServer::end_suspended() {
  {
    const std::lock_guard lock{connections_mutex_};
    for (const auto& incoming : connections_) incoming->notes().cancel_suspended();
    for (const auto& [id, caller] : remote_callers_) caller->notes.cancel_suspended();
  }
  strand_.run_posted();
  instance_.destroy();  // the constructor may have run just now, in run_posted()
}

void CallServer::note_begin(const Function& function, TimePoint since, CallerId caller, std::uint64_t number,
                            bool may_run_again) {
  runs_.since.store(since.time_since_epoch().count(), std::memory_order_relaxed);
  runs_.caller.store(caller.value(), std::memory_order_relaxed);
  runs_.number.store(number, std::memory_order_relaxed);
  runs_.may_run_again.store(may_run_again, std::memory_order_relaxed);
  runs_.function.store(&function, std::memory_order_release);
}

// Takes no lock, so if a call ends meanwhile, the answer may mix it with the next one. That is good enough for a look.
wire::Inspected CallServer::inspect() const {
  wire::InspectedWorker worker{.worker = worker_, .waits = caller_->pending_results()};
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

void CallServer::end_if_child() const {
  if (caller_->abandoned()) ::_exit(0);
}

void CallServer::block(IncomingCalls& incoming) {
  if (blocked_.fetch_add(1) != 0) return;
  node_->send(wire::WorkerBlocked{true});
  incoming.give_back_rest();
  strand_.give_back_waiting();
}

void CallServer::unblock() {
  if (blocked_.fetch_sub(1) == 1) node_->send(wire::WorkerBlocked{false});
}

}  // namespace pharos::actors
