#include "caller/caller.hpp"

#include <pthread.h>

#include <utility>
#include <vector>

#include <pharos/base/check.hpp>

#include "caller/refused.hpp"
#include "groups/reservation.hpp"
#include "results/large_values.hpp"

namespace pharos::detail {
namespace {

using actors::OutgoingCalls;

// All callers of this process that have not ended: a child of fork() must abandon them, and of() and home_of_newest()
// look there.
struct LiveCallers {
  std::mutex mutex;
  std::vector<Caller*> callers;
};
LiveCallers& live() {
  static auto* const instance = new LiveCallers;
  return *instance;
}

void add_live(Caller* caller) {
  static const int registered = ::pthread_atfork([] { live().mutex.lock(); }, [] { live().mutex.unlock(); },
                                                 [] {
                                                   for (Caller* const each : live().callers) each->abandon_after_fork();
                                                   live().callers.clear();
                                                   live().mutex.unlock();
                                                 });
  PHAROS_CHECK(registered == 0, registered);
  const std::lock_guard lock{live().mutex};
  live().callers.push_back(caller);
}

void remove_live(Caller* caller) {
  const std::lock_guard lock{live().mutex};
  std::erase(live().callers, caller);
}

}  // namespace

Caller::Caller(const std::shared_ptr<actors::Platform>& platform, std::shared_ptr<actors::FlushQueue> flush_queue,
               OutgoingCalls::Side side)
    : line_{std::make_shared<actors::NodeLine>(platform)},
      flush_queue_{std::move(flush_queue)},
      large_values_{std::make_shared<actors::LargeValues>(line_->executor())},
      room_{std::make_shared<actors::WaitingRoom>(
          *platform, [queue = flush_queue_.get()] { queue->flush_all(); }, [this](ResultCell& cell) { cancel(cell); },
          large_values_)},
      pending_{std::make_shared<actors::PendingCalls>(line_->executor(), room_, large_values_)},
      connector_{std::make_shared<actors::Connector>(
          platform, OutgoingCalls::Sender{.side = side,
                                          .numbers = std::make_shared<std::atomic<std::uint64_t>>(0),
                                          .clock = platform,
                                          .flush_queue = flush_queue_,
                                          .large_values = large_values_})},
      actors_{std::make_shared<actors::KnownActors>(line_, connector_, pending_)},
      lineage_{std::make_shared<actors::Lineage>(line_->executor(), *large_values_, [this] { return new_cell(); })},
      tasks_{std::make_shared<actors::TaskPools>(line_, connector_, lineage_)},
      pending_results_{*line_, room_->threads(), *pending_, *tasks_, *actors_} {}

std::shared_ptr<Caller> Caller::make(const std::shared_ptr<actors::Platform>& platform,
                                     std::shared_ptr<actors::FlushQueue> flush_queue, OutgoingCalls::Side side) {
  std::shared_ptr<Caller> caller{new Caller{platform, std::move(flush_queue), side}};
  caller->pending_->set_give_up([weak = std::weak_ptr{caller}](ResultCell& cell) {
    const auto self = weak.lock();
    return self != nullptr && self->give_up(cell);
  });
  add_live(caller.get());
  return caller;
}

Caller::~Caller() {
  remove_live(this);
}

void Caller::join(const std::shared_ptr<net::Peer>& node, const wire::JobRegistered& registered) {
  {
    const std::lock_guard lock{live().mutex};
    line_->join(node, registered);
  }
  connector_->join(registered.caller, actors_);
  large_values_->join(node, {registered.caller, registered.node});
  tasks_->join();
}

std::shared_ptr<GroupHandle> Caller::reserve(const GroupOptions& options) {
  return actors::reserve(line_, new_cell(), options);
}

CellHandle Caller::put(const Encoder& value) {
  if (value.failure() == CodecFailure::kNoRoom) throw_error(actors::not_encoded("a value", value));
  CellHandle cell = new_cell();
  ActorHandles actors = std::exchange(value.context()->actors, {});
  if (value.failed()) {
    cell->set_error(actors::not_encoded("a value", value));
  } else if (value.in_room()) {
    cell->set_object(actors::room_of(value).seal(), std::move(actors));
  } else {
    cell->set_value(value, std::move(actors));
  }
  return cell;
}

CellHandle Caller::submit(const TaskOptions& options, const RegisteredFunction& function, const Arguments& arguments) {
  CellHandle cell = new_cell();
  if (abandoned()) {
    cell->set_error(actors::forked());
    return cell;
  }
  if (auto refused = actors::not_in_table(function, options.retry_on)) {
    cell->set_error(std::move(*refused));
    return cell;
  }
  const auto pool = tasks_->pool_of(options);
  if (!pool) {
    cell->set_error(Error{pool.error()}.with_outcome(Outcome::kNotStarted));
    return cell;
  }
  const auto call = actors::PendingCalls::describe(function, options);
  const auto incomplete = pending_->prepare(cell, call, arguments);
  if (cell->ready()) return cell;
  if (auto group = options.group.handle()) {
    cell->call().keep(std::move(group));
    cell->call().keep(*pool);
  }
  if (!call.deadline.is_never()) pending_->give_up_at(call.deadline, cell);
  if (incomplete == nullptr) {
    const auto best = arguments.placeholders().empty() ? pool : tasks_->pool_near(options, arguments.placeholders());
    (best ? *best : *pool)->submit(cell);
    return cell;
  }
  pending_->complete_later(
      incomplete, [this, cell, options, &placeholders = incomplete->placeholders](std::optional<Error> missing) {
        if (missing) return cell->set_error(std::move(*missing));
        if (cell->ready()) return;  // the task was given up
        if (const auto best = tasks_->pool_near(options, placeholders)) {
          (*best)->submit(cell);
        } else {
          cell->set_error(Error{best.error()}.with_outcome(Outcome::kNotStarted));
        }
      });
  return cell;
}

void Caller::cancel(ResultCell& cell) {
  if (give_up(cell)) {
    cell.set_error(actors::cancelled(cell.call().function).with_outcome(cell.call().outcome_unsent()));
  } else if (cell.call().forced()) {
    tasks_->end_by_force(cell);
  }
}

bool Caller::give_up(ResultCell& cell) {
  // Before the search: the call may be moving from one place to another, and whoever takes it there sees this note.
  cell.call().note_cancelled();
  // Only a task that waits for arguments is given up with forget(). An actor's call that waits for them is in its
  // OutgoingCalls, too.
  const bool given_up = tasks_->cancel(cell) || pending_->forget(cell);
  return actors_->cancel(cell) || given_up;
}

bool Caller::on_node_message(const wire::Message& message) {
  if (large_values_->on_node_message(message)) return true;
  if (const auto* const lost = std::get_if<wire::IncarnationEnded>(&message)) {
    actors_->leave(*lost);
  } else if (const auto* const recalled = std::get_if<wire::RecallLeases>(&message)) {
    tasks_->give_back(*recalled);
  } else if (const auto* const ended = std::get_if<wire::WorkerEnded>(&message)) {
    tasks_->lose_worker(*ended);
  } else {
    return false;
  }
  return true;
}

void Caller::lose_everything(const Error& why) {
  line_->hang_up(why);
  actors_->lose_all(why);
  tasks_->close(why);
  pending_->fail_all(why);
}

void Caller::close() {
  lose_everything(actors::stopped());
}

void Caller::end() {
  remove_live(this);
  close();
  lineage_->end();
  large_values_->end();
  line_->end();
  room_->close();
  flush_queue_->close();
}

void Caller::abandon_after_fork() {
  line_->abandon();
  large_values_->abandon_after_fork();
  room_->abandon();
  line_->platform().abandon_after_fork();
}

std::shared_ptr<Caller> Caller::of(const CellHandle& result) {
  const std::lock_guard lock{live().mutex};
  for (Caller* const each : live().callers) {
    if (&result->room() == each->room_.get()) return each->weak_from_this().lock();
  }
  return nullptr;
}

std::optional<Home> Caller::home_of_newest() {
  if (const auto worker = caller_of_worker(); worker != nullptr && worker->job()) {
    return Home{worker->job(), worker->node()};
  }
  const std::lock_guard lock{live().mutex};
  for (auto caller = live().callers.rbegin(); caller != live().callers.rend(); ++caller) {
    const wire::JobRegistered& registered = (*caller)->line_->registered();
    if (registered.job) return Home{registered.job, registered.node};
  }
  return std::nullopt;
}

namespace {
std::shared_ptr<Caller> worker_caller;  // written once, before the worker runs any call
}  // namespace

std::shared_ptr<Caller> caller_of_worker() {
  return worker_caller;
}
void set_caller_of_worker(std::shared_ptr<Caller> caller) {
  worker_caller = std::move(caller);
}

}  // namespace pharos::detail
