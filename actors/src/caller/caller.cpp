#include "caller/caller.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include <pharos/async/block_on.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/scheduler/resources.hpp>

#include "caller/argument_filler.hpp"
#include "caller/refused.hpp"
#include "program/function_table.hpp"
#include "program/thread_state.hpp"
#include "results/inherited_context.hpp"
#include "worker/running_call.hpp"

namespace pharos::detail {
namespace {

using namespace std::chrono_literals;
using actors::OutgoingCalls;

constexpr auto kReasonTime = 1s;  // for the node to say why a worker ended
constexpr auto kTendTime = 20ms;
constexpr auto kEndTime = 10s;
constexpr const char* kRunAgain = "If the task may run twice, give it max_retries.";
// A task prefers the node that has most bytes of its arguments if that node has at least this much more than this one.
constexpr std::size_t kWorthGoingMin = std::size_t{1} << 20;
constexpr std::size_t kShapesMax = 256;  // different shapes of tasks, besides the default

// All callers of this process that have not ended: a child of fork() must abandon them, and home_of_newest() looks
// there.
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

// Returns what a call needs and the table does not have: its function, or its list of exception types.
const Function* not_in_table(const RegisteredFunction& function, const ExceptionTypes& retry_on) {
  if (function.index == RegisteredFunction::kNoIndex) return &function.function;
  const auto* const types = retry_on.registered();
  return types != nullptr && types->index == RegisteredFunction::kNoIndex ? &types->function : nullptr;
}

/// The name of the function that brings this result.
std::string name_of(ResultCell& cell) {
  return actors::readable_name(actors::function_table()[cell.call().function].name());
}

}  // namespace

// ---- ActorHandle

std::shared_ptr<ActorHandle> ActorHandle::make(const std::shared_ptr<Caller>& caller, ActorId id, std::string label) {
  std::shared_ptr<ActorHandle> actor{new ActorHandle{caller, id, std::move(label)}};
  actor->calls_ = caller->open_calls(actor);
  return actor;
}

ActorHandle::ActorHandle(const std::shared_ptr<Caller>& caller, ActorId id, std::string label)
    : caller_{caller}, id_{id}, label_{std::move(label)} {}

// A call whose arguments are not complete goes to the OutgoingCalls at once, to keep its place in the order; an
// unordered call only when they are.
CellHandle ActorHandle::call(const CallOptions& options, const RegisteredFunction& function, const Arguments& arguments,
                             OutgoingCalls::WhenFull when_full) {
  const auto caller = caller_.lock();
  if (caller == nullptr) throw_error(actors::stopped());
  CellHandle cell = caller->new_cell();
  if (caller->abandoned()) {
    cell->set_error(actors::forked());
    return cell;
  }
  if (const auto* const missing = not_in_table(function, options.retry_on)) {
    cell->set_error(actors::not_in_table(*missing));
    return cell;
  }
  auto call = Caller::new_call(function, options);
  call.unordered = options.unordered;
  const auto incomplete = caller->prepare(cell, call, arguments);
  if (cell->ready()) return cell;
  if (incomplete != nullptr && options.unordered) {
    if (when_full == OutgoingCalls::WhenFull::kRefuse && calls_->refuses()) return {};
    if (!call.deadline.is_never()) caller->give_up_at(call.deadline, cell);
    caller->complete_later(incomplete, [cell, calls = calls_](std::optional<Error> missing) mutable {
      if (missing) return cell->set_error(std::move(*missing));
      if (!cell->ready()) calls->send(std::move(cell), OutgoingCalls::WhenFull::kHold);  // ready: it was given up
    });
    return cell;
  }
  if (!calls_->send(cell, when_full)) return {};
  // Only after send(): while this thread waits for room there, OutgoingCalls itself looks at the deadline.
  if (!call.deadline.is_never()) caller->give_up_at(call.deadline, cell);
  if (incomplete == nullptr) return cell;
  caller->complete_later(incomplete, [cell, calls = calls_](std::optional<Error> missing) {
    if (missing) {
      if (!calls->cancel(*cell)) return;  // the call was lost or cancelled
      cell->set_error(std::move(*missing));
    }
    calls->advance();
  });
  return cell;
}

std::shared_ptr<actors::LargeValues> ActorHandle::large_values() const {
  const auto caller = caller_.lock();
  return caller == nullptr ? nullptr : caller->large_values().shared_from_this();
}

void ActorHandle::stop(Duration grace) {
  const auto caller = caller_.lock();
  if (caller == nullptr || caller->abandoned() || ended_.load()) return;
  const auto most = std::chrono::milliseconds{std::numeric_limits<std::uint32_t>::max()};
  const auto milliseconds = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(grace), 1ms, most);
  caller->tell_node(wire::KillActor{id_, {}, true, static_cast<std::uint32_t>(milliseconds.count())});
}

