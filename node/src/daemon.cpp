#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/process/descendants.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/limits.hpp>
#include <pharos/process/run_folder.hpp>

#include "head.hpp"
#include "node.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kHandshakeTime = 5s;
constexpr auto kKillTime = 8s;
constexpr std::size_t kUnprovenMax = 64;

std::uint32_t usable_cpus() {
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(CPU_COUNT(&cpus), 1));
}

Result<void> write_token(const std::string& path, const net::Key& token) {
  const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file || ::write(file.get(), token.data(), token.size()) != static_cast<ssize_t>(token.size())) {
    return Error::from_errno("writing " + path, errno);
  }
  return {};
}

/// Runs a function whenever a descriptor is ready.
class Watch final : public net::Reactor::Watcher {
 public:
  explicit Watch(std::function<void()> then) : then_{std::move(then)} {}
  void on_ready(std::uint32_t) override { then_(); }

 private:
  const std::function<void()> then_;
};

/// The process around head and node: its keeper, its folder, its listening sockets, and who may come in.
/// Everything runs on the one thread that polls the reactor.
class Daemon {
 public:
  Daemon(process::Kept kept, const DaemonOptions& options) : kept_{std::move(kept)}, options_{options} {}

  /// Serves until the first driver, or the keeper, is gone. Returns the exit status.
  int run(Fd driver) {
    const auto deadline = async::Deadline::after(kHandshakeTime, reactor_.now());
    const auto preamble = process::receive_preamble(driver.get(), deadline);
    if (!preamble) return 1;
    token_ = preamble->key;
    watch_processes();
    compose();
    if (auto done = open_to_others(); !done) node_->refuse_jobs(std::move(done).error());
    background_.spawn(serve(this, std::move(driver), true));
    while (!ending_) reactor_.poll_one(async::Deadline::never());
    shut_down();
    return status_;
  }

 private:
  void watch_processes() {
    process::raise_descriptor_limit();
    reactor_.watch(kept_.keeper_alive.get(), EPOLLIN, std::make_shared<Watch>([this] {
                     log(LogLevel::kError, "the keeper is gone; the node ends");
                     end(1);
                   }));
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, nullptr);
    child_event_ = Fd{::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK)};
    PHAROS_CHECK(child_event_, errno);
    reactor_.watch(child_event_.get(), EPOLLIN, std::make_shared<Watch>([this] {
                     signalfd_siginfo ignored;
                     while (::read(child_event_.get(), &ignored, sizeof ignored) > 0) {
                     }
                     node_->reap();
                   }));
  }

  void compose() {
    const Node::Settings settings{.id = id_,
                                  .token = token_,
                                  .address = "unix:" + kept_.run_folder + "/node.sock",
                                  .cpus = options_.cpus != 0 ? options_.cpus : usable_cpus(),
                                  .object_store = ByteCount{options_.object_store}};
    // Never at once: what one says to the other is heard when the one is done.
    node_ = std::make_unique<Node>(reactor_, settings, [this](wire::Message message) {
      reactor_.post([this, message = std::move(message)]() mutable { head_.on_message(id_, std::move(message)); });
    });
    head_.add_node(id_, [this](wire::Message message) {
      reactor_.post([this, message = std::move(message)]() mutable { node_->on_head_message(std::move(message)); });
    });
  }

  Result<void> open_to_others() {
    process::sweep_run_folders(kept_.run_folder.substr(0, kept_.run_folder.rfind('/')));
    PHAROS_TRY_VOID(process::make_run_folder(kept_.run_folder));
    PHAROS_TRY_VOID(write_token(kept_.run_folder + "/token", token_));
    PHAROS_TRY_VOID(listen_at("unix:" + kept_.run_folder + "/node.sock"));
    if (!options_.listen.empty()) PHAROS_TRY_VOID(listen_at(options_.listen));
    return {};
  }

  Result<void> listen_at(const std::string& text) {
    PHAROS_TRY(const net::Address address, net::parse_address(text));
    PHAROS_TRY(Fd socket, net::listen_at(address));
    const int number = socket.get();
    listening_.push_back(std::move(socket));
    reactor_.watch(number, EPOLLIN, std::make_shared<Watch>([this, number, unix_socket = address.unix_socket] {
                     accept_all(number, unix_socket);
                   }));
    return {};
  }

  void accept_all(int listening, bool unix_socket) {
    for (;;) {
      Fd connection{::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!connection) return;
      if (unproven_ >= kUnprovenMax) continue;  // closed: whoever it is may try again
      if (unix_socket && !net::check_peer_is_this_user(connection.get())) continue;
      background_.spawn(serve(this, std::move(connection), false));
    }
  }

  // Zygotes and workers never connect: they inherit.
  std::optional<net::Key> key_for(net::Identity peer) const {
    return peer.role == net::Role::kDriver ? std::optional{token_} : std::nullopt;
  }

  static async::Async<void> serve(Daemon* self, Fd socket, bool is_first) {
    ++self->unproven_;
    const auto deadline = async::Deadline::after(kHandshakeTime, self->reactor_.now());
    const net::Identity own{net::Role::kNode, self->id_.value()};
    net::Acceptor::KeyFor key_for = [self](net::Identity peer) { return self->key_for(peer); };
    const auto identity = co_await net::accept(&self->reactor_, socket.get(), own, std::move(key_for), deadline);
    --self->unproven_;
    if (!identity) {
      log(LogLevel::kInfo, "refused a connection", {kv("error", identity.error())});
      if (is_first) self->end(0);
      co_return;
    }
    const auto driver = self->node_->add_driver(std::move(socket));
    if (is_first) self->node_->when_gone(driver, [self] { self->end(0); });
  }

  void end(int status) {
    if (!std::exchange(ending_, true)) status_ = status;
  }

  void shut_down() {
    background_.cancel();
    node_->close();
    while (background_.size() != 0) reactor_.poll_one(async::Deadline::after(1s, reactor_.now()));
    reactor_.unwatch(child_event_.get());
    if (auto killed = process::kill_descendants(async::Deadline::after(kKillTime, reactor_.now())); !killed) {
      log(LogLevel::kError, "processes are left behind", {kv("error", killed.error())});
    }
    process::remove_run_folder(kept_.run_folder);
  }

  const process::Kept kept_;
  const DaemonOptions options_;
  const NodeId id_{random_u64()};
  net::Key token_{};
  bool ending_ = false;
  int status_ = 0;

  net::Reactor reactor_;
  Fd child_event_;
  std::vector<Fd> listening_;
  std::size_t unproven_ = 0;  // connections in their handshake
  Head head_{reactor_};
  std::unique_ptr<Node> node_;
  async::AsyncGroup background_{reactor_};
};

}  // namespace

int run_daemon(process::Kept kept, Fd driver, const DaemonOptions& options) {
  ::prctl(PR_SET_NAME, "pharos-node");
  set_log_role("node");
  Daemon daemon{std::move(kept), options};
  return daemon.run(std::move(driver));
}

}  // namespace pharos::node
