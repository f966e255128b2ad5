#include "caller/actor_handle.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/exceptions.hpp>

#include "caller/refused.hpp"
#include "results/carried_actors.hpp"

namespace pharos::detail {

using namespace std::chrono_literals;
using actors::OutgoingCalls;

std::shared_ptr<ActorHandle> ActorHandle::make(const std::shared_ptr<Owner>& owner, ActorId id, std::string label) {
  std::shared_ptr<ActorHandle> actor{new ActorHandle{owner, id, std::move(label)}};
  actor->calls_ = owner->open_calls(actor);
  return actor;
}

ActorHandle::ActorHandle(const std::shared_ptr<Owner>& owner, ActorId id, std::string label)
    : owner_{owner}, id_{id}, label_{std::move(label)} {}

CellHandle ActorHandle::call(const CallOptions& options, const RegisteredFunction& function, const Arguments& arguments,
                             OutgoingCalls::WhenFull when_full) {
  return start(options, function, arguments, {.when_full = when_full});
}

CellHandle ActorHandle::call_foreign(const CallOptions& options, const RegisteredFunction& function,
                                     std::uint32_t index, const Arguments& arguments) {
  return start(options, function, arguments, {.index_there = index});
}

void ActorHandle::send(const CallOptions& options, const RegisteredFunction& function, const Arguments& arguments) {
  start(options, function, arguments, {.one_way = true});
}

void ActorHandle::send_foreign(const CallOptions& options, const RegisteredFunction& function, std::uint32_t index,
                               const Arguments& arguments) {
  start(options, function, arguments, {.one_way = true, .index_there = index});
}

// A call whose arguments are not complete goes to the OutgoingCalls at once, to keep its place in the order; an
// unordered call only when they are.
CellHandle ActorHandle::start(const CallOptions& options, const RegisteredFunction& function,
                              const Arguments& arguments, const Sending& how) {
  const auto owner = owner_.lock();
  if (owner == nullptr) throw_error(actors::stopped());
  actors::PendingCalls& pending = owner->pending_calls();
  CellHandle cell = pending.new_cell();
  if (owner->line().abandoned()) {
    cell->set_error(actors::forked());
    return cell;
  }
  if (auto refused = actors::not_in_table(function, options.retry_on)) {
    cell->set_error(std::move(*refused));
    return cell;
  }
  if (how.index_there && options.retry_on.registered() != nullptr) {
    cell->set_error(actors::no_types_there());
    return cell;
  }
  auto call = actors::PendingCalls::describe(function, options);
  call.unordered = options.unordered;
  call.one_way = how.one_way;
  call.foreign = how.index_there.has_value();
  call.index_there = how.index_there.value_or(0);
  const auto incomplete = pending.prepare(cell, call, arguments);
  if (cell->ready()) return cell;
  if (incomplete != nullptr && options.unordered) {
    if (how.when_full == OutgoingCalls::WhenFull::kRefuse && calls_->refuses()) return {};
    if (!call.deadline.is_never()) pending.give_up_at(call.deadline, cell);
    pending.complete_later(incomplete, [cell, calls = calls_](std::optional<Error> missing) mutable {
      if (missing) return cell->set_error(std::move(*missing));
      if (!cell->ready()) calls->send(std::move(cell), OutgoingCalls::WhenFull::kHold);  // ready: it was given up
    });
    return cell;
  }
  if (!calls_->send(cell, how.when_full)) return {};
  // Only after send(): while this thread waits for room there, OutgoingCalls itself looks at the deadline.
  if (!call.deadline.is_never()) pending.give_up_at(call.deadline, cell);
  if (incomplete == nullptr) return cell;
  pending.complete_later(incomplete, [cell, calls = calls_](std::optional<Error> missing) {
    if (missing) {
      if (!calls->cancel(*cell)) return;  // the call was lost or cancelled
      cell->set_error(std::move(*missing));
    }
    calls->advance();
  });
  return cell;
}

std::shared_ptr<actors::LargeValues> ActorHandle::large_values() const {
  const auto owner = owner_.lock();
  return owner == nullptr ? nullptr : owner->pending_calls().large_values().shared_from_this();
}

void ActorHandle::stop(Duration grace) {
  const auto owner = owner_.lock();
  if (owner == nullptr || owner->line().abandoned() || ended_.load()) return;
  const auto most = std::chrono::milliseconds{std::numeric_limits<std::uint32_t>::max()};
  const auto milliseconds = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(grace), 1ms, most);
  owner->line().tell(wire::KillActor{id_, {}, true, static_cast<std::uint32_t>(milliseconds.count())});
}