void ActorHandle::kill(const std::optional<Error>& why) {
  const auto caller = caller_.lock();
  if (caller == nullptr || caller->abandoned() || ended_.exchange(true)) return;
  caller->tell_node(wire::KillActor{id_});
  caller->lose_actor(*this, why ? *why
                                : Error{ErrorCode::kActorDied, "actor \"" + label_ + "\" was killed by this program",
                                        "Spawn another actor if one is still needed."});
}

CellHandle ActorHandle::loss() {
  const auto caller = caller_.lock();
  const std::lock_guard lock{mutex_};
  if (!loss_) {
    if (caller == nullptr) throw_error(actors::stopped());
    loss_ = caller->new_cell();
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
  const auto caller = caller_.lock();
  if (caller == nullptr || caller->abandoned() || ended_.exchange(true)) return;
  caller->let_go(*this);
}

void ActorHandle::on_replies(OutgoingCalls&, std::size_t, Duration, std::size_t in_flight) {
  if (in_flight == 0 && shares_.load(std::memory_order_acquire) == 0) let_go_if_done();
}

// The incarnation that returns these calls ends, and another one will follow.
void ActorHandle::on_returned(OutgoingCalls& calls, std::vector<CellHandle> cells, bool) {
  calls.hold_for_next(std::move(cells));
}

void ActorHandle::on_disconnected(OutgoingCalls&) {
  const auto caller = caller_.lock();
  if (caller != nullptr && !ended_.load()) caller->actor_disconnected(shared_from_this());
}

// ---- Caller

Caller::Caller(std::shared_ptr<actors::Platform> platform, std::shared_ptr<actors::FlushQueue> flush_queue,
               OutgoingCalls::Side side)
    : platform_{std::move(platform)},
      executor_{platform_->executor()},
      flush_queue_{std::move(flush_queue)},
      side_{side},
      large_values_{std::make_shared<actors::LargeValues>(executor_)},
      room_{std::make_shared<actors::WaitingRoom>(
          *platform_, [queue = flush_queue_.get()] { queue->flush_all(); }, [this](ResultCell& cell) { cancel(cell); },
          large_values_)},
      lineage_{std::make_shared<actors::Lineage>(executor_, *large_values_, [this] { return new_cell(); })},
      tasks_{*this, executor_, actors::Shape::of_cpus(1)},
      background_{executor_} {}

std::shared_ptr<Caller> Caller::make(std::shared_ptr<actors::Platform> platform,
                                     std::shared_ptr<actors::FlushQueue> flush_queue, OutgoingCalls::Side side) {
  std::shared_ptr<Caller> caller{new Caller{std::move(platform), std::move(flush_queue), side}};
  add_live(caller.get());
  return caller;
}

Caller::~Caller() {
  remove_live(this);
}

void Caller::join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered) {
  node_ = std::move(node);
  {
    const std::lock_guard lock{live().mutex};
    registered_ = registered;
  }
  large_values_->join(node_, {registered.caller, registered.node});
  tasks_.set_requests_max(registered.cpus);
}

std::shared_ptr<OutgoingCalls> Caller::open_calls(std::weak_ptr<OutgoingCalls::Observer> observer) {
  return std::make_shared<OutgoingCalls>(registered_.caller, numbers_, platform_, flush_queue_, large_values_,
                                         weak_from_this(), std::move(observer), side_);
}

struct Caller::Incomplete {
  std::uint64_t place = 0;  // key in incomplete_
  CellHandle cell;
  std::vector<std::byte> bytes;
  std::shared_ptr<object_store::Object> object;  // has the bytes if they are many; `bytes` is then empty
  std::vector<Placeholder> placeholders;
  std::vector<std::shared_ptr<const void>> kept;  // for each placeholder, what keeps its result in memory
  std::atomic<std::size_t> missing = 0;
  async::UniqueFunction<void(std::optional<Error>)> then;
};

