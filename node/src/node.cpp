#include "node.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/spawn.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kZygoteTime = 55s;  // to load the program; less than a driver waits
constexpr auto kWorkerTime = 30s;  // from the request to the worker's proof
constexpr auto kZygoteEndTime = 5ms;
constexpr auto kReasonTime = 50ms;    // between a connection's end and the word of how the process ended
constexpr auto kInspectTime = 700ms;  // for workers to answer; less than whoever asks the node waits
constexpr auto kCrashTime = 2s;       // to find out where a worker crashed
constexpr auto kStopTime = 5s;        // for destructors, when all is told to stop
constexpr auto kIdleWorkerTime = 10s;
constexpr std::size_t kOutputQueuedMax = std::size_t{1} << 20;
constexpr int kZygoteRestartsMax = 3;  // without one that lives for kZygoteLife
constexpr auto kZygoteLife = 30s;

// Tasks that wait for tasks keep their processes. Past this many, who waits runs what it waits for itself.
std::uint32_t workers_max(std::uint32_t cpus) {
  return 4 * cpus + 4;
}

std::string describe_end(int status) {
  if (status < 0) return std::string{"it could not be started: "} + ::strerror(-status);
  if (WIFSIGNALED(status)) {
    const char* const name = ::sigabbrev_np(WTERMSIG(status));
    return "its process was killed by " +
           (name == nullptr ? "signal " + std::to_string(WTERMSIG(status)) : std::string{"SIG"} + name);
  }
  return "its process exited with status " + std::to_string(WEXITSTATUS(status));
}

struct Pipe {
  Fd read;
  Fd write;
};
Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("making a pipe", errno);
  Pipe pipe{Fd{ends[0]}, Fd{ends[1]}};
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

/// The key of the one process that is expected at the other end.
net::Acceptor::KeyFor only(net::Identity expected, const net::Key& key) {
  return [expected, key](net::Identity peer) {
    return peer.role == expected.role && peer.id == expected.id ? std::optional{key} : std::nullopt;
  };
}

}  // namespace

struct Node::Job {
  JobId id;
  CallerId caller;
  std::shared_ptr<net::Peer> driver;
  wire::RegisterJob program;
  Fd executable;
  std::string warning;  // why its workers start slowly, if they do

  std::shared_ptr<net::Peer> zygote;  // null while there is none
  pid_t zygote_pid = 0;
  int zygote_restarts = 0;
  TimePoint zygote_since;
  async::Completion<wire::ZygoteReady> zygote_ready;
  bool stopping = false;  // its driver has asked for the end
  bool ended = false;
};

struct Node::Worker {
  WorkerId id;
  std::shared_ptr<Job> job;
  ActorId actor;  // none: runs tasks
  std::uint32_t incarnation = 0;
  std::string label;
  pid_t pid = 0;
  Fd handle;  // pidfd
  std::shared_ptr<net::Peer> control;
  Client user;  // who has leased it, or was the last to
  std::shared_ptr<WorkerOutput> output;
  std::shared_ptr<WorkerOutput> error_output;
  async::Completion<int> reaped;
  bool crashed = false;  // its zygote finds out where
  async::Completion<wire::WorkerCrashed> crash;
  async::Completion<void> concluded;
  std::string killed_because;  // what is known better than how its process ended
  bool gone = false;
  bool failed_to_start = false;  // whoever started it says so
};

struct Node::Inspection {
  wire::Inspected answer;                     // with the workers here
  std::vector<wire::InspectedWorker> actors;  // as the head knows them
  std::size_t missing = 1;                    // answers: the head's, and the workers'
  async::Completion<void> done;

  void take_one() {
    if (--missing == 0) done.complete();
  }
};

// ---- Start and end of the node

Node::Node(net::Reactor& reactor, const Settings& settings, Tell tell_head)
    : reactor_{reactor},
      settings_{settings},
      tell_head_{std::move(tell_head)},
      store_{reactor, settings.object_store},
      leases_{settings.cpus, workers_max(settings.cpus), kIdleWorkerTime},
      background_{reactor} {}

Node::~Node() = default;

