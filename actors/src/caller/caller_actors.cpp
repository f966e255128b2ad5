#include <chrono>
#include <utility>

#include <pharos/async/block_on.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/base/random.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/resources.hpp>

#include "caller/caller.hpp"
#include "caller/refused.hpp"
#include "caller/shape.hpp"
#include "program/function_table.hpp"
#include "results/inherited_context.hpp"

// The part of Caller that makes actors, finds them and connects to them.

namespace pharos::detail {
namespace {

using actors::OutgoingCalls;

using namespace std::chrono_literals;

constexpr ByteCount kConstructionBytesMax{std::uint64_t{3} << 20};  // constructor's arguments in a control message
constexpr auto kUnreachableTime = 200ms;                            // pause before an actor is connected to again

Result<void> check_names(const std::string& name, const std::string& name_space) {
  PHAROS_TRY_VOID(scheduler::check_name(name));
  return scheduler::check_name(name_space);
}

}  // namespace

std::vector<std::shared_ptr<ActorHandle>> Caller::actors() {
  std::vector<std::shared_ptr<ActorHandle>> all;
  const std::lock_guard lock{mutex_};
  for (const auto& [id, actor] : actors_) all.push_back(actor);
  return all;
}

std::shared_ptr<ActorHandle> Caller::spawn(const ActorOptions& options, const char* type_name,
                                           const RegisteredFunction& constructor, const Arguments& arguments,
                                           const std::string& label_given) {
  if (abandoned()) throw_error(actors::forked());
  if (constructor.index == RegisteredFunction::kNoIndex) throw_error(actors::not_in_table(constructor.function));
  if (const auto named = check_names(options.name, options.name_space); !named) {
    throw_error(Error{named.error()}.with("making an actor"));
  }
  const auto shape = actors::Shape::of(options);
  if (!shape) throw_error(Error{shape.error()}.with("making an actor"));
  const std::string name_space = options.name_space.empty() ? to_string(registered_.job) : options.name_space;
  const std::string& name = label_given.empty() ? options.name : label_given;
  const std::string label = name.empty() ? actors::readable_name(type_name) : name;
  const wire::PromiseActor promise{.actor = ActorId{random_u64()},
                                   .label = label,
                                   .name_space = name_space,
                                   .name = options.name,
                                   .type = type_name,
                                   .max_restarts = options.max_restarts,
                                   .detached = options.detached,
                                   .get_if_exists = options.get_if_exists};
  std::optional<Error> refused;
  if (options.get_if_exists && !options.name.empty()) {
    const auto found = ask_for_actor(promise);
    if (found && found->actor != promise.actor) return adopt(found->actor, found->label, true);
    if (!found) refused = found.error();
  }
  auto actor = ActorHandle::make(shared_from_this(), promise.actor, label);
  {
    const std::lock_guard lock{mutex_};
    actors_.emplace(actor->id(), actor);
  }
  actor->keep_group(options.group.handle());
  auto shared = actor->share();
  wire::StartActor start{.actor = actor->id(),
                         .label = label,
                         .constructor = constructor.index,
                         .arguments = {},
                         .name_space = name_space,
                         .name = options.name,
                         .type = type_name,
                         .max_restarts = options.max_restarts,
                         .detached = options.detached,
                         .max_task_retries = options.max_task_retries,
                         .demand = shape->to_wire(),
                         .trace = actors::InheritedContext::of_new_call().trace,
                         .exclusive = options.exclusive,
                         .leaves = options.leave_on_drain};
  start.demand.group = options.group.id();
  start.demand.bundle = options.bundle;
  if (refused) {
    lose_actor(*actor, *refused);
    return shared;
  }
  // This cell stands for the constructor's call; it has the arguments.
  const CellHandle cell = new_cell();
  const auto incomplete = prepare(cell, {}, arguments);
  const auto begin = [this, actor, cell, start = std::move(start)](std::optional<Error> missing) mutable {
    if (missing) {
      if (const auto why = over()) return lose_actor(*actor, *why);
      const Error why{ErrorCode::kActorDied, "actor \"" + actor->label() + "\" could not be made: " + missing->story(),
                      missing->remedy()};
      tell_node(wire::BreakPromise{actor->id(), why});
      return lose_actor(*actor, why);
    }
    const auto bytes = cell->arguments();
    start.arguments.assign(bytes.begin(), bytes.end());
    start.in_pieces = (cell->call().flags & wire::kInPieces) != 0;
    if (start.in_pieces) {
      // The actor may be placed on another machine, which does not reach this machine's object store. So arguments that
      // are small enough are sent in the message.
      auto all = large_values_->in_one_piece(bytes, kConstructionBytesMax);
      if (all) {
        start.arguments = *std::move(all);
        start.in_pieces = false;
      }
    }
    actor->keep_construction(cell);
    background_.spawn(start_actor(this, std::move(actor), std::move(start)));
  };
  if (incomplete != nullptr) {
    tell_node(promise);
    complete_later(incomplete, begin);
  } else {
    auto now = begin;
    now(cell->ready() ? std::optional{cell.wait(Deadline::never()).error()} : std::nullopt);
  }
  return shared;
}

async::Async<void> Caller::start_actor(Caller* self, std::shared_ptr<ActorHandle> actor, wire::StartActor start) {
  // Without a deadline: the constructor may take any time.
  wire::Message ask = std::move(start);
  auto answer = co_await self->node_->request(std::move(ask), std::vector<Fd>{}, async::Deadline::never());
  self->take_answer(actor, std::move(answer));
}

Result<std::shared_ptr<ActorHandle>> Caller::find_actor(const std::string& name, const std::string& name_space,
                                                        const char* type_name) {
  if (abandoned()) return actors::forked();
  PHAROS_TRY_VOID(check_names(name, name_space));
  const wire::FindActor find{name_space.empty() ? to_string(registered_.job) : name_space, name, type_name};
  PHAROS_TRY(const wire::ActorFound found, ask_for_actor(find));
  return adopt(found.actor, found.label, true);
}

// Not to be called on the strand.
Result<wire::ActorFound> Caller::ask_for_actor(wire::Message ask) {
  if (const auto why = over()) return *why;
  return async::block_on(executor_, request_actor(this, std::move(ask)));
}

async::Async<Result<wire::ActorFound>> Caller::request_actor(Caller* self, wire::Message ask) {
  PHAROS_CO_TRY(const net::Parcel answer,
                co_await self->node_->request(std::move(ask), std::vector<Fd>{}, async::Deadline::never()));
  const auto* const found = std::get_if<wire::ActorFound>(&answer.message);
  if (found == nullptr)
    co_return Error{ErrorCode::kInternal, "the node answered the request for an actor with an unexpected message"};
  co_return *found;
}

std::shared_ptr<ActorHandle> Caller::adopt(ActorId id, const std::string& label, bool held) {
  std::shared_ptr<ActorHandle> actor;
  bool known = true;
  {
    const std::lock_guard lock{mutex_};
    const auto found = actors_.find(id);
    known = found != actors_.end();
    actor = known ? found->second : ActorHandle::make(shared_from_this(), id, label);
    if (!known) actors_.emplace(id, actor);
  }
  auto shared = actor->share();
  // The node counts one hold for this process, however many handles it has.
  if (known && held) tell_node(wire::HoldActor{id, -1});
  if (!known && !held) tell_node(wire::HoldActor{id, 1});
  if (!known) background_.spawn(connect_actor(this, actor, 0));
  return shared;
}

// The actor lives, as far as the head knows, so it may be reached later.
async::Async<void> Caller::connect_actor_later(Caller* self, std::shared_ptr<ActorHandle> actor) {
  const auto slept = co_await async::sleep(kUnreachableTime);
  if (slept && !actor->calls()->lost()) self->actor_disconnected(std::move(actor));
}

async::Async<void> Caller::connect_actor(Caller* self, std::shared_ptr<ActorHandle> actor, std::uint32_t seen) {
  wire::Message ask = wire::ConnectActor{actor->id(), seen};
  auto answer = co_await self->node_->request(std::move(ask), std::vector<Fd>{}, async::Deadline::never());
  self->take_answer(actor, std::move(answer));
}

void Caller::take_answer(const std::shared_ptr<ActorHandle>& actor, Result<net::Parcel> answer) {
  if (answer) return connect_worker(*actor->calls(), *std::move(answer), "actor \"" + actor->label() + '"');
  const Error& cause = answer.error();
  if (const auto why = over()) return lose_actor(*actor, *why);
  if (cause.code() == ErrorCode::kUnavailable) {
    actor->calls()->fail(
        {cause.code(), "actor \"" + actor->label() + "\" cannot be reached: " + cause.message(), cause.remedy()});
    return background_.spawn(connect_actor_later(this, actor));
  }
  const bool told = cause.code() == ErrorCode::kActorDied || cause.code() == ErrorCode::kAlreadyExists ||
                    cause.code() == ErrorCode::kInvalidArgument || cause.code() == ErrorCode::kFailedPrecondition ||
                    cause.code() == ErrorCode::kExhausted;
  lose_actor(*actor,
             told ? cause
                  : Error{ErrorCode::kActorDied,
                          "actor \"" + actor->label() + "\" cannot be reached: " + cause.message(), cause.remedy()});
}

void Caller::connect_worker(OutgoingCalls& calls, net::Parcel parcel, const std::string& whose) {
  const auto* const ready = std::get_if<wire::WorkerReady>(&parcel.message);
  if (ready == nullptr)
    return calls.lose(
        Error{ErrorCode::kInternal, "the node answered the request for a worker with an unexpected message"});
  const std::string how = ready->ended.empty() ? " lost its connection while the call was under way"
                                               : " was restarted while the call was under way: " + ready->ended;
  calls.connect(
      platform_->make_call_link(std::move(parcel.descriptors.front())),
      {ready->actor, ready->incarnation, ready->max_task_retries, ready->remote},
      Error{ready->out_of_memory ? ErrorCode::kExhausted : ErrorCode::kActorDied, whose + how,
            ready->out_of_memory ? scheduler::kMemoryRemedy : "If its calls may run twice, give it max_task_retries."});
}

// The node knows whether the actor has ended or will restart.
void Caller::actor_disconnected(std::shared_ptr<ActorHandle> actor) {
  const std::uint32_t seen = actor->calls()->incarnation();
  background_.spawn(connect_actor(this, std::move(actor), seen));
}

// The head has lost the actor's node. This process may still reach the old incarnation, but another one will follow.
void Caller::leave(const wire::IncarnationEnded& ended) {
  std::shared_ptr<ActorHandle> actor;
  {
    const std::lock_guard lock{mutex_};
    const auto found = actors_.find(ended.actor);
    if (found == actors_.end()) return;
    actor = found->second;
  }
  actor->calls()->leave(ended.incarnation);
}

void Caller::let_go(ActorHandle& actor) {
  tell_node(wire::HoldActor{actor.id(), -1});
  lose_actor(actor, Error{ErrorCode::kActorDied, "this program has let go of actor \"" + actor.label() + "\"",
                          "Keep a handle of the actor as long as the actor is needed."});
}

void Caller::lose_actor(ActorHandle& actor, const Error& why) {
  {
    const std::lock_guard lock{mutex_};
    actors_.erase(actor.id());
  }
  // note_loss() comes first and keeps the first reason: its callbacks may kill what is left of the actor, and that must
  // not become the reason for which the calls fail.
  actor.calls()->lose(actor.note_loss(why));
}

}  // namespace pharos::detail