std::shared_ptr<Caller::Incomplete> Caller::prepare(const CellHandle& cell, ResultCell::Call call,
                                                    const Arguments& arguments) {
  if (arguments.bytes.failed()) [[unlikely]] {
    cell->set_error(actors::not_encoded("an argument", arguments.bytes).with_outcome(Outcome::kNotStarted));
    return nullptr;
  }
  for (const auto& kept : arguments.context.actors) cell->keep(kept);
  if (arguments.placeholders().empty() && !arguments.bytes.in_room()) [[likely]] {
    cell->set_call(call, arguments.bytes);
    return nullptr;
  }
  std::shared_ptr<object_store::Object> object;
  if (arguments.bytes.in_room()) cell->keep_argument(object = actors::room_of(arguments.bytes).seal());
  const bool all_there = std::all_of(arguments.placeholders().begin(), arguments.placeholders().end(),
                                     [](const auto& placeholder) { return placeholder.there(); });
  // The cell keeps these until the call has ended: the callee reads the objects in the store, and takes its own share
  // of the actors whose handles are in a result.
  for (const Placeholder& placeholder : arguments.placeholders()) {
    if (placeholder.object != nullptr) {
      cell->keep_argument(placeholder.object);
    } else {
      cell->keep(std::make_shared<const CellHandle>(placeholder.cell));
    }
  }
  const auto own_bytes = [&] { return object == nullptr ? arguments.bytes.flattened() : std::vector<std::byte>{}; };
  if (all_there) {
    ArgumentFiller filled{*large_values_};
    if (auto missing = filled.fill(own_bytes(), object.get(), arguments.placeholders())) {
      cell->set_error(std::move(*missing));
    } else {
      const Encoder& payload = filled.payload(call.flags);
      cell->set_call(call, payload);
    }
    return nullptr;
  }
  cell->set_call(call);
  auto incomplete = std::make_shared<Incomplete>();
  incomplete->cell = cell;
  incomplete->bytes = own_bytes();
  incomplete->object = std::move(object);
  incomplete->placeholders = arguments.placeholders();
  return incomplete;
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

void Caller::complete_later(const std::shared_ptr<Incomplete>& incomplete,
                            async::UniqueFunction<void(std::optional<Error>)> then) {
  incomplete->then = std::move(then);
  incomplete->missing.store(incomplete->placeholders.size());
  const auto filled_one = [self = weak_from_this(), incomplete] {
    if (incomplete->missing.fetch_sub(1) != 1) return;
    const auto caller = self.lock();
    if (caller == nullptr) return;
    caller->executor_.post([self, incomplete] {
      if (const auto there = self.lock()) there->complete(incomplete);
    });
  };
  {
    const std::lock_guard lock{mutex_};
    incomplete->place = ++last_incomplete_;
    incomplete_.emplace(incomplete->place, incomplete);
  }
  incomplete->kept.resize(incomplete->placeholders.size());
  for (std::size_t i = 0; i < incomplete->placeholders.size(); ++i) {
    const Placeholder& placeholder = incomplete->placeholders[i];
    if (!placeholder.cell) {
      filled_one();
    } else {
      placeholder.cell->when_ready([incomplete, filled_one, i] {
        if (!ArgumentFiller::reads(incomplete->placeholders[i])) return filled_one();
        incomplete->placeholders[i].cell->when_readable([incomplete, filled_one, i](std::shared_ptr<const void> kept) {
          incomplete->kept[i] = std::move(kept);
          filled_one();
        });
      });
    }
  }
}

void Caller::complete(const std::shared_ptr<Incomplete>& incomplete) {
  {
    const std::lock_guard lock{mutex_};
    if (incomplete_.erase(incomplete->place) == 0) return;  // it was given up, or failed with everything else
  }
  ArgumentFiller filled{*large_values_};
  auto missing = filled.fill(incomplete->bytes, incomplete->object.get(), incomplete->placeholders);
  if (!missing) incomplete->cell->complete_arguments(filled.payload(incomplete->cell->call().flags));
  incomplete->then(std::move(missing));
}

template <class Options>
ResultCell::Call Caller::new_call(const RegisteredFunction& function, const Options& options) {
  const auto inherited = actors::InheritedContext::of_new_call();
  ResultCell::Call call{.max_retries = static_cast<std::uint8_t>(std::clamp<std::int32_t>(options.max_retries, 0, 255)),
                        .function = function.index,
                        .trace = inherited.trace,
                        .deadline = std::min(options.deadline, inherited.deadline)};
  if (const auto* const types = options.retry_on.registered()) call.retry_on = types->index + 1;
  return call;
}

// The cell is claimed first, so that an answer of the worker to the cancellation does not complete it.
void Caller::give_up_at(Deadline deadline, const CellHandle& cell) {
  executor_.run_at(deadline.when(), [self = weak_from_this(), cell] {
    if (!cell->claim()) return;
    const auto caller = self.lock();
    const bool given_up = caller != nullptr && caller->give_up(*cell);
    const Error passed =
        given_up
            ? Error{ErrorCode::kDeadlineExceeded, "the deadline of the call has passed",
                    "Give the call a later deadline, or have fewer calls under way."}
            : Error{ErrorCode::kDeadlineExceeded, "the deadline of the call has passed; the call may still be running",
                    "Give the call a later deadline. The function can ask pharos::cancelled() whether to stop."};
    cell->fail_claimed(
        Error{passed}.with(name_of(*cell)).with_outcome(given_up ? cell->outcome_unsent() : Outcome::kUnknown));
  });
}

Result<actors::TaskPool*> Caller::pool_of(const TaskOptions& options) {
  const bool says_nothing = options.cpus == 1 && options.gpus == 0 && options.memory == ByteCount{} &&
                            options.resources.empty() && options.labels.empty() && !options.node && !options.near &&
                            !options.spread;
  if (says_nothing) return &tasks_;
  PHAROS_TRY(actors::Shape shape, actors::Shape::of(options));
  if (shape == tasks_.shape()) return &tasks_;
  const std::lock_guard lock{mutex_};
  if (over_) return *over_;
  if (const auto found = other_tasks_.find(shape); found != other_tasks_.end()) return found->second.get();
  if (other_tasks_.size() >= kShapesMax) {
    return Error{ErrorCode::kOverloaded,
                 "this program has tasks with " + std::to_string(kShapesMax) +
                     " different combinations of resources, labels and nodes, which is the limit",
                 "Use fewer different values in TaskOptions, for example rounded ones."};
  }
  auto pool = std::make_unique<actors::TaskPool>(*this, executor_, shape);
  pool->set_requests_max(registered_.cpus);
  return other_tasks_.emplace(std::move(shape), std::move(pool)).first->second.get();
}

// The pools live as long as the Caller, so the pointers stay valid without the lock.
std::vector<actors::TaskPool*> Caller::pools() {
  std::vector<actors::TaskPool*> all{&tasks_};
  const std::lock_guard lock{mutex_};
  for (const auto& [shape, pool] : other_tasks_) all.push_back(pool.get());
  return all;
}

bool Caller::take_back(ResultCell& cell) {
  const auto all = pools();
  return std::any_of(all.begin(), all.end(), [&](actors::TaskPool* pool) {
    // A task that asks for more than CPUs must run where its resources are.
    return pool->shape().fits_anywhere() && pool->take_back(cell);
  });
}

CellHandle Caller::submit(const TaskOptions& options, const RegisteredFunction& function, const Arguments& arguments) {
  CellHandle cell = new_cell();
  if (abandoned()) {
    cell->set_error(actors::forked());
    return cell;
  }
  if (const auto* const missing = not_in_table(function, options.retry_on)) {
    cell->set_error(actors::not_in_table(*missing));
    return cell;
  }
  const auto pool = pool_of(options);
  if (!pool) {
    cell->set_error(Error{pool.error()}.with_outcome(Outcome::kNotStarted));
    return cell;
  }
  const auto call = new_call(function, options);
  const auto incomplete = prepare(cell, call, arguments);
  if (cell->ready()) return cell;
  if (!call.deadline.is_never()) give_up_at(call.deadline, cell);
  if (incomplete == nullptr) {
    (*pool)->submit(cell);
    return cell;
  }
  complete_later(incomplete,
                 [this, cell, options, &placeholders = incomplete->placeholders](std::optional<Error> missing) {
                   if (missing) return cell->set_error(std::move(*missing));
                   if (cell->ready()) return;  // the task was given up
                   if (const auto best = pool_near(options, placeholders)) {
                     (*best)->submit(cell);
                   } else {
                     cell->set_error(Error{best.error()}.with_outcome(Outcome::kNotStarted));
                   }
                 });
  return cell;
}

// Prefers the node where most bytes of the arguments lie, if the difference is large and the options name no node.
Result<actors::TaskPool*> Caller::pool_near(TaskOptions options, const std::vector<Placeholder>& placeholders) {
  if (options.node || options.near || options.spread) return pool_of(options);
  std::map<NodeId, std::size_t> bytes;
  for (const Placeholder& placeholder : placeholders) {
    if (placeholder.what == Placeholder::kObject) {
      bytes[placeholder.object->nearest()] += placeholder.size;
    } else if (const auto* const stored = placeholder.cell ? placeholder.cell->stored() : nullptr) {
      bytes[stored->object->nearest()] += stored->size;
    }
  }
  const auto most =
      std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const TaskOptions anywhere = options;
  if (most != bytes.end() && most->first != registered_.node &&
      most->second >= bytes[registered_.node] + kWorthGoingMin) {
    options.near = most->first;
  }
  auto pool = pool_of(options);
  return pool ? pool : pool_of(anywhere);
}

void Caller::cancel(ResultCell& cell) {
  if (give_up(cell)) cell.set_error(actors::cancelled(cell.call().function).with_outcome(cell.outcome_unsent()));
}

bool Caller::give_up(ResultCell& cell) {
  // Before the search: the call may be moving from one place to another, and whoever takes it there sees this note.
  cell.note_cancelled();
  bool given_up = false;
  for (actors::TaskPool* const pool : pools()) given_up = given_up || pool->cancel(cell);
  if (!given_up) {
    const std::lock_guard lock{mutex_};
    // Only a task that waits for arguments is given up with this. An actor's call in incomplete_ is in its
    // OutgoingCalls, too.
    given_up = std::erase_if(incomplete_, [&](const auto& each) { return &*each.second->cell == &cell; }) != 0;
  }
  for (const auto& actor : actors()) {
    if (!actor->calls()->cancel(cell)) continue;
    given_up = true;
    actor->calls()->advance();
  }
  return given_up;
}

std::vector<CellHandle> Caller::missing_arguments(const ResultCell& cell) {
  std::vector<CellHandle> missing;
  const std::lock_guard lock{mutex_};
  for (const auto& [number, each] : incomplete_) {
    if (&*each->cell != &cell) continue;
    for (const Placeholder& placeholder : each->placeholders) {
      if (!placeholder.there()) missing.push_back(placeholder.cell);
    }
  }
  return missing;
}

void Caller::tell_node(wire::Message message) {
  executor_.post([self = weak_from_this(), message = std::move(message)] {
    const auto caller = self.lock();
    if (caller != nullptr && !caller->over()) caller->node_->send(message);
  });
}

void Caller::finish_telling_node() {
  // tell_node() posts its work to the executor, which runs work in order.
  async::block_on(executor_, []() -> async::Async<void> { co_return; }());
}

// ---- Leases

void Caller::request_lease(actors::TaskPool& pool) {
  background_.spawn(lease_worker(this, &pool));
}

async::Async<void> Caller::lease_worker(Caller* self, actors::TaskPool* pool) {
  self->begin_to_tend();
  wire::Message ask = wire::LeaseWorker{pool->shape().to_wire()};
  // Without a deadline: tasks have deadlines of their own, and the wait ends with the node or with this Caller.
  auto parcel = co_await self->node_->request(std::move(ask), std::vector<Fd>{}, async::Deadline::never());
  if (!parcel) {
    pool->lease_refused(std::move(parcel).error().with("asking for a worker"));
    co_return;
  }
  const auto* const ready = std::get_if<wire::WorkerReady>(&parcel->message);
  const WorkerId worker = ready == nullptr ? WorkerId{} : ready->worker;
  const auto calls = self->open_calls(std::shared_ptr<OutgoingCalls::Observer>{self->shared_from_this(), pool});
  self->connect_worker(*calls, *std::move(parcel), "the worker");
  pool->add_worker(worker, calls);
}

void Caller::tend_soon() {
  executor_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->begin_to_tend();
  });
}

