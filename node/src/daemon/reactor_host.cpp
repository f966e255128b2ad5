#include "daemon/reactor_host.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include <pharos/base/check.hpp>
#include <pharos/base/log.hpp>
#include <pharos/net/address.hpp>
#include <pharos/object_store/spill_file.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/spawn.hpp>

#include "logs/worker_output.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr int kInherited = 3;  // descriptor number of the zygote's socket
constexpr auto kReachTime = 3s;
const std::string kNodeHost = "PHAROS_NODE_HOST=";

}  // namespace

ReactorHost::ReactorHost(net::Reactor& reactor, const Settings& settings)
    : reactor_{reactor}, settings_{settings}, for_children_{settings.tokens->present()}, background_{reactor} {}

// ---- Connections

Result<net::SocketPair> ReactorHost::make_connection() {
  return net::socket_pair();
}

Result<net::SocketPair> ReactorHost::make_inheritance(net::Identity child, std::string_view name) {
  PHAROS_TRY(net::SocketPair pair, net::socket_pair());
  process::Preamble preamble;
  preamble.key = net::derive_key(for_children_, child.role, child.id);
  preamble.id = child.id;
  preamble.set_name(name);
  PHAROS_TRY_VOID(process::send_preamble(pair.first.get(), preamble));
  return pair;
}

async::Async<Result<void>> ReactorHost::prove(int inheritance, net::Identity child, async::Deadline deadline) {
  return prove_to(inheritance, child, deadline);
}

async::Async<Result<void>> ReactorHost::prove_to(int socket, net::Identity child, async::Deadline deadline) {
  net::Acceptor::KeyFor key_for = [child, key = net::derive_key(for_children_, child.role, child.id)](
                                      net::Identity peer, std::uint64_t) {
    return peer.role == child.role && peer.id == child.id ? std::optional{key} : std::nullopt;
  };
  const auto identity = co_await net::accept(&reactor_, socket, settings_.node, std::move(key_for), deadline);
  if (!identity) co_return identity.error();
  co_return {};
}

std::shared_ptr<net::Link> ReactorHost::make_link(Fd socket, net::Descriptors descriptors) {
  return net::SocketLink::make(reactor_, std::move(socket), descriptors);
}

async::Async<Result<Fd>> ReactorHost::reach(std::string address, Introduction introduction, async::Deadline deadline) {
  return connect(std::move(address), introduction, deadline);
}

async::Async<Result<Fd>> ReactorHost::connect(std::string address, Introduction introduction,
                                              async::Deadline deadline) {
  PHAROS_CO_TRY(const net::Address place, net::parse_address(address));
  Result<Fd> socket = Error{ErrorCode::kInternal, "there is no token"};
  // A node that has not heard of the newest token yet knows the one before it.
  for (const net::Key& token : settings_.tokens->valid(net::seconds_now())) {
    socket = co_await connect_with(token, place, introduction, deadline);
    const bool is_unknown_there = !socket && socket.error().code() == ErrorCode::kPermissionDenied;
    if (!is_unknown_there) break;
  }
  co_return socket;
}

async::Async<Result<Fd>> ReactorHost::connect_with(net::Key token, net::Address place, Introduction introduction,
                                                   async::Deadline deadline) {
  PHAROS_CO_TRY(Fd socket, co_await net::connect_to(&reactor_, place, deadline));
  PHAROS_CO_TRY_VOID(net::set_up_far_socket(socket.get()));
  if (introduction.leads_to_leased_worker()) PHAROS_CO_TRY_VOID(net::make_patient(socket.get()));
  const auto greeted = co_await net::initiate(&reactor_, socket.get(), token, settings_.node, deadline);
  if (!greeted) co_return greeted.error();
  PHAROS_CO_TRY_VOID(net::send_all(socket.get(), std::as_bytes(std::span{&introduction, 1}), deadline));
  co_return std::move(socket);
}

std::string ReactorHost::machine_of(int socket) {
  const auto here = net::bound_address(socket);
  const auto there = net::far_address(socket);
  if (!here || !there || there->loopback() || there->place == here->place) return {};
  return there->place;
}

// ---- Processes

Result<pid_t> ReactorHost::start_zygote(const wire::RegisterJob& job, int executable, Fd inheritance) {
  process::Program program{.path = job.executable,
                           .executable = Fd{::fcntl(executable, F_DUPFD_CLOEXEC, 0)},
                           .arguments = job.arguments,
                           .environment = job.environment,
                           .moved = {{inheritance.get(), kInherited}},
                           .folder = job.folder,
                           .new_session = true};
  program.environment.push_back(process::role_variable(process::InheritedRole::kZygote, kInherited));
  std::erase_if(program.environment, [](const std::string& each) { return each.starts_with(kNodeHost); });
  if (!place_.empty()) program.environment.push_back(kNodeHost + place_);
  return process::spawn(program);
}

void ReactorHost::kill_zygote(pid_t pid) {
  ::kill(pid, SIGKILL);
}

void ReactorHost::open_program(const wire::RegisterJob& program,
                               async::UniqueFunction<void(Result<ProgramHere> here)> done) {
  const auto here = std::make_shared<Result<ProgramHere>>(Error{ErrorCode::kCancelled, "not opened"});
  run_blocking([here, program, folder = settings_.programs_folder] { *here = node::open_program(folder, program); },
               [here, done = std::move(done)]() mutable { done(std::move(*here)); });
}

void ReactorHost::fetch_program(std::string address, JobId job, std::shared_ptr<ArrivingProgram> into,
                                async::UniqueFunction<void(Result<void>)> done) {
  background_.spawn(connect_and_fetch(std::move(address), job, std::move(into), std::move(done)));
}

