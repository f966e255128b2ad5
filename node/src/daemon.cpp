#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/process/descendants.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/limits.hpp>
#include <pharos/process/run_folder.hpp>
#include <pharos/process/token.hpp>

#include "head.hpp"
#include "introduction.hpp"
#include "machine.hpp"
#include "node.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kHandshakeTime = 5s;
constexpr auto kJoinTime = 9s;  // less than a driver waits
constexpr auto kKillTime = 8s;
constexpr std::size_t kUnprovenMax = 64;

/// Runs a function whenever a descriptor is ready.
class Watch final : public net::Reactor::Watcher {
 public:
  explicit Watch(std::function<void()> then) : then_{std::move(then)} {}
  void on_ready(std::uint32_t) override { then_(); }

 private:
  const std::function<void()> then_;
};

/// As long as it lives, one connection more is in its handshake.
class Unproven {
 public:
  explicit Unproven(std::size_t& count) : count_{count} { ++count_; }
  Unproven(Unproven&&) = delete;
  ~Unproven() { --count_; }

 private:
  std::size_t& count_;
};

/// The process around head and node: its keeper, its folder, its listening sockets, who may come in, and the links to
/// other machines.
/// Everything runs on the one thread that polls the reactor.
class Daemon final : public net::Peer::Owner {
 public:
  Daemon(process::Kept kept, const net::Key& token, const DaemonOptions& options)
      : kept_{std::move(kept)}, options_{options}, token_{token} {}

  /// Until the driver, or the keeper, is gone. Returns the exit status.
  int serve_driver(Fd driver) {
    is_a_drivers_ = true;
    watch_processes();
    auto machine = options_.head.empty() ? look_at_machine(options_.cpus) : Machine{};
    compose(machine ? *machine : Machine{});
    auto opened = machine ? open_folder() : Result<void>{machine.error()};
    if (opened && !options_.listen.empty()) opened = listen_at(options_.listen);
    if (!opened) node_->refuse_jobs(std::move(opened).error());
    background_.spawn(serve_first_driver(this, std::move(driver)));
    return poll();
  }

  /// Until it is told to end. Returns the exit status.
  int serve_all() {
    watch_processes();
    auto opened = open_as_told();
    if (!opened) return fail(opened.error());
    if (!options_.head.empty()) background_.spawn(join_and_say(this));
    return poll();
  }

 private:
  /// A node on another machine.
  struct FarNode {
    std::shared_ptr<net::Peer> peer;
    NodeId id;  // none until it has said that it joins
  };

  int poll() {
    while (!ending_) reactor_.poll_one(async::Deadline::never());
    shut_down();
    return status_;
  }

  int fail(const Error& why) {
    std::cerr << "pharos: " << why.to_string() << std::endl;
    end(1);
    shut_down();
    return status_;
  }

  Result<void> open_as_told() {
    PHAROS_TRY(Machine machine, look_at_machine(options_.cpus));
    compose(machine);
    PHAROS_TRY_VOID(open_folder());
    if (!options_.head.empty()) return {};
    PHAROS_TRY_VOID(listen_at(options_.listen));
    const std::string token_file = options_.token_file.empty() ? kept_.run_folder + "/token" : options_.token_file;
    std::cout << "Pharos head, and a node with " << machine.resources.to_string() << "\n"
              << "listening at " << listening_at_ << "; token in " << token_file << "\n"
              << "join with: pharos node --address " << listening_at_ << " --token-file " << token_file << "\n"
              << "run programs with: PHAROS_ADDRESS=" << listening_at_ << " PHAROS_TOKEN_FILE=" << token_file
              << " ./app" << std::endl;
    return {};
  }