void Caller::begin_to_tend() {
  if (!std::exchange(tends_tasks_, true)) background_.spawn(tend_tasks(this));
}

async::Async<void> Caller::tend_tasks(Caller* self) {
  for (;;) {
    bool more = false;
    for (actors::TaskPool* const pool : self->pools()) more = pool->tend() || more;
    if (!more) break;
    const auto slept = co_await async::sleep(kTendTime);
    if (!slept) break;
  }
  self->tends_tasks_ = false;
}

void Caller::return_lease(WorkerId worker) {
  node_->send(wire::ReturnLease{worker});
}

void Caller::give_back(const wire::RecallLeases& recalled) {
  std::size_t left = recalled.count;
  for (actors::TaskPool* const pool : pools()) left -= pool->recall(recalled.workers, left);
}

// ---- Endings

void Caller::worker_disconnected(WorkerId worker) {
  background_.spawn(give_up_on_worker(this, worker));
}
// The node says why the worker ended (WorkerEnded). Only if it has not done so in time, this gives the worker up. The
// worker may still live, if it is on another machine and only the connection broke.
async::Async<void> Caller::give_up_on_worker(Caller* self, WorkerId worker) {
  const auto slept = co_await async::sleep(kReasonTime);
  if (!slept) co_return;
  for (actors::TaskPool* const pool : self->pools()) {
    if (pool->lose_worker(worker, Error{ErrorCode::kWorkerDied, "the worker's connection ended", kRunAgain})) {
      self->node_->send(wire::ReturnLease{worker, {}, true});
    }
  }
}

