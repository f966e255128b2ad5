#include "node.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
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
#include <pharos/net/address.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/process/descendants.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/limits.hpp>
#include <pharos/process/run_folder.hpp>
#include <pharos/process/spawn.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kHandshakeTime = 5s;
constexpr auto kZygoteTime = 55s;  // to load the program; less than a driver waits
constexpr auto kWorkerTime = 30s;  // from the request to the worker's proof
constexpr auto kZygoteEndTime = 5ms;
constexpr auto kReasonTime = 50ms;  // between a connection's end and the word of how the process ended
constexpr auto kStopTime = 5s;      // for destructors, when all is told to stop
constexpr auto kIdleWorkerTime = 10s;
constexpr auto kLetGoTime = 20ms;  // before a handle that is let go of counts
constexpr auto kKillTime = 8s;
constexpr std::size_t kUnprovenMax = 64;
constexpr std::size_t kOutputQueuedMax = std::size_t{1} << 20;
constexpr int kZygoteRestartsMax = 3;  // without one that lives for kZygoteLife
constexpr auto kZygoteLife = 30s;

std::uint32_t usable_cpus() {
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(CPU_COUNT(&cpus), 1));
}

std::uint32_t cpus_of(const DaemonOptions& options) {
  return options.cpus != 0 ? options.cpus : usable_cpus();
}

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

Result<void> write_token(const std::string& path, const net::Key& token) {
  const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file || ::write(file.get(), token.data(), token.size()) != static_cast<ssize_t>(token.size())) {
    return Error::from_errno("writing " + path, errno);
  }
  return {};
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
  async::Completion<void> concluded;
  std::string killed_because;  // what is known better than how its process ended
  bool gone = false;
  bool failed_to_start = false;                         // whoever started it says so
  std::vector<scheduler::ActorRequestId> reconnecting;  // of callers that have lost their connection to it
};

class Node::Reaper final : public net::Reactor::Watcher {
 public:
  explicit Reaper(Node& node) : node_{node} {}
  void on_ready(std::uint32_t) override { node_.reap(); }

 private:
  Node& node_;
};

class Node::KeeperWatcher final : public net::Reactor::Watcher {
 public:
  explicit KeeperWatcher(Node& node) : node_{node} {}
  void on_ready(std::uint32_t) override {
    log(LogLevel::kError, "the keeper is gone; the node ends");
    node_.status_ = 1;
    node_.ending_ = true;
  }

 private:
  Node& node_;
};

class Node::Listener final : public net::Reactor::Watcher {
 public:
  Listener(Node& node, Fd socket, bool unix_socket) : node_{node}, socket_{std::move(socket)}, unix_{unix_socket} {}

  int fd() const { return socket_.get(); }
  void on_ready(std::uint32_t) override {
    for (;;) {
      Fd connection{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!connection) return;
      if (node_.unproven_ >= kUnprovenMax) continue;  // closed: whoever it is may try again
      if (unix_ && !net::check_peer_is_this_user(connection.get())) continue;
      node_.background_.spawn(serve_connection(&node_, std::move(connection), false));
    }
  }

 private:
  Node& node_;
  Fd socket_;
  bool unix_;
};

// ---- Start and end of the node

Node::Node(process::Kept kept, const DaemonOptions& options)
    : kept_{std::move(kept)},
      options_{options},
      id_{random_u64()},
      store_{reactor_, ByteCount{options.object_store}},
      leases_{cpus_of(options), workers_max(cpus_of(options)), kIdleWorkerTime},
      background_{reactor_} {}

Node::~Node() = default;

int Node::run(Fd driver) {
  const auto preamble = process::receive_preamble(driver.get(), async::Deadline::after(kHandshakeTime, reactor_.now()));
  if (!preamble) return 1;
  token_ = preamble->key;
  if (auto done = set_up(); !done) set_up_failure_ = std::move(done).error();
  background_.spawn(serve_connection(this, std::move(driver), true));
  while (!ending_) reactor_.poll_one(async::Deadline::never());
  shut_down();
  return status_;
}

Result<void> Node::set_up() {
  process::raise_descriptor_limit();
  reactor_.watch(kept_.keeper_alive.get(), EPOLLIN, std::make_shared<KeeperWatcher>(*this));
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  child_event_ = Fd{::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK)};
  PHAROS_CHECK(child_event_, errno);
  reactor_.watch(child_event_.get(), EPOLLIN, std::make_shared<Reaper>(*this));

  process::sweep_run_folders(kept_.run_folder.substr(0, kept_.run_folder.rfind('/')));
  PHAROS_TRY_VOID(process::make_run_folder(kept_.run_folder));
  PHAROS_TRY_VOID(write_token(kept_.run_folder + "/token", token_));
  PHAROS_TRY_VOID(listen_at("unix:" + kept_.run_folder + "/node.sock"));
  if (!options_.listen.empty()) PHAROS_TRY_VOID(listen_at(options_.listen));
  return {};
}

