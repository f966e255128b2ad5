#include "caller.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/net/socket_link.hpp>

#include "function_table.hpp"

namespace pharos::detail {
namespace {

using namespace std::chrono_literals;
using actors::CallLink;

constexpr auto kActorStartTime = 60s;
constexpr auto kLeaseTime = 3600s;  // a lease may wait for other jobs
constexpr auto kReasonTime = 1s;    // the node knows why a worker ended well before this
constexpr auto kTendTime = 20ms;
constexpr auto kEndTime = 10s;

// Every live caller, for the child of a fork alone.
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

Error stopped() {
  return {ErrorCode::kRuntimeStopped, "the Runtime that this belongs to has ended",
          "Keep the Runtime alive until the last get()."};
}

Error forked() {
  return {ErrorCode::kRuntimeStopped, "this process is a child of fork(), and the Runtime is its parent's",
          "Make a Runtime in the child."};
}

Error not_in_table(const Function& function) {
  return Error{ErrorCode::kFunctionNotFound,
               "workers do not have " + actors::readable_name(function.name) +
                   ": it was loaded into this process after its Runtime began",
               "Link the library that defines it to the program."}
      .with_outcome(Outcome::kNotStarted);
}

}  // namespace

// ---- ActorHandle

std::shared_ptr<ActorHandle> ActorHandle::make(const std::shared_ptr<Caller>& caller, ActorId id, std::string label) {
  std::shared_ptr<ActorHandle> actor{new ActorHandle{caller, id, std::move(label)}};
  actor->link_ = caller->new_link(id, actor);
  return actor;
}

ActorHandle::ActorHandle(const std::shared_ptr<Caller>& caller, ActorId id, std::string label)
    : caller_{caller}, id_{id}, label_{std::move(label)} {}

CellHandle ActorHandle::call(const RegisteredFunction& function, const Arguments& arguments) {
  const auto caller = caller_.lock();
  if (caller == nullptr) throw_error(stopped());
  CellHandle cell = caller->new_cell();
  if (caller->abandoned()) {
    cell->set_error(forked());
  } else if (function.index == RegisteredFunction::kNoIndex) {
    cell->set_error(not_in_table(function.function));
  } else {
    send(*caller, cell, {.function = function.index}, arguments);
  }
  return cell;
}

void ActorHandle::construct(const RegisteredFunction& constructor, const Arguments& arguments) {
  const auto caller = caller_.lock();
  constructed_ = caller->new_cell();
  send(*caller, constructed_, {.kind = wire::FrameKind::kConstruct, .function = constructor.index}, arguments);
}

// A call whose arguments are not there yet keeps its place in the order.
void ActorHandle::send(Caller& caller, CellHandle cell, ResultCell::Call call, const Arguments& arguments) {
  const auto incomplete = Caller::prepare(cell, call, arguments);
  if (cell->ready()) return;
  if (incomplete == nullptr) return link_->send(std::move(cell));
  link_->send(cell);
  caller.complete_later(incomplete, [cell = std::move(cell), link = link_](std::optional<Error> missing) {
    if (missing) {
      if (!link->cancel(*cell)) return;  // it has been lost, or cancelled
      cell->set_error(std::move(*missing));
    }
    link->advance();
  });
}

void ActorHandle::kill() {
  const auto caller = caller_.lock();
  if (caller == nullptr || caller->abandoned() || ended_.exchange(true)) return;
  caller->end_actor(id_, true);
  link_->lose(Error{ErrorCode::kActorDied, "actor \"" + label_ + "\" was killed by this program"});
}

void ActorHandle::let_go() {
  let_go_.store(true);
  end_if_done(link_->in_flight());
}

void ActorHandle::end_if_done(std::size_t in_flight) {
  if (!let_go_.load() || in_flight != 0) return;
  const auto caller = caller_.lock();
  if (caller == nullptr || caller->abandoned() || ended_.exchange(true)) return;
  caller->end_actor(id_, false);
}

void ActorHandle::on_replies(CallLink&, std::size_t, Duration, std::size_t in_flight) {
  if (constructed_ && constructed_.ready()) {
    const auto outcome = constructed_.wait(Deadline::never());
    constructed_ = {};
    if (!outcome) {
      failure_ = Error{ErrorCode::kActorDied,
                       "the constructor of actor \"" + label_ + "\" failed: " + outcome.error().message()};
      let_go_.store(true);
    }
  }
  end_if_done(in_flight);
  if (failure_ && in_flight == 0) link_->lose(*failure_);
}

// Only workers that run tasks give calls back.
void ActorHandle::on_returned(CallLink&, std::vector<CellHandle> cells) {
  for (const CellHandle& cell : cells) {
    cell->set_error(Error{ErrorCode::kInternal, "an actor gave a call back"}.with_outcome(Outcome::kNotStarted));
  }
}

void ActorHandle::on_disconnected(CallLink&) {
  if (const auto caller = caller_.lock()) caller->actor_disconnected(id_);
}

// ---- Caller

Caller::Caller(std::shared_ptr<net::Reactor> reactor, std::shared_ptr<actors::FlushQueue> flush_queue)
    : kept_reactor_{std::move(reactor)},
      reactor_{*kept_reactor_},
      flush_queue_{std::move(flush_queue)},
      room_{std::make_shared<actors::WaitingRoom>(
          reactor_, [queue = flush_queue_.get()] { queue->flush_all(); }, [this](ResultCell& cell) { cancel(cell); })},
      tasks_{*this, reactor_},
      background_{reactor_} {}

std::shared_ptr<Caller> Caller::make(std::shared_ptr<net::Reactor> reactor,
                                     std::shared_ptr<actors::FlushQueue> flush_queue) {
  std::shared_ptr<Caller> caller{new Caller{std::move(reactor), std::move(flush_queue)}};
  add_live(caller.get());
  return caller;
}

Caller::~Caller() {
  remove_live(this);
}

void Caller::join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered) {
  node_ = std::move(node);
  registered_ = registered;
  tasks_.set_requests_max(registered.cpus);
}