void ActorHandle::kill(const std::optional<Error>& why) {
  const auto owner = owner_.lock();
  if (owner == nullptr || owner->line().abandoned() || ended_.exchange(true)) return;
  owner->line().tell(wire::KillActor{id_});
  owner->lose_actor(*this, why ? *why
                               : Error{ErrorCode::kActorDied, "actor \"" + label_ + "\" was killed by this program",
                                       "Spawn another actor if one is still needed."});
}

CellHandle ActorHandle::loss() {
  const auto owner = owner_.lock();
  const std::lock_guard lock{mutex_};
  if (!loss_) {
    if (owner == nullptr) throw_error(actors::stopped());
    loss_ = owner->pending_calls().new_cell();
    if (lost_) loss_->set_error(*lost_);
  }
  return loss_;
}

Error ActorHandle::note_loss(const Error& why) {
  CellHandle waiting;
  Error first = why;
  {
    const std::lock_guard lock{mutex_};
    if (!lost_) lost_ = why;
    first = *lost_;
    waiting = loss_;
  }
  if (waiting && !waiting->ready()) waiting->set_error(first);
  return first;
}

std::shared_ptr<ActorHandle> ActorHandle::share() {
  shares_.fetch_add(1);
  return {this, [self = shared_from_this()](ActorHandle*) {
            if (self->shares_.fetch_sub(1) == 1) self->let_go_if_done();
          }};
}

void ActorHandle::let_go_if_done() {
  if (shares_.load() != 0 || calls_->in_flight() != 0) return;
  const auto owner = owner_.lock();
  if (owner == nullptr || owner->line().abandoned() || ended_.exchange(true)) return;
  owner->let_go(*this);
}

void ActorHandle::on_replies(OutgoingCalls&, std::size_t, Duration, std::size_t in_flight) {
  if (in_flight == 0 && shares_.load() == 0) let_go_if_done();
}

// The incarnation that returns these calls ends, and another one will follow.
void ActorHandle::on_returned(OutgoingCalls& calls, std::vector<CellHandle> cells, bool) {
  calls.hold_for_next(std::move(cells));
}

void ActorHandle::on_disconnected(OutgoingCalls&) {
  const auto owner = owner_.lock();
  if (owner != nullptr && !ended_.load()) owner->actor_disconnected(shared_from_this());
}

// ---- Functions that the public templates call

CellHandle call_actor(const ActorHandle& actor, const CallOptions& options, const RegisteredFunction& function,
                      Arguments& arguments) {
  CellHandle cell = const_cast<ActorHandle&>(actor).call(options, function, arguments);
  arguments.let_go();
  return cell;
}
void send_to_actor(const ActorHandle& actor, const CallOptions& options, const RegisteredFunction& function,
                   Arguments& arguments) {
  const_cast<ActorHandle&>(actor).send(options, function, arguments);
  arguments.let_go();
}
Result<CellHandle> try_call_actor(const ActorHandle& actor, const CallOptions& options,
                                  const RegisteredFunction& function, Arguments& arguments) {
  CellHandle cell =
      const_cast<ActorHandle&>(actor).call(options, function, arguments, OutgoingCalls::WhenFull::kRefuse);
  arguments.let_go();
  if (cell) return cell;
  return Error{ErrorCode::kOverloaded,
               "actor \"" + actor.label() + "\" has not read the earlier calls, and its queue is full",
               "Try again after a pause, or get() some of their results first."}
      .with_outcome(Outcome::kNotStarted);
}
void kill_actor(const ActorHandle& actor) {
  const_cast<ActorHandle&>(actor).kill();
}
void stop_actor(const ActorHandle& actor, Duration grace) {
  const_cast<ActorHandle&>(actor).stop(grace);
}
ActorId id_of(const ActorHandle& actor) {
  return actor.id();
}

}  // namespace pharos::detail

namespace pharos::actors {

CarriedActor carried(const detail::ActorHandle& actor) {
  return {actor.id(), actor.label()};
}

}  // namespace pharos::actors
