#include "caller/known_actors.hpp"

#include <chrono>
#include <utility>

#include <pharos/async/block_on.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/base/check.hpp>
#include <pharos/base/random.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/resources.hpp>

#include "caller/refused.hpp"
#include "caller/shape.hpp"
#include "program/function_table.hpp"
#include "results/inherited_context.hpp"

namespace pharos::actors {
namespace {

using detail::ActorHandle;
using detail::Arguments;
using detail::CellHandle;
using detail::Placeholder;
using detail::RegisteredFunction;
using detail::ResultCell;
using namespace std::chrono_literals;

constexpr ByteCount kConstructionBytesMax{std::uint64_t{3} << 20};  // constructor's arguments in a control message
constexpr auto kUnreachableTime = 200ms;                            // pause before an actor is connected to again

Result<void> check_names(const std::string& name, const std::string& name_space) {
  PHAROS_TRY_VOID(scheduler::check_name(name));
  return scheduler::check_name(name_space);
}

}  // namespace

std::vector<std::shared_ptr<ActorHandle>> KnownActors::all() {
  std::vector<std::shared_ptr<ActorHandle>> all;
  const std::lock_guard lock{mutex_};
  for (const auto& [id, actor] : actors_) all.push_back(actor);
  return all;
}

std::shared_ptr<ActorHandle> KnownActors::spawn(const ActorOptions& options, const char* type_name,
                                                const RegisteredFunction& constructor, const Arguments& arguments,
                                                const std::string& label_given) {
  if (line_->abandoned()) throw_error(forked());
  if (constructor.index == RegisteredFunction::kNoIndex) throw_error(not_in_table(constructor.function));
  if (const auto named = check_names(options.name, options.name_space); !named) {
    throw_error(Error{named.error()}.with("making an actor"));
  }
  const auto shape = Shape::of(options);
  if (!shape) throw_error(Error{shape.error()}.with("making an actor"));
  const std::string name_space = name_space_of(options.name_space);
  const std::string& name = label_given.empty() ? options.name : label_given;
  const std::string label = name.empty() ? readable_name(type_name) : name;
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
                         .trace = InheritedContext::of_new_call().trace,
                         .exclusive = options.exclusive,
                         .leaves = options.leave_on_drain};
  if (refused) {
    lose_actor(*actor, *refused);
    return shared;
  }
  const auto go_near = [here = line_->registered().node](wire::Demand& demand,
                                                         const std::vector<Placeholder>& placeholders) {
    if (!demand.near && !demand.only && !demand.spread && !demand.group && demand.prefer.empty()) {
      demand.near = PendingCalls::worth_going_to(placeholders, here);
    }
  };
  // This cell stands for the constructor's call; it has the arguments.
  const CellHandle cell = pending_->new_cell();
  const auto incomplete = pending_->prepare(cell, {}, arguments);
  if (incomplete == nullptr) {
    go_near(start.demand, arguments.placeholders());
    construct(actor, cell, std::move(start),
              cell->ready() ? std::optional{cell.wait(Deadline::never()).error()} : std::nullopt);
    return shared;
  }
  line_->tell(promise);
  pending_->complete_later(incomplete,
                           [this, actor, cell, start = std::move(start), go_near,
                            &placeholders = incomplete->placeholders](std::optional<Error> missing) mutable {
                             go_near(start.demand, placeholders);
                             construct(actor, cell, std::move(start), std::move(missing));
                           });
  return shared;
}

std::string KnownActors::name_space_of(const std::string& given) const {
  return given.empty() ? to_string(line_->registered().job) : given;
}

