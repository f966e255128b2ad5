#include "node.hpp"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

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
constexpr auto kFarStopTime = 1s;     // more, for the word that other nodes have stopped
constexpr auto kIdleWorkerTime = 10s;
constexpr auto kReachTime = 3s;
constexpr auto kAskAgainTime = 200ms;
constexpr auto kReachPatience = 15s;         // with an actor: longer than it takes to find that its node is lost
constexpr std::uint32_t kFarLeasesMin = 16;  // that a driver without CPUs beside it asks for at once
constexpr std::size_t kFarOutputQueuedMax = std::size_t{16} << 20;
constexpr std::size_t kOutputQueuedMax = std::size_t{1} << 20;
constexpr int kZygoteRestartsMax = 3;  // without one that lives for kZygoteLife
constexpr auto kZygoteLife = 30s;

std::uint32_t whole_cpus(const scheduler::Resources& resources) {
  return static_cast<std::uint32_t>((resources.cpus() + scheduler::Resources::kWhole - 1) /
                                    scheduler::Resources::kWhole);
}

// Tasks that wait for tasks keep their processes. Past this many, who waits runs what it waits for itself.
std::uint32_t workers_max(std::uint32_t cpus) {
  return 4 * cpus + 4;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

std::string hex(const wire::BuildId& id) {
  std::string text;
  for (const std::uint8_t byte : id) text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return text;
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

}  // namespace

struct Node::Job {
  JobId id;
  CallerId caller;
  std::shared_ptr<net::Peer> driver;  // null: at another node
  wire::RegisterJob program;
  Fd executable;
  bool loaded = false;          // its build has been looked at
  std::optional<Error> broken;  // why it cannot be run here
  std::string warning;          // why its workers start slowly, if they do

  std::shared_ptr<net::Peer> zygote;  // null while there is none
  pid_t zygote_pid = 0;
  int zygote_restarts = 0;
  TimePoint zygote_since;
  async::Completion<wire::ZygoteReady> zygote_ready;
  bool stopping = false;  // its driver has asked for the end
  async::Completion<void> stopped_elsewhere;
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
  Client user;        // who has leased it, or was the last to
  CallerId far_user;  // the same, at another node
  std::shared_ptr<Host::Output> output;
  std::shared_ptr<Host::Output> error_output;
  async::Completion<int> reaped;
  bool crashed = false;  // its zygote finds out where
  async::Completion<wire::WorkerCrashed> crash;
  async::Completion<void> concluded;
  scheduler::ReservationId reservation;  // of an actor
  std::vector<std::string> gpus;         // that it sees
  wire::Holding holding;                 // of the tasks of its far user
  std::string killed_because;            // what is known better than how its process ended
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

Node::Node(async::Executor& executor, Host& host, const Settings& settings, Tell tell_head, Queued queued_to_head)
    : executor_{executor},
      host_{host},
      settings_{settings},
      tell_head_{std::move(tell_head)},
      queued_to_head_{std::move(queued_to_head)},
      leases_{settings.machine.resources, workers_max(whole_cpus(settings.machine.resources)), kIdleWorkerTime},
      background_{executor} {}

Node::~Node() = default;

// Orphans of workers become this process's children, and so do workers whose zygote is gone.
void Node::on_child_ended(pid_t pid, int status) {
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

void Node::close() {
  background_.cancel();
  for (const auto& [id, client] : clients_) client.peer->close();
  for (const auto& [id, worker] : workers_) worker->user = {};  // workers may be each other's
}

std::string Node::leftovers() const {
  std::string left;
  const auto count = [&](const char* what, std::size_t n) {
    if (n != 0) left += "node " + to_string(settings_.id) + ": " + what + ": " + std::to_string(n) + '\n';
  };
  count("connections", clients_.size());
  count("jobs", jobs_.size());
  count("workers", workers_.size());
  count("lease requests", lease_requests_.size());
  count("questions to the head", asked_.size());
  count("far leases", far_leases_.size());
  count("starting", starting_.size());
  count("inspections", inspections_.size());
  count("coroutines", background_.size());
  if (leases_.left() != leases_.total()) left += "not given back: all but " + leases_.left().to_string() + '\n';
  return left;
}

// ---- Connections

std::shared_ptr<net::Peer> Node::add_driver(Fd socket) {
  return add_peer(std::move(socket));
}

void Node::when_gone(const std::shared_ptr<net::Peer>& driver, std::function<void()> then) {
  when_gone_.emplace(driver.get(), std::move(then));
}

std::shared_ptr<net::Peer> Node::add_peer(Fd socket) {
  const auto link = host_.make_link(std::move(socket), net::Descriptors::kAccepted);
  auto peer = net::Peer::make(executor_, link, *this);
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
  if (host_.on_store_message(client.peer, client.caller, parcel, request)) return;
  const bool known =
      on_caller_message(client, parcel, request) ||
      (client.worker != nullptr ? on_worker_message(client, parcel) : on_driver_message(client, parcel, request));
  if (!known && request) {
    from.respond(*request, Error{ErrorCode::kUnsupported,
                                 "a caller cannot ask for " + std::string{wire::name_of(parcel.message)}});
  }
}

bool Node::on_caller_message(const Client& client, net::Parcel& parcel, std::optional<std::uint64_t> request) {
  if (const auto* const lease = std::get_if<wire::LeaseWorker>(&parcel.message); lease != nullptr && request) {
    return on_lease_request(client, *lease, *request);
  }
  if (const auto* const returned = std::get_if<wire::ReturnLease>(&parcel.message)) {
    if (far_leases_.erase(returned->worker) != 0) {
      tell_head_(wire::ReturnLease{returned->worker, client.caller, returned->broken});
    } else {
      take_back(*returned, client.caller);
    }
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
  for (const auto& [id, worker] : workers_) {
    if (worker->job == client.job) worker->crash.fail(Error{ErrorCode::kUnavailable, "its zygote has ended"});
  }
  // Whoever waits for this one is told; the next has a word of its own.
  client.job->zygote_ready.fail(Error{ErrorCode::kUnavailable, "the program ended while it was loaded as a zygote"});
  if (!client.job->ended && client.job->loaded) background_.spawn(restart_zygote(this, client.job));
}

// What it asked for and what it started is nobody's now.
void Node::end_caller(const Client& client) {
  std::erase_if(lease_requests_, [&](const auto& entry) { return entry.second.client.caller == client.caller; });
  std::erase_if(asked_, [&](const auto& entry) { return entry.second.client.caller == client.caller; });
  std::erase_if(far_leases_, [&](const auto& entry) { return entry.second.caller == client.caller; });
  apply(leases_.lessee_ended(client.caller));
  tell_head_(wire::EndCaller{client.caller});
}

// ---- Jobs and zygotes

async::Async<void> Node::register_job(Node* self, std::shared_ptr<net::Peer> driver, net::Parcel parcel,
                                      std::uint64_t request) {
  if (!self->clients_.contains(driver.get())) co_return;  // it has ended meanwhile
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
  // A node that gives nothing runs nothing.
  if (!self->settings_.machine.resources.empty()) {
    const auto loaded = co_await load_program(self, job);
    if (!loaded) {
      self->end_job(job->id);
      driver->respond(request, loaded.error());
      co_return;
    }
  }
  driver->respond(request, self->registration_of(*job, job->caller));
}

async::Async<Result<void>> Node::load_program(Node* self, std::shared_ptr<Job> job) {
  const std::string loading = "loading " + job->program.executable + " for its workers";
  auto started = co_await start_zygote(self, job);
  if (!started) co_return std::move(started).error();
  const auto ready = co_await job->zygote_ready.wait(async::Deadline::after(kZygoteTime, self->executor_.now()));
  if (!ready) co_return Error{ready.error()}.with(loading);
  if (ready->build_id != job->program.build_id) {
    if (job->driver != nullptr) {
      co_return Error{ErrorCode::kFailedPrecondition,
                      "the zygote of " + job->program.executable + " is another build than the program",
                      "Start the program again."};
    }
    co_return Error{ErrorCode::kFailedPrecondition,
                    job->program.executable + " is build " + hex(ready->build_id) + " on this node, and build " +
                        hex(job->program.build_id) + " where the program runs",
                    "Put the same executable at that path on every node."};
  }
  job->warning = ready->cannot_fork;
  job->loaded = true;
  if (job->zygote == nullptr && !job->ended) self->background_.spawn(restart_zygote(self, job));  // it has just ended
  co_return {};
}

// ---- Programs of other nodes

void Node::add_far_job(wire::AddJob add) {
  auto job = std::make_shared<Job>();
  job->id = add.job;
  job->program = std::move(add.program);
  job->executable = Fd{::open(job->program.executable.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!job->executable) {
    job->broken =
        Error::from_errno("opening " + job->program.executable, errno, "Put the program at that path on every node.");
  }
  jobs_.emplace(job->id, job);
  if (!job->broken) background_.spawn(load_far_program(this, job));
}

async::Async<void> Node::load_far_program(Node* self, std::shared_ptr<Job> job) {
  auto loaded = co_await load_program(self, job);
  // One that ended may have been killed; a program that cannot be loaded ends again.
  while (!loaded && loaded.error().code() == ErrorCode::kUnavailable && ++job->zygote_restarts <= kZygoteRestartsMax) {
    self->drop_zygote(*job);
    job->zygote_ready = {};
    loaded = co_await load_program(self, job);
  }
  if (loaded) co_return;
  job->broken = loaded.error();
  self->drop_zygote(*job);
}

void Node::drop_zygote(Job& job) {
  if (job.zygote == nullptr) return;
  clients_.erase(job.zygote.get());
  std::exchange(job.zygote, nullptr)->close();
}

wire::JobRegistered Node::registration_of(const Job& job, CallerId caller) const {
  return {.job = job.id,
          .caller = caller,
          .node = settings_.id,
          .cpus = leases_.total().cpus() != 0 ? whole_cpus(leases_.total()) : std::max(cluster_cpus_, kFarLeasesMin),
          .warning = job.warning,
          .address = settings_.address};
}

async::Async<Result<void>> Node::start_zygote(Node* self, std::shared_ptr<Job> job) {
  const Error over{ErrorCode::kRuntimeStopped, "the program has ended"};
  if (job->ended) co_return over;
  const net::Identity child{net::Role::kZygote, job->id.value()};
  PHAROS_CO_TRY(net::SocketPair pair, self->host_.make_inheritance(child, {}));
  PHAROS_CO_TRY(job->zygote_pid, self->host_.start_zygote(job->program, job->executable.get(), std::move(pair.second)));
  const auto deadline = async::Deadline::after(kZygoteTime, self->executor_.now());
  auto proved = co_await self->host_.prove(pair.first.get(), child, deadline);
  if (!proved) co_return std::move(proved).error().with("loading " + job->program.executable + " for its workers");
  if (job->ended) co_return over;
  job->zygote = self->add_peer(std::move(pair.first));
  self->clients_.insert_or_assign(job->zygote.get(), Client{job->zygote, job, nullptr, {}});
  job->zygote_since = self->executor_.now();
  co_return {};
}

async::Async<void> Node::restart_zygote(Node* self, std::shared_ptr<Job> job) {
  if (self->executor_.now() - job->zygote_since >= kZygoteLife) job->zygote_restarts = 0;
  while (!job->ended && !job->broken && ++job->zygote_restarts <= kZygoteRestartsMax) {
    log(LogLevel::kWarn, "a program's zygote ended, and is started again", {kv("job", job->id)});
    job->zygote_ready = {};
    const auto started = co_await start_zygote(self, job);
    if (started || job->ended) co_return;
    log(LogLevel::kError, "a program's zygote cannot be started", {kv("job", job->id), kv("error", started.error())});
  }
  if (!job->ended) log(LogLevel::kError, "a program's zygote ends again and again", {kv("job", job->id)});
}

void Node::end_job(JobId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const auto job = found->second;
  job->ended = true;
  job->zygote_ready.fail(Error{ErrorCode::kRuntimeStopped, "the program has ended"});
  jobs_.erase(found);
  std::erase_if(lease_requests_, [&](const auto& entry) { return entry.second.client.job == job; });
  std::erase_if(asked_, [&](const auto& entry) { return entry.second.client.job == job; });
  std::erase_if(far_leases_, [&](const auto& entry) { return entry.second.job == job; });
  apply(leases_.job_ended(id));
  tell_head_(wire::EndJob{id});
  for (const auto& [worker_id, worker] : workers_) {
    if (worker->job == job) kill_worker(*worker);
  }
  if (job->zygote != nullptr) {
    drop_zygote(*job);
  } else if (job->zygote_pid != 0) {
    host_.kill_zygote(job->zygote_pid);
  }
}

// ---- Workers

async::Async<Result<std::shared_ptr<Node::Worker>>> Node::start_worker(Node* self, std::shared_ptr<Job> job,
                                                                       ActorId actor, std::string label,
                                                                       std::uint32_t incarnation,
                                                                       std::vector<std::string> gpus) {
  const auto deadline = async::Deadline::after(kWorkerTime, self->executor_.now());
  for (;;) {
    // A zygote that ended comes back within this time, or not at all.
    while (job->zygote == nullptr || !job->loaded) {
      if (job->broken) co_return Error{*job->broken}.with("on node " + to_string(self->settings_.id));
      if (job->ended || job->zygote_restarts > kZygoteRestartsMax || deadline.expired(self->executor_.now())) {
        co_return Error{ErrorCode::kUnavailable, "the program's zygote is gone, so it can have no new workers"};
      }
      PHAROS_CO_TRY_VOID(co_await async::sleep(5ms));
    }
    const auto zygote = job->zygote;
    auto worker = co_await fork_worker(self, job, actor, label, incarnation, gpus, deadline);
    if (worker || job->ended) co_return worker;
    // The zygote may have ended with the request unread. Its end is known at about the same time.
    PHAROS_CO_TRY_VOID(co_await async::sleep(kZygoteEndTime));
    if (job->zygote == zygote) co_return worker;
  }
}

async::Async<Result<std::shared_ptr<Node::Worker>>> Node::fork_worker(Node* self, std::shared_ptr<Job> job,
                                                                      ActorId actor, std::string label,
                                                                      std::uint32_t incarnation,
                                                                      std::vector<std::string> gpus,
                                                                      async::Deadline deadline) {
  auto worker = std::make_shared<Worker>();
  worker->id = WorkerId{random_u64()};
  worker->job = job;
  worker->actor = actor;
  worker->incarnation = incarnation;
  worker->label = std::move(label);
  worker->gpus = std::move(gpus);

  const net::Identity child{net::Role::kWorker, worker->id.value()};
  PHAROS_CO_TRY(net::SocketPair control, self->host_.make_inheritance(child, worker->label));
  const auto stream = [&](bool is_error) {
    auto* const raw = worker.get();
    return self->host_.make_output([self, raw] { return self->takes_output(*raw->job); },
                                   [self, raw, is_error](std::string lines) {
                                     self->send_output(*raw->job, wire::Output{raw->label, raw->pid, is_error,
                                                                               std::move(lines), false, raw->job->id});
                                   });
  };
  PHAROS_CO_TRY(Host::OutputPipe out, stream(false));
  PHAROS_CO_TRY(Host::OutputPipe error, stream(true));
  worker->output = std::move(out.output);
  worker->error_output = std::move(error.output);
  std::vector<Fd> descriptors;
  descriptors.push_back(std::move(control.second));
  descriptors.push_back(std::move(out.for_worker));
  descriptors.push_back(std::move(error.for_worker));
  self->workers_.emplace(worker->id, worker);
  job->zygote->send(wire::ForkWorker{worker->id, {"CUDA_VISIBLE_DEVICES=" + joined(worker->gpus)}},
                    std::move(descriptors));

  auto proved = co_await self->host_.prove(control.first.get(), child, deadline);
  if (!proved || job->ended) {
    worker->failed_to_start = true;
    self->kill_worker(*worker);
    self->background_.spawn(conclude_worker(self, worker));
    if (!proved) {
      co_return Error{ErrorCode::kWorkerDied, "a worker ended before it was ready: " + proved.error().message()}
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

bool Node::takes_output(const Job& job) {
  return (job.driver != nullptr ? job.driver->queued() : queued_to_head_()) < kOutputQueuedMax;
}

void Node::send_output(const Job& job, wire::Output output) {
  if (job.driver != nullptr) {
    job.driver->send(output);
  } else {
    tell_head_(std::move(output));
  }
}

void Node::hand_over(Worker& worker, const Client& user, std::uint64_t request, const wire::ActorAlive& alive,
                     wire::Holding holding) {
  auto pair = host_.make_connection();
  if (!pair) {
    user.peer->respond(request, std::move(pair).error());
    return;
  }
  if (!worker.actor) {
    worker.user = user;
    worker.far_user = {};
  }
  std::vector<Fd> to_worker;
  to_worker.push_back(std::move(pair->first));
  std::vector<Fd> to_user;
  to_user.push_back(std::move(pair->second));
  worker.control->send(wire::ServeCaller{user.caller, worker.actor, worker.incarnation, false, std::move(holding)},
                       std::move(to_worker));
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
    reserve(std::move(*start));
  } else if (const auto* const end = std::get_if<wire::EndIncarnation>(&message)) {
    end_incarnation(*end);
  } else if (const auto* const alive = std::get_if<wire::ActorAlive>(&message)) {
    on_actor_alive(*alive);
  } else if (const auto* const found = std::get_if<wire::ActorFound>(&message)) {
    if (const auto asked = asked_.extract(found->number); !asked.empty()) {
      asked.mapped().client.peer->respond(asked.mapped().request, *found);
    }
  } else if (auto* const inspected = std::get_if<wire::Inspected>(&message)) {
    const auto inspection = inspections_.find(inspected->number);
    if (inspection == inspections_.end()) return;
    inspection->second->actors = std::move(inspected->workers);
    inspection->second->take_one();
  } else if (auto* const refused = std::get_if<wire::Refused>(&message)) {
    if (const auto asked = asked_.extract(refused->number); !asked.empty()) refuse(asked.mapped(), refused->why);
  } else if (auto* const job = std::get_if<wire::AddJob>(&message)) {
    add_far_job(std::move(*job));
  } else if (const auto* const ended = std::get_if<wire::EndJob>(&message)) {
    end_job(ended->job);
  } else if (const auto* const stop = std::get_if<wire::StopJob>(&message)) {
    background_.spawn(stop_far_job(this, stop->job));
  } else if (const auto* const stopped = std::get_if<wire::JobStopped>(&message)) {
    if (const auto of = jobs_.find(stopped->job); of != jobs_.end()) of->second->stopped_elsewhere.complete();
  } else if (auto* const output = std::get_if<wire::Output>(&message)) {
    const auto of_job = jobs_.find(output->job);
    if (of_job == jobs_.end() || of_job->second->driver == nullptr) return;
    net::Peer& driver = *of_job->second->driver;
    // A driver that does not read misses lines of other machines, rather than hold their workers up.
    if (driver.queued() < kFarOutputQueuedMax) driver.send(*output);
  } else {
    on_far_lease_message(message);
  }
}

void Node::refuse(const Asked& asked, Error why) {
  if (asked.client.peer != nullptr) {
    asked.client.peer->respond(asked.request, std::move(why));
  } else {
    tell_head_(wire::Refused{asked.request, std::move(why)});
  }
}

void Node::on_actor_alive(const wire::ActorAlive& alive) {
  const auto asked = asked_.find(alive.number);
  if (asked == asked_.end()) return;
  const Client client = asked->second.client;
  if (const auto worker = find_incarnation(alive.actor, alive.incarnation); worker != nullptr && !worker->crashed) {
    const std::uint64_t request = asked->second.request;
    asked_.erase(asked);
    return hand_over(*worker, client, request, alive, {});
  }
  if (alive.node != settings_.id) return background_.spawn(reach_actor(this, alive));
  // It has just ended, and the head is about to know; of a crash, when it is known where.
  ask_again(alive, Error{ErrorCode::kUnavailable, "its process has just ended"});
}

async::Async<void> Node::reach_actor(Node* self, wire::ActorAlive alive) {
  const auto found = self->asked_.find(alive.number);
  if (found == self->asked_.end()) co_return;
  const Introduction introduction{.purpose = Introduction::Purpose::kServeCaller,
                                  .incarnation = alive.incarnation,
                                  .caller = found->second.client.caller.value(),
                                  .actor = alive.actor.value()};
  auto socket = co_await connect_far(self, alive.address, introduction);
  if (!socket) {
    // Its node is being lost, or is in trouble for a moment: the head will know.
    const auto slept = co_await async::sleep(kAskAgainTime);
    if (slept) self->ask_again(alive, socket.error());
    co_return;
  }
  const auto asked = self->asked_.extract(alive.number);
  if (asked.empty()) co_return;
  std::vector<Fd> descriptors;
  descriptors.push_back(*std::move(socket));
  asked.mapped().client.peer->respond(
      asked.mapped().request,
      wire::WorkerReady{WorkerId{}, alive.actor, alive.incarnation, 0, alive.max_task_retries, true, alive.ended},
      std::move(descriptors));
}

void Node::ask_again(const wire::ActorAlive& alive, const Error& why) {
  const auto asked = asked_.find(alive.number);
  if (asked == asked_.end()) return;
  const TimePoint now = executor_.now();
  if (!asked->second.asked_again) asked->second.asked_again = now;
  if (now - *asked->second.asked_again >= kReachPatience) {
    const Asked given_up = std::move(asked_.extract(asked).mapped());
    return refuse(given_up, why);
  }
  const Client& client = asked->second.client;
  tell_head_(wire::ConnectActor{alive.actor, alive.incarnation, {client.job->id, client.caller, alive.number}});
}

/// A socket to a worker of another node, which has been told whose it is.
async::Async<Result<Fd>> Node::connect_far(Node* self, std::string address, Introduction introduction) {
  const auto deadline = async::Deadline::after(kReachTime, self->executor_.now());
  return self->host_.reach(address.empty() ? self->settings_.head_address : address, introduction, deadline);
}

// One that is not here has just ended: the caller sees its connection end, and asks again.
void Node::serve_far_caller(const Introduction& introduction, Fd socket) {
  const CallerId caller{introduction.caller};
  const ActorId actor{introduction.actor};
  const auto worker =
      actor ? find_incarnation(actor, introduction.incarnation) : find_worker(WorkerId{introduction.worker});
  if (worker == nullptr || worker->control == nullptr || (!actor && worker->far_user != caller)) return;
  std::vector<Fd> descriptors;
  descriptors.push_back(std::move(socket));
  worker->control->send(wire::ServeCaller{caller, worker->actor, worker->incarnation, true, worker->holding},
                        std::move(descriptors));
}

void Node::end_incarnation(const wire::EndIncarnation& end) {
  if (const auto worker = find_incarnation(end.actor, end.incarnation)) {
    if (!end.kill) return end_worker(worker);
    return kill_worker(*worker);
  }
  const auto found = std::find_if(starting_.begin(), starting_.end(), [&](const auto& entry) {
    return entry.second.start.actor == end.actor && entry.second.start.incarnation == end.incarnation;
  });
  if (found == starting_.end()) return;
  if (found->second.begun) {
    found->second.end = end;
    return;
  }
  const scheduler::ReservationId reservation = found->first;
  starting_.erase(found);
  incarnation_ended(end.actor, end.incarnation, reservation, "it was given up before it could start");
}

// The head has given it these resources; tasks may have them still.
void Node::reserve(wire::StartIncarnation start) {
  const scheduler::ReservationId reservation{++last_number_};
  scheduler::Allotment allotment{scheduler::Resources{start.amounts}, {}};
  for (const wire::GpuShare& share : start.gpus) allotment.gpus.push_back({share.index, share.amount});
  starting_.emplace(reservation, Starting{std::move(start), std::nullopt, false});
  apply(leases_.reserve(reservation, allotment));
}

async::Async<void> Node::start_incarnation(Node* self, scheduler::ReservationId reservation) {
  const wire::StartIncarnation start = self->starting_.at(reservation).start;
  std::vector<scheduler::GpuShare> shares;
  for (const wire::GpuShare& share : start.gpus) shares.push_back({share.index, share.amount});
  const std::vector<std::string> gpus = self->names_of(shares);
  const auto found = self->jobs_.find(start.job);
  const auto job = found == self->jobs_.end() ? nullptr : found->second;
  Result<std::shared_ptr<Worker>> worker = Error{ErrorCode::kRuntimeStopped, "the program has ended"};
  if (job != nullptr) {
    worker = co_await start_worker(self, job, start.actor, start.label, start.incarnation, gpus);
  }
  const auto end = self->starting_.extract(reservation).mapped().end;
  if (!worker) {
    if (job != nullptr && job->broken) {  // it would fail again
      self->tell_head_(wire::ActorConstructed{start.actor, start.incarnation, worker.error()});
    }
    self->incarnation_ended(start.actor, start.incarnation, reservation, worker.error().message());
    co_return;
  }
  (*worker)->reservation = reservation;
  (*worker)->control->send(wire::ConstructActor{start.actor,
                                                start.incarnation,
                                                start.constructor,
                                                start.arguments,
                                                start.in_pieces,
                                                start.name_space,
                                                {start.amounts, gpus}});
  if (end) self->end_incarnation(*end);
}

void Node::incarnation_ended(ActorId actor, std::uint32_t incarnation, scheduler::ReservationId reservation,
                             const std::string& reason) {
  apply(leases_.release(reservation));
  tell_head_(wire::IncarnationEnded{actor, incarnation, reason});
}

// ---- Leases

std::vector<std::string> Node::names_of(const std::vector<scheduler::GpuShare>& gpus) const {
  std::vector<std::string> names;
  for (const scheduler::GpuShare& share : gpus) names.push_back(settings_.machine.gpus.at(share.index));
  return names;
}

bool Node::on_lease_request(const Client& client, const wire::LeaseWorker& lease, std::uint64_t request) {
  const auto checked = scheduler::Resources::checked(lease.amounts);
  if (!checked) {
    client.peer->respond(request, checked.error());
    return true;
  }
  const scheduler::Resources& demand = *checked;
  const bool nested = client.worker != nullptr;
  if (!leases_.could_fit(demand)) {  // another node's, or nobody's
    wire::Message ask = wire::LeaseWorker{lease.amounts, {}, nested};
    return ask_head(client, ask, request);
  }
  const scheduler::LeaseRequestId id{++last_number_};
  lease_requests_.emplace(id, Asked{client, request, lease.amounts});
  auto effects = leases_.request(id, {client.job->id, client.caller, nested}, demand);
  if (effects) {
    apply(*effects);
  } else {
    lease_requests_.erase(id);
    client.peer->respond(request, std::move(effects).error());
  }
  return true;
}

bool Node::on_far_lease_message(wire::Message& message) {
  if (const auto* const lease = std::get_if<wire::LeaseWorker>(&message)) {
    lease_to_far(*lease);
  } else if (const auto* const returned = std::get_if<wire::ReturnLease>(&message)) {
    take_back(*returned, returned->caller);
  } else if (const auto* const ended_caller = std::get_if<wire::EndCaller>(&message)) {
    end_far_lessee(ended_caller->caller);
  } else if (const auto* const granted = std::get_if<wire::LeaseGranted>(&message)) {
    background_.spawn(reach_leased(this, *granted));
  } else if (const auto* const ended = std::get_if<wire::WorkerEnded>(&message)) {
    if (const auto held = far_leases_.extract(ended->worker); !held.empty()) held.mapped().peer->send(*ended);
  } else {
    return false;
  }
  return true;
}

// One that still runs a task of a lessee who cannot be answered would hold up the next one.
void Node::take_back(const wire::ReturnLease& returned, CallerId lessee) {
  if (!returned.broken) return apply(leases_.returned(returned.worker, lessee, executor_.now()));
  const auto worker = find_worker(returned.worker);
  if (worker != nullptr && leases_.lessee_of(worker->id) == lessee) end_worker(worker);
}

void Node::end_far_lessee(CallerId caller) {
  std::erase_if(lease_requests_, [caller](const auto& entry) { return entry.second.client.caller == caller; });
  apply(leases_.lessee_ended(caller));
}

void Node::lease_to_far(const wire::LeaseWorker& lease) {
  const auto demand = scheduler::Resources::checked(lease.amounts);
  const auto job = jobs_.find(lease.asker.job);
  const Asked asked{{nullptr, job == jobs_.end() ? nullptr : job->second, nullptr, lease.asker.caller},
                    lease.asker.number,
                    lease.amounts};
  if (!demand || job == jobs_.end() || !leases_.could_fit(*demand)) {
    return refuse(asked, Error{ErrorCode::kUnavailable, "the node cannot run that any more"});
  }
  const scheduler::LeaseRequestId id{++last_number_};
  lease_requests_.emplace(id, asked);
  auto effects = leases_.request(id, {lease.asker.job, lease.asker.caller, lease.nested}, *demand);
  if (effects) return apply(*effects);
  lease_requests_.erase(id);
  refuse(asked, std::move(effects).error());
}

async::Async<void> Node::reach_leased(Node* self, wire::LeaseGranted granted) {
  const auto found = self->asked_.find(granted.number);
  if (found == self->asked_.end()) co_return;  // the head ends the leases of callers that have ended
  const Client client = found->second.client;
  const Introduction introduction{.purpose = Introduction::Purpose::kServeCaller,
                                  .caller = client.caller.value(),
                                  .worker = granted.worker.value()};
  auto socket = co_await connect_far(self, granted.address, introduction);
  const auto asked = self->asked_.extract(granted.number);
  if (asked.empty()) co_return;
  if (!socket) {
    self->tell_head_(wire::ReturnLease{granted.worker, client.caller});
    // Of this code callers ask again, after a pause.
    self->refuse(asked.mapped(), Error{ErrorCode::kOverloaded, socket.error().message()});
    co_return;
  }
  self->far_leases_.emplace(granted.worker, client);
  std::vector<Fd> descriptors;
  descriptors.push_back(*std::move(socket));
  client.peer->respond(asked.mapped().request, wire::WorkerReady{granted.worker, ActorId{}, 0, 0, 0, true},
                       std::move(descriptors));
}

async::Async<void> Node::start_leased(Node* self, std::shared_ptr<Job> job, scheduler::LeaseRequestId request,
                                      std::vector<std::string> gpus) {
  auto worker = co_await start_worker(self, job, ActorId{}, "task worker", 0, gpus);
  if (worker) {
    self->apply(self->leases_.worker_started(request, (*worker)->id));
    co_return;
  }
  const auto found = self->lease_requests_.find(request);
  if (found != self->lease_requests_.end()) {
    self->refuse(found->second, std::move(worker).error());
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
      if (asked.client.peer != nullptr) {
        hand_over(*worker, asked.client, asked.request, {}, {asked.amounts, worker->gpus});
        continue;
      }
      worker->user = {};
      worker->far_user = asked.client.caller;
      worker->holding = {asked.amounts, worker->gpus};
      tell_head_(wire::LeaseGranted{asked.request, worker->id, settings_.id, {}});
    } else if (const auto* const start = std::get_if<scheduler::StartWorker>(&effect)) {
      if (const auto job = jobs_.find(start->job); job != jobs_.end()) {
        background_.spawn(start_leased(this, job->second, start->request, names_of(start->gpus)));
      }
    } else if (const auto* const end = std::get_if<scheduler::EndWorker>(&effect)) {
      if (const auto worker = find_worker(end->worker)) end_worker(worker);
    } else if (const auto* const refused = std::get_if<scheduler::Refuse>(&effect)) {
      if (const auto asked = lease_requests_.extract(refused->request)) refuse(asked.mapped(), refused->why);
    } else if (const auto* const reserved = std::get_if<scheduler::Reserved>(&effect)) {
      starting_.at(reserved->reservation).begun = true;
      background_.spawn(start_incarnation(this, reserved->reservation));
    }
  }
  if (leases_.idle() != 0 && !std::exchange(ends_idle_workers_, true)) background_.spawn(end_idle_workers(this));
}

async::Async<void> Node::end_idle_workers(Node* self) {
  while (self->leases_.idle() != 0) {
    const auto slept = co_await async::sleep(1s);
    if (!slept) break;
    self->apply(self->leases_.tick(self->executor_.now()));
  }
  self->ends_idle_workers_ = false;
}

void Node::kill_worker(Worker& worker) {
  worker.gone = true;  // for one whose process is not known yet
  if (!worker.handle) return;
  host_.kill_worker(worker.handle.get(), worker.pid);
}

void Node::end_worker(const std::shared_ptr<Worker>& worker) {
  if (worker->control == nullptr) return kill_worker(*worker);
  worker->control->send(wire::EndWorker{});
  executor_.run_at(executor_.now() + kStopTime, [this, weak = std::weak_ptr{worker}] {
    if (const auto late = weak.lock()) kill_worker(*late);
  });
}

// Its connection has ended. How its process ended is known a moment later.
async::Async<void> Node::conclude_worker(Node* self, std::shared_ptr<Worker> worker) {
  auto reaped = co_await worker->reaped.wait(async::Deadline::after(kReasonTime, self->executor_.now()));
  if (!reaped) {
    // A process that closed its connection but lives on serves nobody.
    self->kill_worker(*worker);
    reaped = co_await worker->reaped.wait(async::Deadline::after(kReasonTime, self->executor_.now()));
  }
  std::string reason = reaped ? describe_end(*reaped) : "its connection ended";
  if (!worker->killed_because.empty()) reason = worker->killed_because;
  if (worker->handle) self->host_.kill_worker(worker->handle.get(), worker->pid);  // what it left behind
  worker->output->drain();
  worker->error_output->drain();
  if (worker->crashed) {
    auto crash = co_await worker->crash.wait(async::Deadline::after(kCrashTime, self->executor_.now()));
    if (crash) {
      reason += crash->headline;
      self->send_output(*worker->job,
                        wire::Output{worker->label, worker->pid, true, crash->report, true, worker->job->id});
    }
  }
  self->apply(self->leases_.worker_ended(worker->id));
  if (!worker->job->ended && worker->user.peer != nullptr) {
    worker->user.peer->send(wire::WorkerEnded{worker->id, reason});
  }
  if (worker->far_user) self->tell_head_(wire::WorkerEnded{worker->id, reason});
  worker->user = {};  // which may be a worker that this one was the user of
  self->workers_.erase(worker->id);
  if (worker->actor && !worker->failed_to_start) {
    self->incarnation_ended(worker->actor, worker->incarnation, worker->reservation, reason);
  }
  worker->concluded.complete();
}

async::Async<void> Node::inspect(Node* self, Client client, std::uint64_t request) {
  const auto inspection = std::make_shared<Inspection>();
  inspection->answer.cpus = whole_cpus(self->leases_.total());
  auto in_use = self->leases_.total();
  in_use -= self->leases_.left();
  inspection->answer.cpus_in_use = whole_cpus(in_use);
  const std::uint64_t number = ++self->last_number_;
  self->inspections_.emplace(number, inspection);
  self->tell_head_(wire::Inspect{{client.job->id, client.caller, number}});
  const auto deadline = async::Deadline::after(kInspectTime, self->executor_.now());
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

// Its workers here: actors after their destructors.
async::Async<void> Node::stop_workers(Node* self, std::shared_ptr<Job> job) {
  std::vector<std::shared_ptr<Worker>> workers;
  for (const auto& [id, worker] : self->workers_) {
    if (worker->job == job) workers.push_back(worker);
  }
  for (const auto& worker : workers) self->end_worker(worker);
  std::vector<wire::EndIncarnation> unbegun;
  for (const auto& [reservation, starting] : self->starting_) {
    if (starting.start.job == job->id) unbegun.push_back({starting.start.actor, starting.start.incarnation, true});
  }
  for (const auto& end : unbegun) self->end_incarnation(end);
  const auto deadline = async::Deadline::after(kStopTime + kReasonTime, self->executor_.now());
  for (const auto& worker : workers) {
    const auto concluded = co_await worker->concluded.wait(deadline);
    if (!concluded) log(LogLevel::kError, "a worker does not end", {kv("pid", worker->pid)});
  }
}

async::Async<void> Node::stop_job(Node* self, std::shared_ptr<Job> job, std::uint64_t request) {
  self->tell_head_(wire::StopJob{job->id});
  const auto deadline = async::Deadline::after(kStopTime + kFarStopTime, self->executor_.now());
  co_await stop_workers(self, job);
  const auto elsewhere = co_await job->stopped_elsewhere.wait(deadline);
  if (!elsewhere) log(LogLevel::kError, "workers on other nodes do not end", {kv("job", job->id)});
  const auto driver = job->driver;
  self->end_job(job->id);
  driver->respond(request, wire::Done{});
}

async::Async<void> Node::stop_far_job(Node* self, JobId id) {
  if (const auto found = self->jobs_.find(id); found != self->jobs_.end()) {
    const auto job = found->second;
    co_await stop_workers(self, job);
  }
  self->tell_head_(wire::JobStopped{id});
}

}  // namespace pharos::node
