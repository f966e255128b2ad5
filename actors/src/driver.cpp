#include "driver.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <pharos/async/block_on.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/process/build_id.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/spawn.hpp>

#include "function_table.hpp"
#include "output.hpp"

namespace pharos::detail {
namespace {

using namespace std::chrono_literals;
using actors::CallLink;

constexpr auto kGreetingTime = 10s;  // of a daemon that has nothing to do yet
constexpr auto kStartTime = 60s;     // of a node and of the program's zygote: libtorch takes seconds to load
constexpr auto kActorStartTime = 60s;
constexpr auto kLeaseTime = 3600s;  // a lease may wait for other jobs
constexpr auto kStopTime = 10s;
constexpr auto kUngreetedStopTime = 2s;  // of a keeper whose daemon died, or of something that is no keeper
constexpr auto kReasonTime = 1s;         // the node knows why a worker ended well before this
constexpr Duration kFlushDelayMax = 200us;

std::atomic<bool> start_object_linked = false;

// Every live driver, for the child of a fork alone.
struct LiveDrivers {
  std::mutex mutex;
  std::vector<Driver*> drivers;
};
LiveDrivers& live() {
  static auto* const instance = new LiveDrivers;
  return *instance;
}

void add_live(Driver* driver) {
  static const int registered = ::pthread_atfork([] { live().mutex.lock(); }, [] { live().mutex.unlock(); },
                                                 [] {
                                                   for (Driver* const each : live().drivers) each->abandon_after_fork();
                                                   live().drivers.clear();
                                                   live().mutex.unlock();
                                                 });
  PHAROS_CHECK(registered == 0, registered);
  const std::lock_guard lock{live().mutex};
  live().drivers.push_back(driver);
}

void remove_live(Driver* driver) {
  const std::lock_guard lock{live().mutex};
  std::erase(live().drivers, driver);
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

std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "program" : path.string();
}

}  // namespace

PHAROS_API void note_start_object();
void note_start_object() {
  start_object_linked.store(true);
}

// ---- ActorHandle

std::shared_ptr<ActorHandle> ActorHandle::make(const std::shared_ptr<Driver>& driver, ActorId id, std::string label) {
  std::shared_ptr<ActorHandle> actor{new ActorHandle{driver, id, std::move(label)}};
  actor->link_ = driver->new_link(id, actor);
  return actor;
}

ActorHandle::ActorHandle(const std::shared_ptr<Driver>& driver, ActorId id, std::string label)
    : driver_{driver}, id_{id}, label_{std::move(label)} {}

CellHandle ActorHandle::call(const RegisteredFunction& function, const Encoder& arguments) {
  const auto driver = driver_.lock();
  if (driver == nullptr) throw_error(stopped());
  CellHandle cell = driver->new_cell();
  if (driver->abandoned()) {
    cell->set_error(forked());
  } else if (function.index == RegisteredFunction::kNoIndex) {
    cell->set_error(not_in_table(function.function));
  } else {
    link_->send(wire::FrameKind::kCall, function.index, arguments.bytes(), cell);
  }
  return cell;
}

void ActorHandle::kill() {
  const auto driver = driver_.lock();
  if (driver == nullptr || driver->abandoned() || ended_.exchange(true)) return;
  driver->end_actor(id_, true);
  link_->lose(Error{ErrorCode::kActorDied, "actor \"" + label_ + "\" was killed by this program"});
}

void ActorHandle::let_go() {
  let_go_.store(true);
  end_if_done(link_->in_flight());
}

void ActorHandle::end_if_done(std::size_t in_flight) {
  if (!let_go_.load() || in_flight != 0) return;
  const auto driver = driver_.lock();
  if (driver == nullptr || driver->abandoned() || ended_.exchange(true)) return;
  driver->end_actor(id_, false);
}

void ActorHandle::construct(std::uint32_t constructor, std::span<const std::byte> arguments, CellHandle constructed) {
  constructed_ = constructed;
  link_->send(wire::FrameKind::kConstruct, constructor, arguments, std::move(constructed));
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

void ActorHandle::on_disconnected(CallLink&) {
  if (const auto driver = driver_.lock()) driver->actor_disconnected(id_);
}

// ---- Driver: start

Driver::Driver() : tasks_{*this, reactor_}, background_{reactor_} {
  flush_queue_ = actors::FlushQueue::make(reactor_, kFlushDelayMax);
  room_ = std::make_shared<actors::WaitingRoom>(reactor_, [queue = flush_queue_.get()] { queue->flush_all(); });
}

Result<std::shared_ptr<Driver>> Driver::start(const RuntimeOptions& options) {
  if (!start_object_linked.load()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this program was linked without Pharos's start object, so it cannot serve as its own worker",
                 "Link it with the CMake target pharos::pharos, or with pharos_start.o and -Wl,--wrap=main."};
  }
  PHAROS_TRY_VOID(actors::fix_function_table());
  std::shared_ptr<Driver> driver{new Driver};
  auto connected = driver->connect(options);
  if (connected) {
    add_live(driver.get());
    driver->io_thread_ = std::thread{[raw = driver.get()] { raw->run_io(); }};
    connected = driver->register_job();
  }
  if (!connected) {
    driver->stop();
    return std::move(connected).error().with("starting Pharos");
  }
  return driver;
}

Driver::~Driver() {
  stop();
}

Result<void> Driver::connect(const RuntimeOptions& options) {
  PHAROS_TRY(actors::NodeConnection connection,
             options.address.empty() ? actors::start_embedded_cluster(options) : actors::join_cluster(options));
  keeper_ = connection.keeper;
  const auto deadline = async::Deadline::after(kGreetingTime, reactor_.now());
  auto greeted = net::initiate(connection.socket.get(), connection.key, {net::Role::kDriver, 0}, deadline);
  if (!greeted) {
    const Error why = std::move(greeted).error();
    const bool refused = why.code() == ErrorCode::kPermissionDenied || why.code() == ErrorCode::kUnsupported;
    return Error{refused ? why.code() : ErrorCode::kUnavailable, why.message(), why.remedy()}.with("greeting " +
                                                                                                   connection.name);
  }
  greeted_ = true;
  const auto link = net::SocketLink::make(reactor_, std::move(connection.socket), net::Descriptors::kAccepted);
  node_ = net::Peer::make(reactor_, link, *this);
  link->start(node_);
  return {};
}

Result<void> Driver::register_job() {
  Fd executable{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  if (!executable) return Error::from_errno("opening this program's executable", errno);
  wire::RegisterJob job{.executable = own_path(),
                        .arguments = {},
                        .environment = process::own_environment(),
                        .folder = std::filesystem::current_path().string(),
                        .build_id = process::own_build_id()};
  job.arguments.push_back(job.executable);
  std::vector<Fd> descriptors;
  descriptors.push_back(std::move(executable));
  const auto deadline = async::Deadline::after(kStartTime, reactor_.now());
  PHAROS_TRY(const net::Parcel answer,
             async::block_on(reactor_, node_->request(std::move(job), std::move(descriptors), deadline)));
  const auto* const registered = std::get_if<wire::JobRegistered>(&answer.message);
  if (registered == nullptr) return Error{ErrorCode::kInternal, "the node gave an answer that fits no job"};
  job_ = registered->job;
  caller_ = registered->caller;
  address_ = registered->address;
  tasks_.set_workers_max(registered->cpus);
  if (!registered->warning.empty()) log(LogLevel::kWarn, "workers start slowly", {kv("why", registered->warning)});
  return {};
}

void Driver::run_io() {
  ::pthread_setname_np(::pthread_self(), "pharos-io");
  while (!io_ends_.load()) reactor_.poll_one(async::Deadline::never());
}

// ---- Driver: what programs ask for

std::shared_ptr<CallLink> Driver::new_link(ActorId actor, std::weak_ptr<CallLink::Observer> observer) {
  return std::make_shared<CallLink>(caller_, actor, flush_queue_, std::move(observer));
}

CellHandle Driver::submit(const RegisteredFunction& function, const Encoder& arguments) {
  CellHandle cell = new_cell();
  if (abandoned()) {
    cell->set_error(forked());
  } else if (function.index == RegisteredFunction::kNoIndex) {
    cell->set_error(not_in_table(function.function));
  } else {
    tasks_.submit(function.index, arguments.bytes(), cell);
  }
  return cell;
}

std::shared_ptr<ActorHandle> Driver::spawn(const ActorOptions& options, const char* type_name,
                                           const RegisteredFunction& constructor, const Encoder& arguments) {
  if (abandoned()) throw_error(forked());
  if (constructor.index == RegisteredFunction::kNoIndex) throw_error(not_in_table(constructor.function));
  const std::string label = options.name.empty() ? actors::readable_name(type_name) : options.name;
  auto actor = ActorHandle::make(shared_from_this(), ActorId{random_u64()}, label);
  {
    const std::lock_guard lock{actors_mutex_};
    actors_.emplace(actor->id(), actor);
  }
  // The constructor is the first call: it is held back, as the others are, until the worker is there.
  actor->construct(constructor.index, arguments.bytes(), new_cell());
  background_.spawn(start_actor(this, actor));
  ActorHandle* const raw = actor.get();
  return {raw, [actor = std::move(actor)](ActorHandle*) { actor->let_go(); }};
}

async::Async<void> Driver::start_actor(Driver* self, std::shared_ptr<ActorHandle> actor) {
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

void Driver::connect_worker(CallLink& link, net::Parcel parcel) {
  const auto* const ready = std::get_if<wire::WorkerReady>(&parcel.message);
  if (ready == nullptr) return link.lose(Error{ErrorCode::kInternal, "the node gave an answer that fits no worker"});
  link.connect(net::SocketLink::make(reactor_, std::move(parcel.descriptors.front()), net::Descriptors::kRefused),
               ready->incarnation);
}

void Driver::end_actor(ActorId actor, bool kill) {
  // By way of the strand, so that the node hears of it after it was asked to start the actor.
  reactor_.post([self = weak_from_this(), actor, kill] {
    const auto driver = self.lock();
    if (driver != nullptr && !driver->stopping_.load()) driver->node_->send(wire::EndActor{actor, kill});
  });
}

// ---- Driver: leases

void Driver::request_lease() {
  background_.spawn(lease_worker(this));
}

async::Async<void> Driver::lease_worker(Driver* self) {
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
  if (!std::exchange(self->watches_idle_workers_, true)) self->background_.spawn(watch_idle_workers(self));
}

async::Async<void> Driver::watch_idle_workers(Driver* self) {
  while (self->tasks_.return_idle_workers()) {
    const auto slept = co_await async::sleep(100ms);
    if (!slept) break;
  }
  self->watches_idle_workers_ = false;
}

void Driver::return_lease(WorkerId worker) {
  node_->send(wire::ReturnLease{worker});
}

// ---- Driver: endings

void Driver::worker_disconnected(WorkerId worker) {
  background_.spawn(give_up_on_worker(this, worker));
}
void Driver::actor_disconnected(ActorId actor) {
  background_.spawn(give_up_on_actor(this, actor));
}

// The node tells why; only when it does not, this does.
async::Async<void> Driver::give_up_on_worker(Driver* self, WorkerId worker) {
  const auto slept = co_await async::sleep(kReasonTime);
  if (slept) self->tasks_.lose_worker(worker, Error{ErrorCode::kWorkerDied, "the worker's connection ended"});
}

async::Async<void> Driver::give_up_on_actor(Driver* self, ActorId actor) {
  const auto slept = co_await async::sleep(kReasonTime);
  if (slept) self->lose_actor(actor, Error{ErrorCode::kActorDied, "the actor's connection ended"});
}

std::shared_ptr<ActorHandle> Driver::take_actor(ActorId actor) {
  const std::lock_guard lock{actors_mutex_};
  const auto found = actors_.find(actor);
  if (found == actors_.end()) return nullptr;
  auto taken = std::move(found->second);
  actors_.erase(found);
  return taken;
}

void Driver::lose_actor(ActorId actor, const Error& why) {
  if (const auto taken = take_actor(actor)) taken->link()->lose(why);
}

void Driver::on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t>) {
  if (const auto* const output = std::get_if<wire::Output>(&parcel.message)) {
    actors::print_worker_output(*output);
  } else if (const auto* const ended = std::get_if<wire::WorkerEnded>(&parcel.message)) {
    if (!ended->actor) {
      tasks_.lose_worker(ended->worker,
                         Error{ErrorCode::kWorkerDied, "the worker that ran the task ended: " + ended->reason});
    } else if (const auto actor = take_actor(ended->actor)) {
      actor->link()->lose(Error{ErrorCode::kActorDied, "actor \"" + actor->label() + "\" ended: " + ended->reason});
    }
  }
}

void Driver::on_peer_closed(net::Peer&, const Error& why) {
  if (stopping_.load()) return;
  lose_everything(Error{ErrorCode::kRuntimeStopped, "the node that served this program is gone: " + why.message(),
                        "Start the program again; the node's last words are on standard error."});
}

std::optional<Error> Driver::over() {
  const std::lock_guard lock{actors_mutex_};
  return over_;
}

void Driver::lose_everything(const Error& why) {
  std::unordered_map<ActorId, std::shared_ptr<ActorHandle>> actors;
  {
    const std::lock_guard lock{actors_mutex_};
    if (!over_) over_ = why;
    actors.swap(actors_);
  }
  for (const auto& [id, actor] : actors) actor->link()->lose(why);
  tasks_.close(why);
}

async::Async<void> Driver::stop_cluster(Driver* self) {
  const auto deadline = async::Deadline::after(kStopTime, self->reactor_.now());
  // A node that is gone already has stopped.
  wire::Message ask = wire::Stop{};
  [[maybe_unused]] const auto done = co_await self->node_->request(std::move(ask), std::vector<Fd>{}, deadline);
  self->node_->close();
}

void Driver::stop() {
  if (abandoned() || stopping_.exchange(true)) return;
  remove_live(this);
  if (node_ != nullptr) {
    if (io_thread_.joinable()) {
      // Before the node ends the job, and answers what is still under way with what that looks like from there.
      lose_everything(stopped());
      async::block_on(reactor_, stop_cluster(this));
      background_.cancel();
      const auto joined = background_.join_blocking(async::Deadline::after(kStopTime, reactor_.now()));
      PHAROS_CHECK(joined.ok(), joined.error());
    } else {
      node_->close();
    }
  }
  room_->close();
  flush_queue_->close();
  if (io_thread_.joinable()) {
    io_ends_.store(true);
    reactor_.post([] {});
    io_thread_.join();
  }
  reap_keeper();
}

void Driver::reap_keeper() {
  if (keeper_ == 0) return;
  const Fd handle{static_cast<int>(::syscall(SYS_pidfd_open, keeper_, 0))};
  pollfd ended{.fd = handle.get(), .events = POLLIN, .revents = 0};
  const auto patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(greeted_ ? kStopTime : kUngreetedStopTime);
  if (handle && ::poll(&ended, 1, static_cast<int>(patience.count())) == 0) {
    if (greeted_) {
      log(LogLevel::kError, "the cluster's keeper does not end", {kv("pid", keeper_)});
      return;
    }
    // Whatever PHAROS_DAEMON names, it is no keeper.
    ::kill(keeper_, SIGKILL);
  }
  // Where the program ignores SIGCHLD the kernel has reaped it already.
  ::waitpid(keeper_, nullptr, 0);
}

void Driver::abandon_after_fork() {
  abandoned_.store(true);
  room_->abandon();
  reactor_.abandon_after_fork();
}

// ---- what the public templates call

bool started_in_a_role();

Encoder& scratch_encoder() {
  thread_local Encoder encoder;
  encoder.clear();
  return encoder;
}

CellHandle call_actor(const ActorHandle& actor, const RegisteredFunction& function, const Encoder& arguments) {
  return const_cast<ActorHandle&>(actor).call(function, arguments);
}
void kill_actor(const ActorHandle& actor) {
  const_cast<ActorHandle&>(actor).kill();
}
ActorId id_of(const ActorHandle& actor) {
  return actor.id();
}

}  // namespace pharos::detail