std::shared_ptr<CallLink> Caller::new_link(ActorId actor, std::weak_ptr<CallLink::Observer> observer) {
  return std::make_shared<CallLink>(registered_.caller, actor, flush_queue_, std::move(observer));
}

struct Caller::Incomplete {
  CellHandle cell;
  std::vector<std::byte> bytes;
  std::vector<Arguments::Hole> holes;
  std::atomic<std::size_t> missing = 0;
  async::UniqueFunction<void(std::optional<Error>)> then;
};

namespace {

// Puts the results in their places. Why not, if one of them is none.
std::optional<Error> fill(std::span<const std::byte> bytes, std::span<const Arguments::Hole> holes, Encoder& to) {
  std::size_t copied = 0;
  for (const Arguments::Hole& hole : holes) {
    const auto result = hole.cell.wait(Deadline::never());
    if (!result) {
      return Error{result.error()}.with("an argument, the result of another call").with_outcome(Outcome::kNotStarted);
    }
    to.write(bytes.data() + copied, hole.offset - copied);
    copied = hole.offset;
    if (!hole.splice(*result, to))
      return Error{ErrorCode::kCorrupt, "a result that was an argument is none of its type"};
  }
  to.write(bytes.data() + copied, bytes.size() - copied);
  return std::nullopt;
}

}  // namespace

std::shared_ptr<Caller::Incomplete> Caller::prepare(const CellHandle& cell, ResultCell::Call call,
                                                    const Arguments& arguments) {
  if (arguments.bytes.failed()) [[unlikely]] {
    cell->set_error(cannot_travel("an argument", arguments.bytes).with_outcome(Outcome::kNotStarted));
    return nullptr;
  }
  if (arguments.holes.empty()) {
    cell->set_call(call, arguments.bytes);
    return nullptr;
  }
  const bool all_there =
      std::all_of(arguments.holes.begin(), arguments.holes.end(), [](const auto& hole) { return hole.cell.ready(); });
  if (all_there) {
    thread_local Encoder filled;
    filled.clear();
    if (auto missing = fill(arguments.bytes.flattened(), arguments.holes, filled)) {
      cell->set_error(std::move(*missing));
    } else {
      cell->set_call(call, filled);
    }
    return nullptr;
  }
  cell->set_call(call);
  auto incomplete = std::make_shared<Incomplete>();
  incomplete->cell = cell;
  incomplete->bytes = arguments.bytes.flattened();
  incomplete->holes = arguments.holes;
  return incomplete;
}

void Caller::complete_later(const std::shared_ptr<Incomplete>& incomplete,
                            async::UniqueFunction<void(std::optional<Error>)> then) {
  incomplete->then = std::move(then);
  incomplete->missing.store(incomplete->holes.size());
  {
    const std::lock_guard lock{mutex_};
    incomplete_.insert(incomplete);
  }
  for (const Arguments::Hole& hole : incomplete->holes) {
    hole.cell->when_ready([self = weak_from_this(), incomplete] {
      if (incomplete->missing.fetch_sub(1) != 1) return;
      const auto caller = self.lock();
      if (caller == nullptr) return;
      caller->reactor_.post([self, incomplete] {
        if (const auto there = self.lock()) there->complete(incomplete);
      });
    });
  }
}