// Orphans of workers become this process's children, and so do workers whose zygote is gone.
void Node::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    for (const auto& [id, worker] : workers_) {
      if (worker->pid == pid) worker->reaped.complete(status);
    }
    for (const auto& [id, job] : jobs_) {
      if (job->zygote_pid != pid) continue;
      job->zygote_pid = 0;
      job->zygote_ready.fail(
          Error{ErrorCode::kUnavailable, "the program ended while it was loaded as a zygote: " + describe_end(status)});
    }
  }
}

void Node::close() {
  background_.cancel();
  for (const auto& [id, client] : clients_) client.peer->close();
  while (background_.size() != 0) reactor_.poll_one(async::Deadline::after(1s, reactor_.now()));
}

// ---- Connections

std::shared_ptr<net::Peer> Node::add_driver(Fd socket) {
  return add_peer(std::move(socket));
}

void Node::when_gone(const std::shared_ptr<net::Peer>& driver, std::function<void()> then) {
  when_gone_.emplace(driver.get(), std::move(then));
}

std::shared_ptr<net::Peer> Node::add_peer(Fd socket) {
  const auto link = net::SocketLink::make(reactor_, std::move(socket), net::Descriptors::kAccepted);
  auto peer = net::Peer::make(reactor_, link, *this);
  clients_.emplace(peer.get(), Client{peer, nullptr, nullptr, {}});
  link->start(peer);
  return peer;
}

std::shared_ptr<Node::Worker> Node::find_worker(WorkerId worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : found->second;
}

std::shared_ptr<Node::Worker> Node::find_incarnation(ActorId actor, std::uint32_t incarnation) const {
  for (const auto& [id, worker] : workers_) {
    if (worker->actor == actor && worker->incarnation == incarnation && worker->control != nullptr) return worker;
  }
  return nullptr;
}

void Node::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) {
  const auto found = clients_.find(&from);
  if (found == clients_.end()) return;
  const Client client = found->second;
  if (client.job == nullptr) {
    if (std::holds_alternative<wire::RegisterJob>(parcel.message) && request) {
      return background_.spawn(register_job(this, client.peer, std::move(parcel), *request));
    }
    if (request) from.respond(*request, Error{ErrorCode::kFailedPrecondition, "no job was registered here"});
    return;
  }
  if (!client.caller) return on_zygote_message(*client.job, std::move(parcel));
  if (store_.on_message(client.peer, client.caller, parcel, request)) return;
  const bool known =
      on_caller_message(client, parcel, request) ||
      (client.worker != nullptr ? on_worker_message(client, parcel) : on_driver_message(client, parcel, request));
  if (!known && request) {
    from.respond(*request, Error{ErrorCode::kUnsupported,
                                 "a caller cannot ask for " + std::string{wire::name_of(parcel.message)}});
  }
}

bool Node::on_caller_message(const Client& client, net::Parcel& parcel, std::optional<std::uint64_t> request) {
  if (std::holds_alternative<wire::LeaseWorker>(parcel.message) && request) {
    const scheduler::LeaseRequestId id{++last_number_};
    lease_requests_.emplace(id, Asked{client, *request});
    auto effects = leases_.request(id, {client.job->id, client.caller, client.worker != nullptr});
    if (effects) {
      apply(*effects);
    } else {
      lease_requests_.erase(id);
      client.peer->respond(*request, std::move(effects).error());
    }
  } else if (const auto* const returned = std::get_if<wire::ReturnLease>(&parcel.message)) {
    apply(leases_.returned(returned->worker, client.caller, reactor_.now()));
  } else if (std::holds_alternative<wire::Inspect>(parcel.message)) {
    if (request) background_.spawn(inspect(this, client, *request));
  } else {
    return ask_head(client, parcel.message, request);
  }
  return true;
}

bool Node::on_driver_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request) {
  if (!std::holds_alternative<wire::Stop>(parcel.message) || !request) return false;
  if (!std::exchange(client.job->stopping, true)) background_.spawn(stop_job(this, client.job, *request));
  return true;
}