bool Caller::on_node_message(const wire::Message& message) {
  if (large_values_->on_node_message(message)) return true;
  if (const auto* const lost = std::get_if<wire::IncarnationEnded>(&message)) return leave(*lost), true;
  if (const auto* const recalled = std::get_if<wire::RecallLeases>(&message)) return give_back(*recalled), true;
  const auto* const ended = std::get_if<wire::WorkerEnded>(&message);
  if (ended == nullptr) return false;
  for (actors::TaskPool* const pool : pools()) {
    pool->lose_worker(ended->worker, Error{ended->out_of_memory ? ErrorCode::kExhausted : ErrorCode::kWorkerDied,
                                           "the worker that ran the task ended: " + ended->reason,
                                           ended->out_of_memory ? scheduler::kMemoryRemedy : kRunAgain});
  }
  return true;
}

std::optional<Error> Caller::over() {
  const std::lock_guard lock{mutex_};
  return over_;
}

void Caller::lose_everything(const Error& why) {
  std::unordered_map<ActorId, std::shared_ptr<ActorHandle>> actors;
  std::map<std::uint64_t, std::shared_ptr<Incomplete>> incomplete;
  {
    const std::lock_guard lock{mutex_};
    if (!over_) over_ = why;
    actors.swap(actors_);
    incomplete.swap(incomplete_);
  }
  for (const auto& [id, actor] : actors) {
    static_cast<void>(actor->note_loss(why));
    actor->calls()->lose(why);
  }
  for (actors::TaskPool* const pool : pools()) pool->close(why);
  for (const auto& [place, each] : incomplete) {
    each->cell->set_error(Error{why}.with_outcome(Outcome::kNotStarted));
  }
}

void Caller::close() {
  lose_everything(actors::stopped());
}

void Caller::end() {
  remove_live(this);
  close();
  lineage_->end();
  large_values_->end();
  background_.cancel();
  const auto joined = background_.join_blocking(async::Deadline::after(kEndTime, executor_.now()));
  PHAROS_CHECK(joined.ok(), joined.error());
  room_->close();
  flush_queue_->close();
}

void Caller::abandon_after_fork() {
  abandoned_.store(true);
  large_values_->abandon_after_fork();
  room_->abandon();
  platform_->abandon_after_fork();
}

std::optional<Home> Caller::home_of_newest() {
  const std::lock_guard lock{live().mutex};
  for (auto caller = live().callers.rbegin(); caller != live().callers.rend(); ++caller) {
    const wire::JobRegistered& registered = (*caller)->registered_;
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

// ---- Functions that the public templates call

CellHandle call_actor(const ActorHandle& actor, const CallOptions& options, const RegisteredFunction& function,
                      Arguments& arguments) {
  CellHandle cell = const_cast<ActorHandle&>(actor).call(options, function, arguments);
  arguments.let_go();
  return cell;
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