void Caller::complete(const std::shared_ptr<Incomplete>& incomplete) {
  {
    const std::lock_guard lock{mutex_};
    if (incomplete_.erase(incomplete) == 0) return;  // everything is lost, and this was told
  }
  Encoder filled;
  auto missing = fill(incomplete->bytes, incomplete->holes, filled);
  if (!missing) incomplete->cell->complete_arguments(filled);
  incomplete->then(std::move(missing));
}

CellHandle Caller::submit(const RegisteredFunction& function, const Arguments& arguments) {
  CellHandle cell = new_cell();
  if (abandoned()) {
    cell->set_error(forked());
    return cell;
  }
  if (function.index == RegisteredFunction::kNoIndex) {
    cell->set_error(not_in_table(function.function));
    return cell;
  }
  const auto incomplete = prepare(cell, {.function = function.index}, arguments);
  if (cell->ready()) return cell;
  if (incomplete == nullptr) {
    tasks_.submit(cell);
    return cell;
  }
  complete_later(incomplete, [this, cell](std::optional<Error> missing) {
    if (missing) return cell->set_error(std::move(*missing));
    tasks_.submit(cell);
  });
  return cell;
}

void Caller::cancel(ResultCell& cell) {
  bool given_up = tasks_.cancel(cell);
  if (!given_up) {
    const std::lock_guard lock{mutex_};
    // A task; an actor's call is also in its link.
    given_up = std::erase_if(incomplete_, [&](const auto& each) { return &*each->cell == &cell; }) != 0;
  }
  for (const auto& actor : actors()) {
    if (!actor->link()->cancel(cell)) continue;
    given_up = true;
    actor->link()->advance();
  }
  if (given_up)
    cell.set_error(Error{ErrorCode::kCancelled, "the call was cancelled"}.with_outcome(Outcome::kNotStarted));
}

std::vector<std::shared_ptr<ActorHandle>> Caller::actors() {
  std::vector<std::shared_ptr<ActorHandle>> all;
  const std::lock_guard lock{mutex_};
  for (const auto& [id, actor] : actors_) all.push_back(actor);
  return all;
}

std::shared_ptr<ActorHandle> Caller::spawn(const ActorOptions& options, const char* type_name,
                                           const RegisteredFunction& constructor, const Arguments& arguments) {
  if (abandoned()) throw_error(forked());
  if (constructor.index == RegisteredFunction::kNoIndex) throw_error(not_in_table(constructor.function));
  const std::string label = options.name.empty() ? actors::readable_name(type_name) : options.name;
  auto actor = ActorHandle::make(shared_from_this(), ActorId{random_u64()}, label);
  {
    const std::lock_guard lock{mutex_};
    actors_.emplace(actor->id(), actor);
  }
  // The constructor is the first call: it is held back, as the others are, until the worker is there.
  actor->construct(constructor, arguments);
  background_.spawn(start_actor(this, actor));
  ActorHandle* const raw = actor.get();
  return {raw, [actor = std::move(actor)](ActorHandle*) { actor->let_go(); }};
}

async::Async<void> Caller::start_actor(Caller* self, std::shared_ptr<ActorHandle> actor) {
  const auto deadline = async::Deadline::after(kActorStartTime, self->reactor_.now());
  wire::Message ask = wire::StartActor{actor->id(), actor->label()};
  auto parcel = co_await self->node_->request(std::move(ask), std::vector<Fd>{}, deadline);
  if (parcel) {
    self->connect_worker(*actor->link(), *std::move(parcel));
    co_return;
  }
  const Error& cause = parcel.error();
  const auto over = self->over();
  const Error why =
      over ? *over
           : Error{ErrorCode::kActorDied, "actor \"" + actor->label() + "\" could not be started: " + cause.message(),
                   cause.remedy()};
  self->lose_actor(actor->id(), why);
}

void Caller::connect_worker(CallLink& link, net::Parcel parcel) {
  const auto* const ready = std::get_if<wire::WorkerReady>(&parcel.message);
  if (ready == nullptr) return link.lose(Error{ErrorCode::kInternal, "the node gave an answer that fits no worker"});
  link.connect(net::SocketLink::make(reactor_, std::move(parcel.descriptors.front()), net::Descriptors::kRefused),
               ready->incarnation);
}

void Caller::end_actor(ActorId actor, bool kill) {
  // By way of the strand, so that the node hears of it after it was asked to start the actor.
  reactor_.post([self = weak_from_this(), actor, kill] {
    const auto caller = self.lock();
    if (caller != nullptr && !caller->over()) caller->node_->send(wire::EndActor{actor, kill});
  });
}

// ---- Leases

void Caller::request_lease() {
  background_.spawn(lease_worker(this));
}