bool Node::on_worker_message(const Client& client, net::Parcel& parcel) {
  if (const auto* const blocked = std::get_if<wire::WorkerBlocked>(&parcel.message)) {
    apply(blocked->blocked ? leases_.blocked(client.worker->id) : leases_.unblocked(client.worker->id));
  } else if (const auto* const forked = std::get_if<wire::WorkerForked>(&parcel.message)) {
    know_process(*client.worker, forked->pid, std::move(parcel.descriptors.front()));
  } else if (const auto* const made = std::get_if<wire::ActorConstructed>(&parcel.message)) {
    if (made->actor != client.worker->actor || made->incarnation != client.worker->incarnation) return true;
    tell_head_(*made);
  } else {
    return false;
  }
  return true;
}

void Node::know_process(Worker& worker, pid_t pid, Fd handle) {
  if (worker.handle) return;
  worker.pid = pid;
  worker.handle = std::move(handle);
  if (worker.gone || worker.job->ended) kill_worker(worker);
}

void Node::on_zygote_message(Job& job, net::Parcel parcel) {
  if (const auto* const ready = std::get_if<wire::ZygoteReady>(&parcel.message)) {
    job.zygote_ready.complete(*ready);
  } else if (const auto* const forked = std::get_if<wire::WorkerForked>(&parcel.message)) {
    if (const auto worker = find_worker(forked->worker)) {
      know_process(*worker, forked->pid, std::move(parcel.descriptors.front()));
    }
  } else if (const auto* const reaped = std::get_if<wire::WorkerReaped>(&parcel.message)) {
    if (const auto worker = find_worker(reaped->worker)) {
      worker->crashed = reaped->crashed;
      worker->reaped.complete(reaped->status);
    }
  } else if (const auto* const crashed = std::get_if<wire::WorkerCrashed>(&parcel.message)) {
    if (const auto worker = find_worker(crashed->worker)) worker->crash.complete(*crashed);
  }
}

void Node::on_peer_closed(net::Peer& peer, const Error&) {
  const auto found = clients_.find(&peer);
  if (found == clients_.end()) return;
  const Client client = found->second;  // keeps it until this is done
  clients_.erase(found);
  if (const auto watched = when_gone_.extract(&peer); !watched.empty()) watched.mapped()();
  if (client.job == nullptr) return;
  if (client.worker != nullptr) {
    end_caller(client);
    return background_.spawn(conclude_worker(this, client.worker));
  }
  if (client.caller) return end_job(client.job->id);
  client.job->zygote = nullptr;
  // Whoever waits for this one is told; the next has a word of its own.
  client.job->zygote_ready.fail(Error{ErrorCode::kUnavailable, "the program ended while it was loaded as a zygote"});
  if (!client.job->ended) background_.spawn(restart_zygote(this, client.job));
}

// What it asked for and what it started is nobody's now.
void Node::end_caller(const Client& client) {
  std::erase_if(lease_requests_, [&](const auto& entry) { return entry.second.client.caller == client.caller; });
  std::erase_if(asked_, [&](const auto& entry) { return entry.second.client.caller == client.caller; });
  apply(leases_.lessee_ended(client.caller));
  tell_head_(wire::EndCaller{client.caller});
}

// ---- Jobs and zygotes

async::Async<void> Node::register_job(Node* self, std::shared_ptr<net::Peer> driver, net::Parcel parcel,
                                      std::uint64_t request) {
  if (self->refusal_) {
    driver->respond(request, *self->refusal_);
    co_return;
  }
  auto job = std::make_shared<Job>();
  job->id = JobId{random_u64()};
  job->caller = CallerId{random_u64()};
  job->driver = driver;
  job->program = std::move(std::get<wire::RegisterJob>(parcel.message));
  job->executable = std::move(parcel.descriptors.front());
  self->jobs_.emplace(job->id, job);
  self->clients_.insert_or_assign(driver.get(), Client{driver, job, nullptr, job->caller});
  self->tell_head_(wire::AddJob{job->id, job->program});
  auto started = co_await start_zygote(self, job);
  if (!started) {
    self->end_job(job->id);
    driver->respond(request, std::move(started).error());
    co_return;
  }
  const auto ready = co_await job->zygote_ready.wait(async::Deadline::after(kZygoteTime, self->reactor_.now()));
  if (!ready) {
    self->end_job(job->id);
    driver->respond(request, Error{ready.error()}.with("loading " + job->program.executable + " for its workers"));
    co_return;
  }
  if (ready->build_id != job->program.build_id) {
    self->end_job(job->id);
    driver->respond(request, Error{ErrorCode::kFailedPrecondition,
                                   "the zygote of " + job->program.executable + " is another build than the program",
                                   "Start the program again."});
    co_return;
  }
  job->warning = ready->cannot_fork;
  driver->respond(request, self->registration_of(*job, job->caller));
}