  void watch_processes() {
    process::raise_descriptor_limit();
    reactor_.watch(kept_.keeper_alive.get(), EPOLLIN, std::make_shared<Watch>([this] {
                     log(LogLevel::kError, "the keeper is gone; the node ends");
                     end(1);
                   }));
    sigset_t watched;
    ::sigemptyset(&watched);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&watched, signal);
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    signals_ = Fd{::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK)};
    PHAROS_CHECK(signals_, errno);
    reactor_.watch(signals_.get(), EPOLLIN, std::make_shared<Watch>([this] { read_signals(); }));
  }

  void read_signals() {
    signalfd_siginfo signal;
    bool children = false;
    while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
      children = children || signal.ssi_signo == SIGCHLD;
      if (signal.ssi_signo != SIGCHLD) end(0);
    }
    if (children && node_ != nullptr) node_->reap();
  }

  void compose(const Machine& machine) {
    const Node::Settings settings{.id = id_,
                                  .token = token_,
                                  .address = "unix:" + kept_.run_folder + "/node.sock",
                                  .head_address = options_.head,
                                  .machine = machine,
                                  .object_store = ByteCount{options_.object_store}};
    if (!options_.head.empty()) {
      node_ = std::make_unique<Node>(
          reactor_, settings,
          [this](wire::Message message) {
            if (head_link_ != nullptr) head_link_->send(message);
          },
          [this] { return head_link_ == nullptr ? 0 : head_link_->queued(); });
      return;
    }
    // Never at once: what one says to the other is heard when the one is done.
    head_ = std::make_unique<Head>(reactor_);
    node_ = std::make_unique<Node>(
        reactor_, settings,
        [this](wire::Message message) {
          reactor_.post([this, message = std::move(message)]() mutable { head_->on_message(id_, std::move(message)); });
        },
        [] { return std::size_t{0}; });
    head_->add_node(id_, {.address = {}, .total = machine.resources}, [this](wire::Message message) {
      reactor_.post([this, message = std::move(message)]() mutable { node_->on_head_message(std::move(message)); });
    });
  }

  // ---- Doors

  Result<void> open_folder() {
    process::sweep_run_folders(kept_.run_folder.substr(0, kept_.run_folder.rfind('/')));
    PHAROS_TRY_VOID(process::make_run_folder(kept_.run_folder));
    PHAROS_TRY_VOID(process::write_token(kept_.run_folder + "/token", token_));
    return listen_at("unix:" + kept_.run_folder + "/node.sock");
  }

  Result<void> listen_at(const std::string& text) {
    PHAROS_TRY(const net::Address address, net::parse_address(text));
    PHAROS_TRY(Fd socket, net::listen_at(address));
    if (!address.unix_socket) {
      PHAROS_TRY(const net::Address bound, net::bound_address(socket.get()));
      listening_at_ = bound.to_string();
    }
    const int number = socket.get();
    listening_.push_back(std::move(socket));
    reactor_.watch(number, EPOLLIN, std::make_shared<Watch>([this, number, is_unix = address.unix_socket] {
                     accept_all(number, is_unix);
                   }));
    return {};
  }

  void accept_all(int listening, bool is_unix) {
    for (;;) {
      Fd connection{::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!connection) return;
      if (unproven_ >= kUnprovenMax) continue;  // closed: whoever it is may try again
      if (!is_unix) {
        background_.spawn(serve_node(this, std::move(connection)));
      } else if (net::check_peer_is_this_user(connection.get())) {
        background_.spawn(serve_driver_of_folder(this, std::move(connection)));
      }
    }
  }

  net::Identity identity() const { return {net::Role::kNode, id_.value()}; }

  // Drivers come by the Unix socket, because descriptors go between them and their node; nodes come by TCP. Zygotes and
  // workers never connect: they inherit.
  static async::Async<Result<void>> greet(Daemon* self, int socket, net::Role expected) {
    const Unproven counted{self->unproven_};
    const auto deadline = async::Deadline::after(kHandshakeTime, self->reactor_.now());
    net::Acceptor::KeyFor key_for = [self, expected](net::Identity peer) {
      return peer.role == expected ? std::optional{self->token_} : std::nullopt;
    };
    const auto identity = co_await net::accept(&self->reactor_, socket, self->identity(), std::move(key_for), deadline);
    if (identity) co_return {};
    log(LogLevel::kInfo, "refused a connection", {kv("error", identity.error())});
    co_return identity.error();
  }

  static async::Async<void> serve_driver_of_folder(Daemon* self, Fd socket) {
    const auto greeted = co_await greet(self, socket.get(), net::Role::kDriver);
    if (greeted) self->node_->add_driver(std::move(socket));
  }

  static async::Async<void> serve_first_driver(Daemon* self, Fd socket) {
    const auto greeted = co_await greet(self, socket.get(), net::Role::kDriver);
    if (!greeted) {
      self->end(0);
      co_return;
    }
    if (!self->options_.head.empty()) {
      auto joined = co_await join(self);
      if (!joined) self->node_->refuse_jobs(std::move(joined).error());
    }
    const auto driver = self->node_->add_driver(std::move(socket));
    self->node_->when_gone(driver, [self] { self->end(0); });
  }

  static async::Async<void> serve_node(Daemon* self, Fd socket) {
    const auto far = net::set_up_far_socket(socket.get());
    const auto greeted = co_await greet(self, socket.get(), net::Role::kNode);
    if (!far || !greeted) co_return;
    Introduction introduction;
    const auto deadline = async::Deadline::after(kHandshakeTime, self->reactor_.now());
    const auto received = co_await net::receive_exactly(&self->reactor_, socket.get(),
                                                        std::as_writable_bytes(std::span{&introduction, 1}), deadline);
    if (!received) co_return;
    if (introduction.purpose == Introduction::Purpose::kServeCaller) {
      self->node_->serve_far_caller(introduction, std::move(socket));
    } else if (introduction.purpose == Introduction::Purpose::kJoin) {
      const auto peer = self->link_to(std::move(socket));
      self->far_nodes_.emplace(peer.get(), FarNode{peer, {}});
    }
  }

  std::shared_ptr<net::Peer> link_to(Fd socket) {
    const auto link = net::SocketLink::make(reactor_, std::move(socket), net::Descriptors::kRefused);
    auto peer = net::Peer::make(reactor_, link, *this);
    link->start(peer);
    return peer;
  }

  // ---- Other machines

  static async::Async<void> join_and_say(Daemon* self) {
    const auto joined = co_await join(self);
    if (!joined) {
      std::cerr << "pharos: " << joined.error().to_string() << std::endl;
      self->end(1);
      co_return;
    }
    std::cout << "Pharos node with " << self->node_->machine().resources.to_string() << "\n"
              << "joined the head at " << self->options_.head << "; listening at " << self->listening_at_ << std::endl;
  }

  static async::Async<Result<void>> join(Daemon* self) {
    auto joined = co_await join_head(self);
    if (joined) co_return {};
    co_return Error{joined.error()}.with("joining the head at " + self->options_.head);
  }

  static async::Async<Result<void>> join_head(Daemon* self) {
    const auto deadline = async::Deadline::after(kJoinTime, self->reactor_.now());
    PHAROS_CO_TRY(const net::Address head, net::parse_address(self->options_.head));
    PHAROS_CO_TRY(Fd socket, co_await net::connect_to(&self->reactor_, head, deadline));
    PHAROS_CO_TRY_VOID(net::set_up_far_socket(socket.get()));
    PHAROS_CO_TRY(const net::Address here, net::bound_address(socket.get()));
    const auto greeted =
        co_await net::initiate(&self->reactor_, socket.get(), self->token_, self->identity(), deadline);
    if (!greeted) co_return greeted.error();
    const Introduction introduction{.purpose = Introduction::Purpose::kJoin};
    PHAROS_CO_TRY_VOID(net::send_all(socket.get(), std::as_bytes(std::span{&introduction, 1}), deadline));

    // Other nodes reach it as the head does.
    std::string reached_at;
    if (!self->is_a_drivers_) {
      PHAROS_CO_TRY_VOID(self->listen_at(self->options_.listen.empty() ? here.place + ":0" : self->options_.listen));
      reached_at = here.place + self->listening_at_.substr(self->listening_at_.rfind(':'));
    }
    self->head_link_ = self->link_to(std::move(socket));
    wire::Message ask = wire::JoinCluster{self->id_, reached_at, self->node_->machine().resources.amounts()};
    PHAROS_CO_TRY(const net::Parcel answer,
                  co_await self->head_link_->request(std::move(ask), std::vector<Fd>{}, deadline));
    const auto* const cluster = std::get_if<wire::ClusterJoined>(&answer.message);
    if (cluster == nullptr) co_return Error{ErrorCode::kInternal, "the head gave an answer that fits no node"};
    self->node_->note_cluster(cluster->cpus);
    co_return {};
  }

  void admit(FarNode& node, const wire::JoinCluster& join, std::uint64_t request) {
    if (head_ == nullptr) {
      node.peer->respond(request, Error{ErrorCode::kFailedPrecondition, "there is a node, and no head",
                                        "Join its head, at " + options_.head + "."});
      return;
    }
    auto total = scheduler::Resources::checked(join.amounts);
    if (!total || head_->knows(join.node)) {
      node.peer->respond(
          request, total ? Error{ErrorCode::kAlreadyExists, "the node has joined before"} : std::move(total).error());
      return;
    }
    node.id = join.node;
    head_->add_node(join.node, {.address = join.address, .total = *total},
                    [peer = node.peer](wire::Message message) { peer->send(message); });
    node.peer->respond(request, wire::ClusterJoined{head_->cpus()});
  }

  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override {
    if (head_link_ != nullptr && &from == head_link_.get()) return node_->on_head_message(std::move(parcel.message));
    const auto found = far_nodes_.find(&from);
    if (found == far_nodes_.end()) return;
    const auto* const join = std::get_if<wire::JoinCluster>(&parcel.message);
    if (join != nullptr && request && !found->second.id) return admit(found->second, *join, *request);
    if (found->second.id) head_->on_message(found->second.id, std::move(parcel.message));
  }

  void on_peer_closed(net::Peer& peer, const Error& why) override {
    if (head_link_ != nullptr && &peer == head_link_.get()) {
      log(LogLevel::kError, "the head is gone; the node ends", {kv("head", options_.head), kv("error", why)});
      return end(1);
    }
    const auto gone = far_nodes_.extract(&peer);
    if (!gone.empty() && gone.mapped().id) head_->remove_node(gone.mapped().id);
  }

  // ---- The end

  void end(int status) {
    if (!std::exchange(ending_, true)) status_ = status;
  }

  void shut_down() {
    background_.cancel();
    if (node_ != nullptr) node_->close();
    if (head_link_ != nullptr) head_link_->close();
    for (const auto& [peer, node] : far_nodes_) node.peer->close();
    while (background_.size() != 0) reactor_.poll_one(async::Deadline::after(1s, reactor_.now()));
    reactor_.unwatch(signals_.get());
    if (auto killed = process::kill_descendants(async::Deadline::after(kKillTime, reactor_.now())); !killed) {
      log(LogLevel::kError, "processes are left behind", {kv("error", killed.error())});
    }
    process::remove_run_folder(kept_.run_folder);
  }

  const process::Kept kept_;
  const DaemonOptions options_;
  const net::Key token_;
  const NodeId id_{random_u64()};
  bool is_a_drivers_ = false;
  bool ending_ = false;
  int status_ = 0;

  net::Reactor reactor_;
  Fd signals_;
  std::vector<Fd> listening_;
  std::string listening_at_;    // the TCP address, if there is one
  std::size_t unproven_ = 0;    // connections in their handshake
  std::unique_ptr<Head> head_;  // null: it is elsewhere
  std::unique_ptr<Node> node_;
  std::shared_ptr<net::Peer> head_link_;  // null: it is here, or not joined
  std::unordered_map<const net::Peer*, FarNode> far_nodes_;
  async::AsyncGroup background_{reactor_};
};

void name_process(const DaemonOptions& options) {
  ::prctl(PR_SET_NAME, "pharos-node");
  set_log_role(options.head.empty() ? "head" : "node");
}

}  // namespace

int run_daemon(process::Kept kept, Fd driver, const DaemonOptions& options) {
  ::prctl(PR_SET_NAME, "pharos-node");
  set_log_role("node");
  const auto deadline = async::Deadline::after(kHandshakeTime, std::chrono::steady_clock::now());
  const auto preamble = process::receive_preamble(driver.get(), deadline);
  if (!preamble) return 1;
  Daemon daemon{std::move(kept), preamble->key, options};
  return daemon.serve_driver(std::move(driver));
}

int run_daemon(process::Kept kept, const net::Key& token, const DaemonOptions& options) {
  name_process(options);
  Daemon daemon{std::move(kept), token, options};
  return daemon.serve_all();
}

}  // namespace pharos::node