async::Async<void> Caller::lease_worker(Caller* self) {
  if (!std::exchange(self->tends_tasks_, true)) self->background_.spawn(tend_tasks(self));
  const auto deadline = async::Deadline::after(kLeaseTime, self->reactor_.now());
  wire::Message ask = wire::LeaseWorker{};
  auto parcel = co_await self->node_->request(std::move(ask), std::vector<Fd>{}, deadline);
  if (!parcel) {
    self->tasks_.lease_refused(std::move(parcel).error().with("asking for a worker"));
    co_return;
  }
  const auto* const ready = std::get_if<wire::WorkerReady>(&parcel->message);
  const WorkerId worker = ready == nullptr ? WorkerId{} : ready->worker;
  const auto link =
      self->new_link(ActorId{}, std::shared_ptr<CallLink::Observer>{self->shared_from_this(), &self->tasks_});
  self->connect_worker(*link, *std::move(parcel));
  self->tasks_.add_worker(worker, link);
}

async::Async<void> Caller::tend_tasks(Caller* self) {
  while (self->tasks_.tend()) {
    const auto slept = co_await async::sleep(kTendTime);
    if (!slept) break;
  }
  self->tends_tasks_ = false;
}

void Caller::return_lease(WorkerId worker) {
  node_->send(wire::ReturnLease{worker});
}

// ---- Endings

void Caller::worker_disconnected(WorkerId worker) {
  background_.spawn(give_up_on_worker(this, worker));
}
void Caller::actor_disconnected(ActorId actor) {
  background_.spawn(give_up_on_actor(this, actor));
}

// The node tells why; only when it does not, this does.
async::Async<void> Caller::give_up_on_worker(Caller* self, WorkerId worker) {
  const auto slept = co_await async::sleep(kReasonTime);
  if (slept) self->tasks_.lose_worker(worker, Error{ErrorCode::kWorkerDied, "the worker's connection ended"});
}

async::Async<void> Caller::give_up_on_actor(Caller* self, ActorId actor) {
  const auto slept = co_await async::sleep(kReasonTime);
  if (slept) self->lose_actor(actor, Error{ErrorCode::kActorDied, "the actor's connection ended"});
}

std::shared_ptr<ActorHandle> Caller::take_actor(ActorId actor) {
  const std::lock_guard lock{mutex_};
  const auto found = actors_.find(actor);
  if (found == actors_.end()) return nullptr;
  auto taken = std::move(found->second);
  actors_.erase(found);
  return taken;
}

void Caller::lose_actor(ActorId actor, const Error& why) {
  if (const auto taken = take_actor(actor)) taken->link()->lose(why);
}

bool Caller::on_node_message(const wire::Message& message) {
  const auto* const ended = std::get_if<wire::WorkerEnded>(&message);
  if (ended == nullptr) return false;
  if (!ended->actor) {
    tasks_.lose_worker(ended->worker,
                       Error{ErrorCode::kWorkerDied, "the worker that ran the task ended: " + ended->reason});
  } else if (const auto actor = take_actor(ended->actor)) {
    actor->link()->lose(Error{ErrorCode::kActorDied, "actor \"" + actor->label() + "\" ended: " + ended->reason});
  }
  return true;
}

std::optional<Error> Caller::over() {
  const std::lock_guard lock{mutex_};
  return over_;
}

void Caller::lose_everything(const Error& why) {
  std::unordered_map<ActorId, std::shared_ptr<ActorHandle>> actors;
  std::unordered_set<std::shared_ptr<Incomplete>> incomplete;
  {
    const std::lock_guard lock{mutex_};
    if (!over_) over_ = why;
    actors.swap(actors_);
    incomplete.swap(incomplete_);
  }
  for (const auto& [id, actor] : actors) actor->link()->lose(why);
  tasks_.close(why);
  for (const auto& each : incomplete) {
    each->cell->set_error(Error{why}.with_outcome(Outcome::kNotStarted));
  }
}

void Caller::close() {
  lose_everything(stopped());
}

void Caller::end() {
  remove_live(this);
  close();
  background_.cancel();
  const auto joined = background_.join_blocking(async::Deadline::after(kEndTime, reactor_.now()));
  PHAROS_CHECK(joined.ok(), joined.error());
  room_->close();
  flush_queue_->close();
}

void Caller::abandon_after_fork() {
  abandoned_.store(true);
  room_->abandon();
  reactor_.abandon_after_fork();
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

// ---- what the public templates call

Arguments& scratch_arguments() {
  thread_local Arguments arguments;
  arguments.clear();
  return arguments;
}

CellHandle call_actor(const ActorHandle& actor, const RegisteredFunction& function, const Arguments& arguments) {
  return const_cast<ActorHandle&>(actor).call(function, arguments);
}
void kill_actor(const ActorHandle& actor) {
  const_cast<ActorHandle&>(actor).kill();
}
ActorId id_of(const ActorHandle& actor) {
  return actor.id();
}

}  // namespace pharos::detail