wire::JobRegistered Node::registration_of(const Job& job, CallerId caller) const {
  return {.job = job.id,
          .caller = caller,
          .node = settings_.id,
          .cpus = leases_.cpus(),
          .warning = job.warning,
          .address = settings_.address};
}

async::Async<Result<void>> Node::start_zygote(Node* self, std::shared_ptr<Job> job) {
  constexpr int kSocket = 3;
  PHAROS_CO_TRY(net::SocketPair pair, net::socket_pair());
  process::Preamble preamble;
  preamble.key = net::derive_key(self->settings_.token, net::Role::kZygote, job->id.value());
  preamble.id = job->id.value();
  PHAROS_CO_TRY_VOID(process::send_preamble(pair.first.get(), preamble));
  process::Program program{.path = job->program.executable,
                           .executable = Fd{::fcntl(job->executable.get(), F_DUPFD_CLOEXEC, 0)},
                           .arguments = job->program.arguments,
                           .environment = job->program.environment,
                           .moved = {{pair.second.get(), kSocket}},
                           .folder = job->program.folder,
                           .new_session = true};
  program.environment.push_back(process::role_variable(process::InheritedRole::kZygote, kSocket));
  PHAROS_CO_TRY(job->zygote_pid, process::spawn(program));
  pair.second.reset();
  const auto deadline = async::Deadline::after(kZygoteTime, self->reactor_.now());
  net::Acceptor::KeyFor key_for = only({net::Role::kZygote, preamble.id}, preamble.key);
  const auto identity =
      co_await net::accept(&self->reactor_, pair.first.get(), self->identity(), std::move(key_for), deadline);
  if (!identity) co_return Error{identity.error()}.with("loading " + job->program.executable + " for its workers");
  job->zygote = self->add_peer(std::move(pair.first));
  self->clients_.insert_or_assign(job->zygote.get(), Client{job->zygote, job, nullptr, {}});
  job->zygote_since = self->reactor_.now();
  co_return {};
}

async::Async<void> Node::restart_zygote(Node* self, std::shared_ptr<Job> job) {
  if (self->reactor_.now() - job->zygote_since >= kZygoteLife) job->zygote_restarts = 0;
  while (!job->ended && ++job->zygote_restarts <= kZygoteRestartsMax) {
    log(LogLevel::kWarn, "a program's zygote ended, and is started again", {kv("job", job->id)});
    job->zygote_ready = {};
    const auto started = co_await start_zygote(self, job);
    if (started) co_return;
    log(LogLevel::kError, "a program's zygote cannot be started", {kv("job", job->id), kv("error", started.error())});
  }
  if (!job->ended) log(LogLevel::kError, "a program's zygote ends again and again", {kv("job", job->id)});
}

void Node::end_job(JobId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const auto job = found->second;
  job->ended = true;
  jobs_.erase(found);
  std::erase_if(lease_requests_, [&](const auto& entry) { return entry.second.client.job == job; });
  std::erase_if(asked_, [&](const auto& entry) { return entry.second.client.job == job; });
  apply(leases_.job_ended(id));
  tell_head_(wire::EndJob{id});
  for (const auto& [worker_id, worker] : workers_) {
    if (worker->job == job) kill_worker(*worker);
  }
  if (job->zygote != nullptr) {
    clients_.erase(job->zygote.get());
    job->zygote->close();
  } else if (job->zygote_pid != 0) {
    ::kill(job->zygote_pid, SIGKILL);
  }
}

