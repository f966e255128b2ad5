#include "program/driver.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include <pharos/async/block_on.hpp>
#include <pharos/base/check.hpp>
#include <pharos/base/log.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/process/build_id.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/spawn.hpp>

#include "program/embedded_cluster.hpp"
#include "program/function_table.hpp"
#include "program/taken_along.hpp"
#include "program/thread_state.hpp"

namespace pharos::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto kGreetingTime = 10s;  // for the handshake; the daemon has nothing else to do yet
constexpr auto kStartTime = 60s;     // for the node and the program's zygote to start: libtorch takes seconds to load
constexpr auto kStopTime = 10s;
constexpr auto kUngreetedStopTime = 2s;  // after a failed handshake: the daemon died, or the process is no keeper
constexpr Duration kFlushDelayMax = 200us;

std::atomic<bool> start_object_linked = false;

std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "program" : path.string();
}

/// exit() does not destroy a Runtime that lives on a thread's stack. This handler ends the processes that such a
/// Runtime started, and shows the last output of its workers. It does nothing if one of the Runtime's own threads calls
/// exit(), because that thread would wait for itself.
void stop_at_exit(const std::shared_ptr<Driver>& driver) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<Driver>> started;
  static const int registered = std::atexit([] {
    // A child of fork() must not wait for the mutex: if it was locked at the fork, nothing in the child unlocks it.
    const std::unique_lock lock{mutex, std::try_to_lock};
    if (!lock.owns_lock() || actors::this_thread.is_runtimes) return;
    for (const auto& each : started) {
      if (const auto left = each.lock()) left->stop();
    }
  });
  PHAROS_CHECK(registered == 0, registered);
  const std::lock_guard lock{mutex};
  std::erase_if(started, [](const auto& each) { return each.expired(); });
  started.push_back(driver);
}

}  // namespace

PHAROS_API void note_start_object();
void note_start_object() {
  start_object_linked.store(true);
}

Driver::Driver(const RuntimeOptions& options)
    : caller_{Caller::make(platform_, actors::FlushQueue::make(*platform_, kFlushDelayMax),
                           actors::OutgoingCalls::Side::kProgram)},
      output_{std::make_shared<actors::Output>(reactor_, options.fold_output)} {}

Result<std::shared_ptr<Driver>> Driver::start(const RuntimeOptions& options) {
  if (!start_object_linked.load()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this program was linked without Pharos's start object, so it cannot serve as its own worker",
                 "Link it with the CMake target pharos::pharos, or with pharos_start.o and -Wl,--wrap=main."};
  }
  actors::fix_function_table();
  PHAROS_TRY(auto files, actors::files_taken_along(options));
  std::shared_ptr<Driver> driver{new Driver{options}};
  auto connected = driver->connect(options);
  if (connected) {
    driver->io_thread_ = std::thread{[raw = driver.get()] { raw->run_io(); }};
    connected = driver->register_job(std::move(files));
    if (connected) driver->answer_quit_signal();
  }
  if (!connected) {
    driver->stop();
    return std::move(connected).error().with("starting Pharos");
  }
  stop_at_exit(driver);
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
    return Error{refused ? why.code() : ErrorCode::kUnavailable, why.message(), why.remedy()}.with(
        "the handshake with " + connection.name);
  }
  greeted_ = true;
  const auto link = net::SocketLink::make(reactor_, std::move(connection.socket), net::Descriptors::kAccepted);
  node_ = net::Peer::make(reactor_, link, *this);
  link->start(node_);
  return {};
}