/// The constructor's arguments are complete, or one of them is missing.
void KnownActors::construct(const std::shared_ptr<ActorHandle>& actor, const CellHandle& construction,
                            wire::StartActor start, std::optional<Error> missing) {
  if (missing) {
    if (const auto why = line_->over()) return lose_actor(*actor, *why);
    const Error why{ErrorCode::kActorDied, "actor \"" + actor->label() + "\" could not be made: " + missing->story(),
                    missing->remedy()};
    line_->tell(wire::BreakPromise{actor->id(), why});
    return lose_actor(*actor, why);
  }
  const auto bytes = construction->arguments();
  start.arguments.assign(bytes.begin(), bytes.end());
  start.in_pieces = (construction->call().flags & wire::kInPieces) != 0;
  if (start.in_pieces) {
    // The actor may be placed on another machine, which does not reach this machine's object store. So arguments that
    // are small enough are sent in the message.
    auto all = pending_->large_values().in_one_piece(bytes, kConstructionBytesMax);
    if (all) {
      start.arguments = *std::move(all);
      start.in_pieces = false;
    }
  }
  actor->keep_construction(construction);
  line_->spawn(start_actor(actor, std::move(start)));
}

async::Async<void> KnownActors::start_actor(std::shared_ptr<ActorHandle> actor, wire::StartActor start) {
  // Without a deadline: the constructor may take any time.
  wire::Message ask = std::move(start);
  auto answer = co_await line_->request(std::move(ask));
  take_answer(actor, std::move(answer));
}

Result<std::shared_ptr<ActorHandle>> KnownActors::find(const std::string& name, const std::string& name_space,
                                                       const char* type_name) {
  if (line_->abandoned()) return forked();
  PHAROS_TRY_VOID(check_names(name, name_space));
  const wire::FindActor find{name_space_of(name_space), name, type_name};
  PHAROS_TRY(const wire::ActorFound found, ask_for_actor(find));
  return adopt(found.actor, found.label, true);
}

// Not to be called on the strand.
Result<wire::ActorFound> KnownActors::ask_for_actor(wire::Message ask) {
  if (const auto why = line_->over()) return *why;
  return async::block_on(line_->executor(), request_actor(std::move(ask)));
}

async::Async<Result<wire::ActorFound>> KnownActors::request_actor(wire::Message ask) {
  PHAROS_CO_TRY(const net::Parcel answer, co_await line_->request(std::move(ask)));
  const auto* const found = std::get_if<wire::ActorFound>(&answer.message);
  if (found == nullptr)
    co_return Error{ErrorCode::kInternal, "the node answered the request for an actor with an unexpected message"};
  co_return *found;
}

std::shared_ptr<ActorHandle> KnownActors::adopt(ActorId id, const std::string& label, bool held) {
  std::shared_ptr<ActorHandle> actor;
  bool known = true;
  std::uint64_t number = 0;  // of the hold
  {
    const std::lock_guard lock{mutex_};
    const auto found = actors_.find(id);
    known = found != actors_.end();
    actor = known ? found->second : ActorHandle::make(shared_from_this(), id, label);
    if (!known) actors_.emplace(id, actor);
    // Inside the lock: a thread that finds the actor known must wait for this hold, too.
    if (!known && !held) number = holds_.add();
  }
  auto shared = actor->share();
  // The node counts one hold for this process, however many handles it has.
  if (known && held) line_->tell(wire::HoldActor{id, -1});
  if (!known && !held) line_->spawn(hold(id, number));
  if (!known) line_->spawn(connect_actor(actor, 0));
  return shared;
}

// Whatever the answer, there is nothing more to wait for: a request fails only when this process has lost its node.
async::Async<void> KnownActors::hold(ActorId actor, std::uint64_t number) {
  static_cast<void>(co_await line_->request(wire::HoldActor{actor, 1}));
  holds_.counted(number);
}

void KnownActors::wait_for_holds() {
  async::Completion<void> counted;
  holds_.when_counted([counted]() mutable { counted.complete(); });
  const auto waited = async::block_on(line_->executor(), counted.wait(async::Deadline::never()));
  PHAROS_CHECK(waited.ok(), waited.error());
}