// ---- Workers

async::Async<Result<std::shared_ptr<Node::Worker>>> Node::start_worker(Node* self, std::shared_ptr<Job> job,
                                                                       ActorId actor, std::string label,
                                                                       std::uint32_t incarnation) {
  const auto deadline = async::Deadline::after(kWorkerTime, self->reactor_.now());
  for (;;) {
    // A zygote that ended comes back within this time, or not at all.
    while (job->zygote == nullptr) {
      if (job->ended || job->zygote_restarts > kZygoteRestartsMax || deadline.expired(self->reactor_.now())) {
        co_return Error{ErrorCode::kUnavailable, "the program's zygote is gone, so it can have no new workers"};
      }
      PHAROS_CO_TRY_VOID(co_await async::sleep(5ms));
    }
    const auto zygote = job->zygote;
    auto worker = co_await fork_worker(self, job, actor, label, incarnation, deadline);
    if (worker || job->ended) co_return worker;
    // The zygote may have ended with the request unread. Its end is known at about the same time.
    PHAROS_CO_TRY_VOID(co_await async::sleep(kZygoteEndTime));
    if (job->zygote == zygote) co_return worker;
  }
}

async::Async<Result<std::shared_ptr<Node::Worker>>> Node::fork_worker(Node* self, std::shared_ptr<Job> job,
                                                                      ActorId actor, std::string label,
                                                                      std::uint32_t incarnation,
                                                                      async::Deadline deadline) {
  auto worker = std::make_shared<Worker>();
  worker->id = WorkerId{random_u64()};
  worker->job = job;
  worker->actor = actor;
  worker->incarnation = incarnation;
  worker->label = std::move(label);

  PHAROS_CO_TRY(net::SocketPair control, net::socket_pair());
  PHAROS_CO_TRY(Pipe out, make_pipe());
  PHAROS_CO_TRY(Pipe error, make_pipe());
  process::Preamble preamble;
  preamble.key = net::derive_key(self->settings_.token, net::Role::kWorker, worker->id.value());
  preamble.id = worker->id.value();
  preamble.set_name(worker->label);
  PHAROS_CO_TRY_VOID(process::send_preamble(control.first.get(), preamble));
  std::vector<Fd> descriptors;
  descriptors.push_back(std::move(control.second));
  descriptors.push_back(std::move(out.write));
  descriptors.push_back(std::move(error.write));
  self->workers_.emplace(worker->id, worker);
  const auto stream = [&](Fd pipe, bool is_error) {
    auto* const raw = worker.get();
    return WorkerOutput::make(
        self->reactor_, std::move(pipe), [raw] { return raw->job->driver->queued() < kOutputQueuedMax; },
        [raw, is_error](std::string lines) {
          raw->job->driver->send(wire::Output{raw->label, raw->pid, is_error, std::move(lines)});
        });
  };
  worker->output = stream(std::move(out.read), false);
  worker->error_output = stream(std::move(error.read), true);
  job->zygote->send(wire::ForkWorker{worker->id}, std::move(descriptors));

  net::Acceptor::KeyFor key_for = only({net::Role::kWorker, preamble.id}, preamble.key);
  const auto identity =
      co_await net::accept(&self->reactor_, control.first.get(), self->identity(), std::move(key_for), deadline);
  if (!identity || job->ended) {
    worker->failed_to_start = true;
    self->kill_worker(*worker);
    self->background_.spawn(conclude_worker(self, worker));
    if (!identity) {
      co_return Error{ErrorCode::kWorkerDied, "a worker ended before it was ready: " + identity.error().message()}
          .with_outcome(Outcome::kNotStarted);
    }
    co_return Error{ErrorCode::kRuntimeStopped, "the program has ended"}.with_outcome(Outcome::kNotStarted);
  }
  worker->control = self->add_peer(std::move(control.first));
  const CallerId caller{worker->id.value()};
  self->clients_.insert_or_assign(worker->control.get(), Client{worker->control, job, worker, caller});
  worker->control->send(self->registration_of(*job, caller));
  co_return worker;
}