async::Async<void> ReactorHost::connect_and_fetch(std::string address, JobId job, std::shared_ptr<ArrivingProgram> into,
                                                  async::UniqueFunction<void(Result<void>)> done) {
  const Introduction introduction{.purpose = Introduction::Purpose::kProgram, .caller = job.value()};
  auto socket = co_await connect(std::move(address), introduction, async::Deadline::after(kReachTime, reactor_.now()));
  if (socket) {
    transfers().receive_program(*std::move(socket), std::move(into), settings_.programs_folder, std::move(done));
  } else {
    done(std::move(socket).error());
  }
}

void ReactorHost::serve_program(Fd socket, Fd executable, const wire::RegisterJob& program) {
  transfers().send_program(std::move(socket), std::move(executable), program, settings_.programs_folder);
}

// What is left of a folder goes with the node's run folder.
void ReactorHost::remove_own_folder(std::string folder) {
  run_blocking(
      [folder = std::move(folder)] {
        std::error_code error;
        std::filesystem::remove_all(folder, error);
        if (error) log(LogLevel::kWarn, "a job's folder cannot be removed", {kv("folder", folder), kv("error", error)});
      },
      [] {});
}

void ReactorHost::kill_worker(int handle, pid_t pid) {
  ::syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
  // Kills also the processes that the worker has left in its process group. The group's number is not reused while the
  // group has members.
  ::kill(-pid, SIGKILL);
}

Result<Host::OutputPipe> ReactorHost::make_output(Output::Ready may_send, Output::Sink sink) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("making a pipe", errno);
  Fd read{ends[0]};
  Fd write{ends[1]};
  ::fcntl(read.get(), F_SETFL, O_NONBLOCK);
  return OutputPipe{std::move(write),
                    WorkerOutput::make(reactor_, std::move(read), std::move(may_send), std::move(sink))};
}

// ---- Memory

// Counts only memory that the process does not share: its end would not free the rest.
ByteCount ReactorHost::memory_of(pid_t process) {
  std::ifstream file{"/proc/" + std::to_string(process) + "/status"};
  for (std::string name; file >> name; file.ignore(1024, '\n')) {
    std::uint64_t kib = 0;
    if (name == "RssAnon:" && file >> kib) return ByteCount{kib << 10};
  }
  return {};
}

// ---- The object store

namespace {

/// Notices when a process has closed its end of a pipe.
class PipeEnd final : public net::Reactor::Watcher {
 public:
  PipeEnd(Fd pipe, async::UniqueFunction<void()> ended) : pipe_{std::move(pipe)}, ended_{std::move(ended)} {}

  int fd() const { return pipe_.get(); }
  void on_ready(std::uint32_t) override { ended_(); }

 private:
  const Fd pipe_;
  async::UniqueFunction<void()> ended_;
};

}  // namespace

Result<node::Host::Life> ReactorHost::make_life(async::UniqueFunction<void()> ended) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("making a pipe", errno);
  const auto end = std::make_shared<PipeEnd>(Fd{ends[0]}, std::move(ended));
  Fd for_process{ends[1]};
  reactor_.watch(end->fd(), EPOLLIN, end);
  const auto unwatch = [end, &reactor = reactor_](const void*) { reactor.unwatch(end->fd()); };
  return Life{std::move(for_process), std::shared_ptr<void>{end.get(), unwatch}};
}

Result<Fd> ReactorHost::make_spill_file(const std::string& folder) {
  return object_store::SpillFile::open_in(folder);
}

void ReactorHost::run_blocking(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) {
  constexpr std::size_t kThreads = 2;  // one thread can compute checksums while the other waits for the disk
  constexpr std::size_t kQueueMax = std::size_t{1} << 20;
  if (blocking_ == nullptr) blocking_ = std::make_unique<async::BlockingPool>(kThreads, kQueueMax);
  const auto submitted = blocking_->submit(
      [&reactor = reactor_, work = std::move(work), done = std::move(done)](async::BlockingPool::Turn turn) mutable {
        if (turn == async::BlockingPool::Turn::kRefused) return;
        work();
        reactor.post(std::move(done));
      });
  PHAROS_CHECK(submitted.ok(), submitted.error());
}

// ---- Objects of other nodes

Transfers& ReactorHost::transfers() {
  if (transfers_ == nullptr) transfers_ = std::make_unique<Transfers>(reactor_);
  return *transfers_;
}

void ReactorHost::pull(std::string address, const object_store::PullRequest& request,
                       std::shared_ptr<object_store::Chunks> into, Pulled done) {
  background_.spawn(connect_and_pull(std::move(address), request, std::move(into), std::move(done)));
}

async::Async<void> ReactorHost::connect_and_pull(std::string address, object_store::PullRequest request,
                                                 std::shared_ptr<object_store::Chunks> into, Pulled done) {
  const Introduction introduction{.purpose = Introduction::Purpose::kPull};
  auto socket = co_await connect(std::move(address), introduction, async::Deadline::after(kReachTime, reactor_.now()));
  if (socket) {
    transfers().receive(*std::move(socket), request, std::move(into), std::move(done));
  } else {
    done(std::move(socket).error());
  }
}

void ReactorHost::serve_pull(Fd socket, MakePullAnswer make) {
  transfers().send(std::move(socket), std::move(make));
}

void ReactorHost::close() {
  background_.cancel();
  transfers_.reset();
}

bool ReactorHost::closed() const {
  return background_.size() == 0;
}

}  // namespace pharos::node