// The node is told of this process's shares in objects by NodeLine::tell().
void KnownActors::when_held(async::Callback then) {
  holds_.when_counted([line = line_, then = std::move(then)]() mutable { line->after_telling(std::move(then)); });
}

// The actor lives, as far as the head knows, so it may be reached later.
async::Async<void> KnownActors::connect_actor_later(std::shared_ptr<ActorHandle> actor) {
  const auto slept = co_await async::sleep(kUnreachableTime);
  if (slept && !actor->calls()->lost()) actor_disconnected(std::move(actor));
}

async::Async<void> KnownActors::connect_actor(std::shared_ptr<ActorHandle> actor, std::uint32_t seen) {
  wire::Message ask = wire::ConnectActor{actor->id(), seen};
  auto answer = co_await line_->request(std::move(ask));
  take_answer(actor, std::move(answer));
}

void KnownActors::take_answer(const std::shared_ptr<ActorHandle>& actor, Result<net::Parcel> answer) {
  if (answer) return connector_->connect(*actor->calls(), *std::move(answer), "actor \"" + actor->label() + '"');
  const Error& cause = answer.error();
  if (const auto why = line_->over()) return lose_actor(*actor, *why);
  if (cause.code() == ErrorCode::kUnavailable) {
    actor->calls()->fail(
        {cause.code(), "actor \"" + actor->label() + "\" cannot be reached: " + cause.message(), cause.remedy()});
    return line_->spawn(connect_actor_later(actor));
  }
  const bool told = cause.code() == ErrorCode::kActorDied || cause.code() == ErrorCode::kAlreadyExists ||
                    cause.code() == ErrorCode::kInvalidArgument || cause.code() == ErrorCode::kFailedPrecondition ||
                    cause.code() == ErrorCode::kExhausted;
  lose_actor(*actor,
             told ? cause
                  : Error{ErrorCode::kActorDied,
                          "actor \"" + actor->label() + "\" cannot be reached: " + cause.message(), cause.remedy()});
}

// The node knows whether the actor has ended or will restart.
void KnownActors::actor_disconnected(std::shared_ptr<ActorHandle> actor) {
  const std::uint32_t seen = actor->calls()->incarnation();
  line_->spawn(connect_actor(std::move(actor), seen));
}

void KnownActors::leave(const wire::IncarnationEnded& ended) {
  std::shared_ptr<ActorHandle> actor;
  {
    const std::lock_guard lock{mutex_};
    const auto found = actors_.find(ended.actor);
    if (found == actors_.end()) return;
    actor = found->second;
  }
  actor->calls()->leave(ended.incarnation);
}

bool KnownActors::cancel(ResultCell& cell) {
  bool given_up = false;
  for (const auto& actor : all()) {
    if (!actor->calls()->cancel(cell)) continue;
    given_up = true;
    actor->calls()->advance();
  }
  return given_up;
}

void KnownActors::lose_all(const Error& why) {
  std::unordered_map<ActorId, std::shared_ptr<ActorHandle>> actors;
  {
    const std::lock_guard lock{mutex_};
    actors.swap(actors_);
  }
  for (const auto& [id, actor] : actors) {
    static_cast<void>(actor->note_loss(why));
    actor->calls()->lose(why);
  }
}

void KnownActors::let_go(ActorHandle& actor) {
  line_->tell(wire::HoldActor{actor.id(), -1});
  lose_actor(actor, Error{ErrorCode::kActorDied, "this program has let go of actor \"" + actor.label() + "\"",
                          "Keep a handle of the actor as long as the actor is needed."});
}

void KnownActors::lose_actor(ActorHandle& actor, const Error& why) {
  {
    const std::lock_guard lock{mutex_};
    actors_.erase(actor.id());
  }
  // note_loss() comes first and keeps the first reason: its callbacks may kill what is left of the actor, and that must
  // not become the reason for which the calls fail.
  actor.calls()->lose(actor.note_loss(why));
}

}  // namespace pharos::actors