void Node::hand_over(Worker& worker, const Client& user, std::uint64_t request, const wire::ActorAlive& alive) {
  auto pair = net::socket_pair();
  if (!pair) {
    user.peer->respond(request, std::move(pair).error());
    return;
  }
  if (!worker.actor) worker.user = user;
  std::vector<Fd> to_worker;
  to_worker.push_back(std::move(pair->first));
  std::vector<Fd> to_user;
  to_user.push_back(std::move(pair->second));
  worker.control->send(wire::ServeCaller{user.caller, worker.actor, worker.incarnation}, std::move(to_worker));
  user.peer->respond(request,
                     wire::WorkerReady{worker.id, worker.actor, worker.incarnation, worker.pid, alive.max_task_retries,
                                       false, alive.ended},
                     std::move(to_user));
}

// ---- Actors

namespace {

/// Null for what is no question to the head.
wire::Asker* asker_of(wire::Message& message) {
  return std::visit(
      [](auto& alternative) -> wire::Asker* {
        if constexpr (requires { alternative.asker; }) return &alternative.asker;
        return nullptr;
      },
      message);
}

}  // namespace

bool Node::ask_head(const Client& client, wire::Message& message, std::optional<std::uint64_t> request) {
  wire::Asker* const asker = asker_of(message);
  if (asker == nullptr) return false;
  *asker = {client.job->id, client.caller, ++last_number_};
  if (request) asked_.emplace(asker->number, Asked{client, *request});
  tell_head_(std::move(message));
  return true;
}

void Node::on_head_message(wire::Message message) {
  if (auto* const start = std::get_if<wire::StartIncarnation>(&message)) {
    starting_.emplace(start->actor, std::nullopt);
    background_.spawn(start_incarnation(this, std::move(*start)));
  } else if (const auto* const end = std::get_if<wire::EndIncarnation>(&message)) {
    end_incarnation(*end);
  } else if (const auto* const alive = std::get_if<wire::ActorAlive>(&message)) {
    on_actor_alive(*alive);
  } else if (auto* const found = std::get_if<wire::ActorFound>(&message)) {
    if (const auto asked = asked_.extract(found->number); !asked.empty()) {
      asked.mapped().client.peer->respond(asked.mapped().request, std::move(message));
    }
  } else if (auto* const inspected = std::get_if<wire::Inspected>(&message)) {
    const auto inspection = inspections_.find(inspected->number);
    if (inspection == inspections_.end()) return;
    inspection->second->actors = std::move(inspected->workers);
    inspection->second->take_one();
  } else if (auto* const refused = std::get_if<wire::Refused>(&message)) {
    if (const auto asked = asked_.extract(refused->number); !asked.empty()) {
      asked.mapped().client.peer->respond(asked.mapped().request, std::move(refused->why));
    }
  }
}

void Node::on_actor_alive(const wire::ActorAlive& alive) {
  const auto asked = asked_.find(alive.number);
  if (asked == asked_.end()) return;
  const Client client = asked->second.client;
  if (const auto worker = find_incarnation(alive.actor, alive.incarnation); worker != nullptr && !worker->crashed) {
    const std::uint64_t request = asked->second.request;
    asked_.erase(asked);
    return hand_over(*worker, client, request, alive);
  }
  // It has just ended, and the head is about to know; of a crash, when it is known where.
  tell_head_(wire::ConnectActor{alive.actor, alive.incarnation, {client.job->id, client.caller, alive.number}});
}

void Node::end_incarnation(const wire::EndIncarnation& end) {
  if (const auto worker = find_incarnation(end.actor, end.incarnation)) {
    if (!end.kill) return end_worker(worker);
    return kill_worker(*worker);
  }
  // Its process is being started.
  if (const auto starting = starting_.find(end.actor); starting != starting_.end()) starting->second = end;
}