Result<void> Node::listen_at(const std::string& text) {
  PHAROS_TRY(const net::Address address, net::parse_address(text));
  PHAROS_TRY(Fd socket, net::listen_at(address));
  auto listener = std::make_shared<Listener>(*this, std::move(socket), address.unix_socket);
  reactor_.watch(listener->fd(), EPOLLIN, listener);
  listeners_.push_back(std::move(listener));
  return {};
}

// Orphans of workers become this process's children, and so do workers whose zygote is gone.
void Node::reap() {
  signalfd_siginfo ignored;
  while (::read(child_event_.get(), &ignored, sizeof ignored) > 0) {
  }
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

void Node::shut_down() {
  background_.cancel();
  for (const auto& [id, client] : clients_) client.peer->close();
  while (background_.size() != 0) reactor_.poll_one(async::Deadline::after(1s, reactor_.now()));
  reactor_.unwatch(child_event_.get());
  if (auto killed = process::kill_descendants(async::Deadline::after(kKillTime, reactor_.now())); !killed) {
    log(LogLevel::kError, "processes are left behind", {kv("error", killed.error())});
  }
  process::remove_run_folder(kept_.run_folder);
}

// ---- Connections

std::optional<net::Key> Node::key_for(net::Identity peer) const {
  switch (peer.role) {
    case net::Role::kDriver:
    case net::Role::kNode: return token_;
    case net::Role::kZygote:
    case net::Role::kWorker: return std::nullopt;  // they never connect: they inherit
  }
  return std::nullopt;
}

std::shared_ptr<net::Peer> Node::add_peer(Fd socket) {
  const auto link = net::SocketLink::make(reactor_, std::move(socket), net::Descriptors::kAccepted);
  auto peer = net::Peer::make(reactor_, link, *this);
  clients_.emplace(peer.get(), Client{peer, nullptr, nullptr, {}});
  link->start(peer);
  return peer;
}

async::Async<void> Node::serve_connection(Node* self, Fd socket, bool first_driver) {
  ++self->unproven_;
  const auto deadline = async::Deadline::after(kHandshakeTime, self->reactor_.now());
  net::Acceptor::KeyFor key_for = [self](net::Identity peer) { return self->key_for(peer); };
  const auto identity =
      co_await net::accept(&self->reactor_, socket.get(), self->identity(), std::move(key_for), deadline);
  --self->unproven_;
  if (!identity) {
    log(LogLevel::kInfo, "refused a connection", {kv("error", identity.error())});
    if (first_driver) self->ending_ = true;
    co_return;
  }
  const auto peer = self->add_peer(std::move(socket));
  if (first_driver) self->first_driver_ = peer;
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
      return background_.spawn(
          register_job(this, client.peer, std::move(parcel), *request, client.peer == first_driver_));
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

bool Node::on_caller_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request) {
  if (std::holds_alternative<wire::LeaseWorker>(parcel.message) && request) {
    const scheduler::LeaseRequestId id{++last_id_};
    lease_requests_.emplace(id, LeaseRequest{client, *request});
    auto effects = leases_.request(id, {client.job->id, client.caller, client.worker != nullptr});
    if (effects) {
      apply(*effects);
    } else {
      lease_requests_.erase(id);
      client.peer->respond(*request, std::move(effects).error());
    }
  } else if (const auto* const returned = std::get_if<wire::ReturnLease>(&parcel.message)) {
    apply(leases_.returned(returned->worker, client.caller, reactor_.now()));
  } else {
    return on_actor_message(client, parcel, request);
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
    apply(made->failure ? actors_.constructor_failed(made->actor, made->incarnation, *made->failure)
                        : actors_.incarnation_started(made->actor, made->incarnation));
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
    if (const auto worker = find_worker(reaped->worker)) worker->reaped.complete(reaped->status);
  }
}

void Node::on_peer_closed(net::Peer& peer, const Error&) {
  const auto found = clients_.find(&peer);
  if (found == clients_.end()) return;
  const Client client = found->second;  // keeps it until this is done
  clients_.erase(found);
  if (client.peer == first_driver_) {
    ending_ = true;
    return;
  }
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
  std::erase_if(actor_requests_, [&](const auto& entry) {
    if (entry.second.client.caller != client.caller) return false;
    actors_.drop_request(entry.first);
    return true;
  });
  apply(leases_.lessee_ended(client.caller));
  apply(actors_.caller_ended(client.caller));
}

// ---- Jobs and zygotes

async::Async<void> Node::register_job(Node* self, std::shared_ptr<net::Peer> driver, net::Parcel parcel,
                                      std::uint64_t request, bool first) {
  if (self->set_up_failure_ && first) {
    driver->respond(request, *self->set_up_failure_);
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
          .node = id_,
          .cpus = leases_.cpus(),
          .warning = job.warning,
          .address = "unix:" + kept_.run_folder + "/node.sock"};
}

async::Async<Result<void>> Node::start_zygote(Node* self, std::shared_ptr<Job> job) {
  constexpr int kSocket = 3;
  PHAROS_CO_TRY(net::SocketPair pair, net::socket_pair());
  process::Preamble preamble;
  preamble.key = net::derive_key(self->token_, net::Role::kZygote, job->id.value());
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
    if (started || self->ending_) co_return;
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
  std::erase_if(actor_requests_, [&](const auto& entry) { return entry.second.client.job == job; });
  apply(leases_.job_ended(id));
  apply(actors_.job_ended(id));
  std::erase_if(makings_, [&](const auto& entry) { return entry.second.job == job; });
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
  preamble.key = net::derive_key(self->token_, net::Role::kWorker, worker->id.value());
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

void Node::hand_over(Worker& worker, const Client& user, std::uint64_t request) {
  auto pair = net::socket_pair();
  if (!pair) {
    user.peer->respond(request, std::move(pair).error());
    return;
  }
  if (!worker.actor) worker.user = user;
  const auto making = makings_.find(worker.actor);
  std::vector<Fd> to_worker;
  to_worker.push_back(std::move(pair->first));
  std::vector<Fd> to_user;
  to_user.push_back(std::move(pair->second));
  worker.control->send(wire::ServeCaller{user.caller, worker.actor, worker.incarnation}, std::move(to_worker));
  const std::int32_t retries = making == makings_.end() ? 0 : making->second.start.max_task_retries;
  user.peer->respond(request, wire::WorkerReady{worker.id, worker.actor, worker.incarnation, worker.pid, retries},
                     std::move(to_user));
}

// ---- Actors

bool Node::on_actor_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request) {
  if (const auto* const start = std::get_if<wire::StartActor>(&parcel.message); start != nullptr && request) {
    const scheduler::ActorSpec spec{.job = client.job->id,
                                    .label = start->label,
                                    .name = start->name,
                                    .name_space = start->name_space,
                                    .type = start->type,
                                    .max_restarts = start->max_restarts,
                                    .detached = start->detached};
    makings_.try_emplace(start->actor, Making{client.job, *start, std::nullopt});
    const auto id = expect_actor(client, *request);
    apply(actors_.create(id, start->actor, spec, start->get_if_exists, client.caller));
    if (actors_.find_spec(start->actor) == nullptr) makings_.erase(start->actor);
  } else if (const auto* const connect = std::get_if<wire::ConnectActor>(&parcel.message);
             connect != nullptr && request) {
    const auto id = expect_actor(client, *request);
    const auto lost = find_incarnation(connect->actor, connect->seen);
    if (lost == nullptr) {
      apply(actors_.connect(id, connect->actor, connect->seen));
      return true;
    }
    // Nearly always the process has died, and that is known in a moment.
    lost->reconnecting.push_back(id);
    reactor_.run_at(reactor_.now() + kReasonTime, [this, weak = std::weak_ptr{lost}] {
      if (const auto worker = weak.lock()) reconnect(*worker);
    });
  } else if (const auto* const find = std::get_if<wire::FindActor>(&parcel.message); find != nullptr && request) {
    const auto found = actors_.find(find->name_space, find->name, find->type, client.caller);
    if (found) {
      client.peer->respond(*request, wire::ActorFound{*found, actors_.find_spec(*found)->label});
    } else {
      client.peer->respond(*request, found.error());
    }
  } else if (const auto* const hold = std::get_if<wire::HoldActor>(&parcel.message)) {
    if (hold->count >= 0) {
      apply(actors_.hold(hold->actor, client.caller, hold->count));
      return true;
    }
    // A handle that was passed on may be let go of before its new holder is heard.
    reactor_.run_at(reactor_.now() + kLetGoTime, [this, hold = *hold, caller = client.caller] {
      apply(actors_.hold(hold.actor, caller, hold.count));
    });
  } else if (const auto* const kill = std::get_if<wire::KillActor>(&parcel.message)) {
    const auto* const spec = actors_.find_spec(kill->actor);
    if (spec != nullptr && spec->job == client.job->id) apply(actors_.kill(kill->actor, "its program ended it"));
  } else {
    return false;
  }
  return true;
}

void Node::reconnect(Worker& worker) {
  for (const auto id : std::exchange(worker.reconnecting, {})) {
    apply(actors_.connect(id, worker.actor, worker.incarnation));
  }
}

scheduler::ActorRequestId Node::expect_actor(const Client& client, std::uint64_t request) {
  const scheduler::ActorRequestId id{++last_id_};
  actor_requests_.emplace(id, ActorRequest{client, request});
  return id;
}

void Node::apply(const scheduler::ActorEffects& effects) {
  for (const auto& effect : effects) {
    if (const auto* const start = std::get_if<scheduler::StartIncarnation>(&effect)) {
      background_.spawn(start_incarnation(this, start->actor, start->incarnation));
    } else if (const auto* const end = std::get_if<scheduler::EndIncarnation>(&effect)) {
      end_incarnation(*end);
    } else if (const auto* const ready = std::get_if<scheduler::ActorReady>(&effect)) {
      const auto asked = actor_requests_.extract(ready->request);
      if (asked.empty()) continue;
      if (const auto worker = find_incarnation(ready->actor, ready->incarnation)) {
        hand_over(*worker, asked.mapped().client, asked.mapped().request);
      } else {
        asked.mapped().client.peer->respond(asked.mapped().request,
                                            Error{ErrorCode::kActorDied, "the actor's process has just ended"});
      }
    } else if (const auto* const refused = std::get_if<scheduler::ActorRefused>(&effect)) {
      const auto asked = actor_requests_.extract(refused->request);
      if (!asked.empty()) asked.mapped().client.peer->respond(asked.mapped().request, refused->why);
    }
  }
  if (const auto next = actors_.next_tick()) tick_actors_at(*next);
}

void Node::tick_actors_at(TimePoint when) {
  if (when >= next_tick_) return;
  next_tick_ = when;
  reactor_.run_at(when, [this, when] {
    if (next_tick_ == when) next_tick_ = TimePoint::max();
    apply(actors_.tick(reactor_.now()));
  });
}

void Node::end_incarnation(const scheduler::EndIncarnation& end) {
  if (const auto worker = find_incarnation(end.actor, end.incarnation)) {
    if (!end.kill) return end_worker(worker);
    return kill_worker(*worker);
  }
  // Its process is being started.
  if (const auto making = makings_.find(end.actor); making != makings_.end()) making->second.end = end;
}

async::Async<void> Node::start_incarnation(Node* self, ActorId actor, std::uint32_t incarnation) {
  const auto found = self->makings_.find(actor);
  if (found == self->makings_.end()) co_return;  // its job has ended
  const auto job = found->second.job;
  const std::string label = found->second.start.label;
  auto worker = co_await start_worker(self, job, actor, label, incarnation);
  const auto making = self->makings_.find(actor);
  if (!worker) {
    const std::string why = worker.error().message();
    self->apply(self->actors_.incarnation_ended(actor, incarnation, why, self->reactor_.now()));
    co_return;
  }
  if (making == self->makings_.end()) {
    self->kill_worker(**worker);
    co_return;
  }
  const auto& start = making->second.start;
  (*worker)->control->send(
      wire::ConstructActor{actor, incarnation, start.constructor, start.arguments, start.in_pieces});
  const auto end = std::exchange(making->second.end, std::nullopt);
  if (end && end->incarnation == incarnation) self->end_incarnation(*end);
}

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
      const LeaseRequest asked = request->second;
      lease_requests_.erase(request);
      hand_over(*worker, asked.client, asked.request);
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
  self->apply(self->leases_.worker_ended(worker->id));
  if (!worker->job->ended && worker->user.peer != nullptr) {
    worker->user.peer->send(wire::WorkerEnded{worker->id, reason});
  }
  self->workers_.erase(worker->id);
  if (worker->actor && !worker->failed_to_start) {
    self->apply(self->actors_.incarnation_ended(worker->actor, worker->incarnation, reason, self->reactor_.now()));
    self->reconnect(*worker);
    if (self->actors_.find_spec(worker->actor) == nullptr) self->makings_.erase(worker->actor);
  }
  worker->concluded.complete();
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

int run_daemon(process::Kept kept, Fd driver, const DaemonOptions& options) {
  ::prctl(PR_SET_NAME, "pharos-node");
  set_log_role("node");
  Node node{std::move(kept), options};
  return node.run(std::move(driver));
}

}  // namespace pharos::node