Result<void> Driver::register_job(std::vector<wire::ProgramFile> files) {
  Fd executable{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  if (!executable) return Error::from_errno("opening this program's executable", errno);
  wire::RegisterJob job{.executable = own_path(),
                        .arguments = {},
                        .environment = process::own_environment(),
                        .folder = std::filesystem::current_path().string(),
                        .build_id = process::own_build_id(),
                        .files = std::move(files)};
  job.arguments.push_back(job.executable);
  std::vector<Fd> descriptors;
  descriptors.push_back(std::move(executable));
  const auto deadline = async::Deadline::after(kStartTime, reactor_.now());
  PHAROS_TRY(const net::Parcel answer,
             async::block_on(reactor_, node_->request(std::move(job), std::move(descriptors), deadline)));
  const auto* const registered = std::get_if<wire::JobRegistered>(&answer.message);
  if (registered == nullptr)
    return Error{ErrorCode::kInternal, "the node answered the registration of this program with an unexpected message"};
  caller_->join(node_, *registered);
  if (!registered->warning.empty()) log(LogLevel::kWarn, "workers start slowly", {kv("why", registered->warning)});
  return {};
}

namespace {

class QuitWatcher final : public net::Reactor::Watcher {
 public:
  QuitWatcher(net::Reactor& reactor, std::weak_ptr<Caller> caller, std::shared_ptr<actors::Output> output, int event)
      : reactor_{reactor}, caller_{std::move(caller)}, output_{std::move(output)}, event_{event} {}

  void on_ready(std::uint32_t) override {
    std::uint64_t count = 0;
    if (::read(event_, &count, sizeof count) != sizeof count) return;
    reactor_.post([weak = caller_, output = output_] {
      const auto caller = weak.lock();
      if (caller == nullptr) return;
      caller->pending_results().explain([output](std::string text) {
        output->report("pharos: process " + std::to_string(::getpid()) + " waits for these results:\n" + text);
      });
    });
  }

 private:
  net::Reactor& reactor_;
  const std::weak_ptr<Caller> caller_;
  const std::shared_ptr<actors::Output> output_;
  const int event_;
};

}  // namespace

void Driver::answer_quit_signal() {
  quit_signal_ = actors::QuitSignal::make();
  if (quit_signal_ == nullptr) return;
  const int event = quit_signal_->descriptor();
  reactor_.watch(event, EPOLLIN, std::make_shared<QuitWatcher>(reactor_, caller_, output_, event));
}

void Driver::run_io() {
  ::pthread_setname_np(::pthread_self(), "pharos-io");
  actors::this_thread.is_runtimes = true;
  while (!io_ends_.load()) reactor_.poll_one(async::Deadline::never());
}

void Driver::on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t> request) {
  if (const auto* const output = std::get_if<wire::Output>(&parcel.message)) {
    output_->print(*output, [node = node_] { node->send(wire::Done{}); });
  } else if (std::holds_alternative<wire::Explain>(parcel.message) && request) {
    caller_->pending_results().explain(
        {}, [node = node_, number = *request](auto explained) { node->respond(number, std::move(explained)); });
  } else {
    caller_->on_node_message(parcel.message);
  }
}

void Driver::on_peer_closed(net::Peer&, const Error& why) {
  if (stopping_.load()) return;
  caller_->lose_everything(Error{ErrorCode::kRuntimeStopped,
                                 "the node that served this program is gone: " + why.message(),
                                 "Start the program again; the node's last messages are on standard error."});
}

async::Async<void> Driver::stop_cluster() {
  const auto deadline = async::Deadline::after(kStopTime, reactor_.now());
  // The result does not matter: a node that does not answer has stopped already.
  wire::Message ask = wire::Stop{};
  [[maybe_unused]] const auto done = co_await node_->request(std::move(ask), std::vector<Fd>{}, deadline);
  node_->close();
}

void Driver::stop() {
  if (caller_->abandoned() || stopping_.exchange(true)) return;
  if (node_ != nullptr) {
    if (io_thread_.joinable()) {
      // Messages that wait to be sent, such as the stop of an actor, go to the node first. Then close() fails the calls
      // in flight with kRuntimeStopped. Otherwise the node, which ends the job next, would fail them with other errors.
      caller_->line().finish_telling();
      caller_->close();
      async::block_on(reactor_, stop_cluster());
    } else {
      node_->close();
    }
  }
  if (quit_signal_ != nullptr) reactor_.unwatch(quit_signal_->descriptor());
  caller_->end();
  if (io_thread_.joinable()) {
    io_ends_.store(true);
    reactor_.post([] {});
    io_thread_.join();
    output_->flush();
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
    // The handshake failed and the process goes on, so the executable that PHAROS_DAEMON names is not `pharos`.
    ::kill(keeper_, SIGKILL);
  }
  // The result does not matter: if the program ignores SIGCHLD, the kernel has reaped the keeper already.
  ::waitpid(keeper_, nullptr, 0);
}

}  // namespace pharos::detail