async::Async<void> Node::start_incarnation(Node* self, wire::StartIncarnation start) {
  const auto found = self->jobs_.find(start.job);
  Result<std::shared_ptr<Worker>> worker = Error{ErrorCode::kRuntimeStopped, "the program has ended"};
  if (found != self->jobs_.end()) {
    const auto job = found->second;
    worker = co_await start_worker(self, job, start.actor, start.label, start.incarnation);
  }
  const auto end = std::move(self->starting_.extract(start.actor).mapped());
  if (!worker) {
    self->tell_head_(wire::IncarnationEnded{start.actor, start.incarnation, worker.error().message()});
    co_return;
  }
  (*worker)->control->send(wire::ConstructActor{start.actor, start.incarnation, start.constructor,
                                                std::move(start.arguments), start.in_pieces});
  if (end) self->end_incarnation(*end);
}

// ---- Leases

async::Async<void> Node::start_leased(Node* self, std::shared_ptr<Job> job, scheduler::LeaseRequestId request) {
  auto worker = co_await start_worker(self, job, ActorId{}, "task worker", 0);
  if (worker) {
    self->apply(self->leases_.worker_started(request, (*worker)->id));
    co_return;
  }
  const auto found = self->lease_requests_.find(request);
  if (found != self->lease_requests_.end()) {
    found->second.client.peer->respond(found->second.request, std::move(worker).error());
    self->lease_requests_.erase(found);
  }
  self->apply(self->leases_.start_failed(request));
}

void Node::apply(const scheduler::LeaseEffects& effects) {
  for (const auto& effect : effects) {
    if (const auto* const grant = std::get_if<scheduler::Grant>(&effect)) {
      const auto request = lease_requests_.find(grant->request);
      const auto worker = find_worker(grant->worker);
      if (request == lease_requests_.end() || worker == nullptr) continue;
      const Asked asked = request->second;
      lease_requests_.erase(request);
      hand_over(*worker, asked.client, asked.request, {});
    } else if (const auto* const start = std::get_if<scheduler::StartWorker>(&effect)) {
      if (const auto job = jobs_.find(start->job); job != jobs_.end()) {
        background_.spawn(start_leased(this, job->second, start->request));
      }
    } else if (const auto* const end = std::get_if<scheduler::EndWorker>(&effect)) {
      if (const auto worker = find_worker(end->worker)) end_worker(worker);
    }
  }
  if (leases_.idle() != 0 && !std::exchange(ends_idle_workers_, true)) background_.spawn(end_idle_workers(this));
}

async::Async<void> Node::end_idle_workers(Node* self) {
  while (self->leases_.idle() != 0) {
    const auto slept = co_await async::sleep(1s);
    if (!slept) break;
    self->apply(self->leases_.tick(self->reactor_.now()));
  }
  self->ends_idle_workers_ = false;
}

void Node::kill_worker(Worker& worker) {
  worker.gone = true;  // for one whose process is not known yet
  if (!worker.handle) return;
  ::syscall(SYS_pidfd_send_signal, worker.handle.get(), SIGKILL, nullptr, 0);
  // What it started and left in its process group. The group's number is not reused while the group has members.
  ::kill(-worker.pid, SIGKILL);
}

void Node::end_worker(const std::shared_ptr<Worker>& worker) {
  if (worker->control == nullptr) return kill_worker(*worker);
  worker->control->send(wire::EndWorker{});
  reactor_.run_at(reactor_.now() + kStopTime, [this, weak = std::weak_ptr{worker}] {
    if (const auto late = weak.lock()) kill_worker(*late);
  });
}

// Its connection has ended. How its process ended is known a moment later.
async::Async<void> Node::conclude_worker(Node* self, std::shared_ptr<Worker> worker) {
  auto reaped = co_await worker->reaped.wait(async::Deadline::after(kReasonTime, self->reactor_.now()));
  if (!reaped) {
    // A process that closed its connection but lives on serves nobody.
    self->kill_worker(*worker);
    reaped = co_await worker->reaped.wait(async::Deadline::after(kReasonTime, self->reactor_.now()));
  }
  std::string reason = reaped ? describe_end(*reaped) : "its connection ended";
  if (!worker->killed_because.empty()) reason = worker->killed_because;
  if (worker->handle) ::kill(-worker->pid, SIGKILL);
  worker->output->drain();
  worker->error_output->drain();
  if (worker->crashed) {
    auto crash = co_await worker->crash.wait(async::Deadline::after(kCrashTime, self->reactor_.now()));
    if (crash) {
      reason += crash->headline;
      worker->job->driver->send(wire::Output{worker->label, worker->pid, true, crash->report, true});
    }
  }
  self->apply(self->leases_.worker_ended(worker->id));
  if (!worker->job->ended && worker->user.peer != nullptr) {
    worker->user.peer->send(wire::WorkerEnded{worker->id, reason});
  }
  self->workers_.erase(worker->id);
  if (worker->actor && !worker->failed_to_start) {
    self->tell_head_(wire::IncarnationEnded{worker->actor, worker->incarnation, reason});
  }
  worker->concluded.complete();
}

async::Async<void> Node::inspect(Node* self, Client client, std::uint64_t request) {
  const auto inspection = std::make_shared<Inspection>();
  inspection->answer.cpus = self->leases_.cpus();
  inspection->answer.cpus_in_use = self->leases_.in_use();
  const std::uint64_t number = ++self->last_number_;
  self->inspections_.emplace(number, inspection);
  self->tell_head_(wire::Inspect{{client.job->id, client.caller, number}});
  const auto deadline = async::Deadline::after(kInspectTime, self->reactor_.now());
  auto& workers = inspection->answer.workers;
  for (const auto& [id, worker] : self->workers_) {
    if (worker->job != client.job) continue;
    workers.push_back({.worker = id, .actor = worker->actor, .label = worker->label, .pid = worker->pid});
    if (worker->control == nullptr) continue;
    ++inspection->missing;
    self->background_.spawn(inspect_worker(inspection, worker, deadline));
  }
  // Those that do not answer are told as such.
  [[maybe_unused]] const auto all = co_await inspection->done.wait(deadline);
  self->inspections_.erase(number);
  for (wire::InspectedWorker& actor : inspection->actors) {
    const auto here =
        std::find_if(workers.begin(), workers.end(), [&](const auto& each) { return each.actor == actor.actor; });
    if (here != workers.end()) {
      here->state = std::move(actor.state);
    } else {
      workers.push_back(std::move(actor));
    }
  }
  client.peer->respond(request, inspection->answer);
}

async::Async<void> Node::inspect_worker(std::shared_ptr<Inspection> inspection, std::shared_ptr<Worker> worker,
                                        async::Deadline deadline) {
  wire::Message ask = wire::Inspect{};
  const auto answer = co_await worker->control->request(std::move(ask), std::vector<Fd>{}, deadline);
  const auto* const inspected = answer ? std::get_if<wire::Inspected>(&answer->message) : nullptr;
  if (inspected != nullptr && inspected->workers.size() == 1) {
    const wire::InspectedWorker& told = inspected->workers.front();
    for (wire::InspectedWorker& entry : inspection->answer.workers) {
      if (entry.worker != worker->id) continue;
      entry.answered = true;
      entry.function = told.function;
      entry.nanoseconds = told.nanoseconds;
      entry.caller = told.caller;
      entry.number = told.number;
      entry.waits = told.waits;
    }
  }
  inspection->take_one();
}

async::Async<void> Node::stop_job(Node* self, std::shared_ptr<Job> job, std::uint64_t request) {
  std::vector<std::shared_ptr<Worker>> workers;
  for (const auto& [id, worker] : self->workers_) {
    if (worker->job == job) workers.push_back(worker);
  }
  for (const auto& worker : workers) self->end_worker(worker);
  const auto deadline = async::Deadline::after(kStopTime + kReasonTime, self->reactor_.now());
  for (const auto& worker : workers) {
    const auto concluded = co_await worker->concluded.wait(deadline);
    if (!concluded) log(LogLevel::kError, "a worker does not end", {kv("pid", worker->pid)});
  }
  const auto driver = job->driver;
  self->end_job(job->id);
  driver->respond(request, wire::Done{});
}

}  // namespace pharos::node
