#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/base/failpoint.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/net/token_ring.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/node/failpoints.hpp>
#include <pharos/node/introduction.hpp>
#include <pharos/object_store/failpoints.hpp>
#include <pharos/process/descendants.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/limits.hpp>
#include <pharos/process/run_folder.hpp>
#include <pharos/process/token.hpp>
#include <pharos/storage/rocksdb_kv_store.hpp>

#include "daemon/front_door.hpp"
#include "daemon/machine.hpp"
#include "daemon/membership.hpp"
#include "daemon/reactor_host.hpp"
#include "daemon/watch.hpp"
#include "store/program_files.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kHandshakeTime = 5s;
constexpr auto kJoinTime = 9s;  // less than a driver waits for its daemon
constexpr auto kKillTime = 8s;

/// Path of the file that standard error goes to; empty if standard error is no regular file.
std::string own_log() {
  struct stat status {};
  std::error_code error;
  if (::fstat(STDERR_FILENO, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const auto path = std::filesystem::read_symlink("/proc/self/fd/2", error);
  return error ? "" : path.string();
}

/// The process around head and node: keeper, run folder, listening sockets, handshakes of new connections and child
/// processes. Everything runs on the one thread that polls the reactor.
class Daemon final {
 public:
  Daemon(process::Kept kept, net::TokenRing tokens, const DaemonOptions& options)
      : kept_{std::move(kept)}, options_{options}, tokens_{std::move(tokens)} {}

  /// Serves until the driver or the keeper is gone, and returns the exit status.
  int serve_driver(Fd driver) {
    serves_one_driver_ = true;
    watch_processes();
    auto machine = options_.head.empty() ? look_at_machine(options_) : Machine{};
    if (machine) machine_ = *machine;
    compose();
    auto opened = machine ? open_folder() : Result<void>{machine.error()};
    if (opened && options_.head.empty() && !options_.listen.empty()) opened = listen_at(options_.listen);
    if (!opened) node().refuse_jobs(std::move(opened).error());
    background_.spawn(serve_first_driver(std::move(driver)));
    return poll();
  }

  /// Serves until the daemon is told to end, and returns the exit status.
  int serve_all() {
    watch_processes();
    auto opened = open_as_told();
    if (!opened) return fail(opened.error());
    if (!options_.head.empty()) {
      background_.spawn(join_and_say());
    } else if (!options_.state.empty()) {
      background_.spawn(start_head());
    } else {
      say_head_runs();
    }
    return poll();
  }

 private:
  int poll() {
    while (!ending_) reactor_.poll_one(async::Deadline::never());
    shut_down();
    return status_;
  }

  int fail(const Error& why) {
    std::cerr << "pharos: " << why.to_string() << std::endl;
    end(exit_status_of(why));
    shut_down();
    return status_;
  }

  Result<void> open_as_told() {
    PHAROS_TRY(machine_, look_at_machine(options_));
    compose();
    PHAROS_TRY_VOID(open_folder());
    if (options_.head.empty()) PHAROS_TRY_VOID(listen_at(options_.listen));
    return {};
  }

  /// Absolute path, so that the printed commands work in any folder.
  std::string token_file() const {
    return options_.token_file.empty() ? kept_.run_folder + "/token"
                                       : std::filesystem::absolute(options_.token_file).string();
  }
  std::string programs_folder() const { return kept_.run_folder + "/programs"; }
  /// Address that works on other machines and here: 0.0.0.0 is replaced by this machine's own address.
  std::string reached_at() const {
    const std::string& address = front_door_.listening_at();
    return address.starts_with("0.0.0.0:") ? net::own_place() + address.substr(address.rfind(':')) : address;
  }
  void say_head_runs() const {
    std::cout << "Pharos head, and a node with " << machine_.resources.to_string() << "\n"
              << "listening at " << front_door_.listening_at() << "; token in " << token_file() << "\n"
              << "join with: pharos start --address " << reached_at() << " --token-file " << token_file()
              << "  (on another machine: with a copy of that file)\n";
    describe("a head");
    say_next_commands();
  }
  void say_node_runs() const {
    std::cout << "Pharos node with " << machine_.resources.to_string() << "\n"
              << "joined the head at " << options_.head << "; listening at " << front_door_.listening_at() << "\n";
    describe("a node");
    say_next_commands();
  }
  /// Writes the file by which the commands find the clusters that users have started on this machine.
  void describe(const std::string& what) const {
    std::ofstream{kept_.run_folder + "/started"} << what << ", listening at " << front_door_.listening_at() << '\n';
  }
  void say_next_commands() const {
    const std::string place = " --address " + reached_at() + " --token-file " + token_file();
    std::cout << "run programs with: pharos run" << place << " -- ./app\n"
              << "or with: PHAROS_ADDRESS=" << reached_at() << " PHAROS_TOKEN_FILE=" << token_file() << " ./app\n"
              << "look at it with: pharos status" << place << "\n"
              << "end it with: pharos stop" << place << std::endl;
    end_words();
  }
  /// Tells the process that has started this daemon in the background that the text is complete.
  void end_words() const {
    if (options_.ends_words_with_zero) std::cout << '\0' << std::flush;
  }

  void watch_processes() {
    process::raise_descriptor_limit();
    reactor_.watch(kept_.keeper_alive.get(), EPOLLIN, std::make_shared<Watch>([this] {
                     log(LogLevel::kError, "the keeper is gone; the node ends");
                     end(1);
                   }));
    sigset_t watched;
    ::sigemptyset(&watched);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&watched, signal);
    if (!process::ignores(SIGHUP)) ::sigaddset(&watched, SIGHUP);  // under nohup a hangup ends nothing
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
      if (signal.ssi_signo != SIGCHLD) leave();
    }
    if (children) reap();
  }

  // The signal may come because the machine is about to be taken away. So what runs here is told, and has some time to
  // go elsewhere. A second signal ends the daemon at once.
  void leave() {
    const bool has_time = options_.grace != 0 && !options_.head.empty() && !serves_one_driver_;
    if (!has_time || std::exchange(leaves_, true)) return end(0);
    const auto grace = std::chrono::seconds{options_.grace};
    log(LogLevel::kInfo, "the node is told to end; what runs here goes elsewhere", {kv("seconds", options_.grace)});
    node().leave(grace);
    reactor_.run_at(reactor_.now() + grace, [this] { end(0); });
  }

  void reap() {
    int status = 0;
    while (membership_ != nullptr) {
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return;
      node().on_child_ended(pid, status);
    }
  }

  void compose() {
    host_ = std::make_unique<ReactorHost>(
        reactor_, ReactorHost::Settings{.node = identity(),
                                        .tokens = &tokens_,
                                        .take_token = [this](const auto& rotated) { take_token(rotated); },
                                        .programs_folder = programs_folder()});
    const Node::Settings settings{
        .id = id_,
        .address = "unix:" + kept_.run_folder + "/node.sock",
        .head_address = options_.head,
        .machine = machine_,
        .object_store = {.node = id_,
                         .capacity = ByteCount{options_.object_store},
                         .spill_folder = options_.spill_folder},
        .logs = {.folder = kept_.run_folder + "/logs", .own = serves_one_driver_ ? "" : own_log()},
        .memory_threshold = options_.memory_threshold};
    Membership::OpenRecords open_records;
    if (!options_.state.empty()) open_records = [folder = options_.state] { return storage::open_rocksdb(folder); };
    membership_ =
        std::make_unique<Membership>(reactor_, *host_, Membership::Settings{settings, std::move(open_records)},
                                     Membership::Ends{.lost = [this](const Error& why) { end_without_head(why); },
                                                      .given_up = [this] { end_to_begin_anew(); },
                                                      .told_to = [this] { end(0); }});
  }

  void end_without_head(const Error& why) {
    log(LogLevel::kError, "the head is gone; the node ends", {kv("head", options_.head), kv("error", why)});
    end(1);
  }

  // The cluster has placed elsewhere whatever could go on, so nothing here is worth keeping.
  void end_to_begin_anew() {
    log(LogLevel::kWarn, "the cluster has given this node up; what it ran ends, and it joins as another one",
        {kv("node", id_)});
    end(serves_one_driver_ ? 1 : kExitToRestartAsNewNode);
  }

  async::Async<void> start_head() {
    const auto started = co_await membership_->start();
    if (started) {
      say_head_runs();
    } else {
      std::cerr << "pharos: " << started.error().to_string() << std::endl;
      end(1);
    }
  }

  Node& node() { return membership_->node(); }

  // ---- Those who connect

  Result<void> open_folder() {
    process::sweep_run_folders(kept_.run_folder.substr(0, kept_.run_folder.rfind('/')));
    PHAROS_TRY_VOID(process::make_run_folder(kept_.run_folder));
    remove_own_folders(programs_folder());
    PHAROS_TRY_VOID(process::replace_token_ring(kept_.run_folder + "/token", tokens_));
    return listen_at("unix:" + kept_.run_folder + "/node.sock");
  }

  /// The cluster has a new token. The files from which others, and a later start, have it are written anew.
  void take_token(const wire::RotateToken& rotated) {
    if (!tokens_.take(rotated.sealed, rotated.until, net::seconds_now())) return;
    log(LogLevel::kInfo, "the cluster has a new token", {kv("file", token_file())});
    std::set<std::string> files{kept_.run_folder + "/token", token_file()};
    for (const std::string& file : files) {
      if (auto written = process::replace_token_ring(file, tokens_); !written) {
        log(LogLevel::kError, "the cluster's new token cannot be kept; a restart from this file will fail later",
            {kv("error", written.error())});
      }
    }
  }

  Result<void> listen_at(const std::string& text) {
    PHAROS_TRY(const net::Address bound, front_door_.listen_at(text));
    // 0.0.0.0 stands for every address of this machine, so it is no place where others could reach this node.
    if (!bound.unix_socket && bound.place != "0.0.0.0") host_->set_place(bound.place);
    return {};
  }

  net::Identity identity() const { return {net::Role::kNode, id_.value()}; }

  void serve_node(const Introduction& introduction, Fd socket) {
    if (introduction.purpose == Introduction::Purpose::kJoin) {
      membership_->add_node(std::move(socket));
    } else {
      node().serve_far(introduction, std::move(socket));
    }
  }

  async::Async<void> serve_first_driver(Fd socket) {
    const auto greeted = co_await front_door_.greet(socket.get(), net::Role::kDriver);
    if (!greeted) {
      end(0);
      co_return;
    }
    if (!options_.head.empty()) {
      auto joined = co_await join();
      if (!joined) node().refuse_jobs(std::move(joined).error());
    }
    const auto driver = node().add_driver(std::move(socket));
    node().when_gone(driver, [this] { end(0); });
  }

  // ---- Joining a head elsewhere

  async::Async<void> join_and_say() {
    const auto joined = co_await join();
    if (!joined) {
      std::cerr << "pharos: " << joined.error().to_string() << std::endl;
      end(1);
      co_return;
    }
    say_node_runs();
  }

  async::Async<Result<void>> join() {
    const auto deadline = async::Deadline::after(kJoinTime, reactor_.now());
    Membership::ReachedAt reached_at = [this](int head) { return listen_beside(head); };
    auto joined = co_await membership_->join(std::move(reached_at), deadline);
    if (joined) co_return {};
    co_return Error{joined.error()}.with("joining the head at " + options_.head);
  }

  /// Returns where other nodes reach this one, and listens there if it does not yet. `head` is the connection to the
  /// head: other nodes reach this node at the same local address as the head does.
  Result<std::string> listen_beside(int head) {
    PHAROS_TRY(const net::Address here, net::bound_address(head));
    if (front_door_.listening_at().empty()) {
      PHAROS_TRY_VOID(listen_at(options_.listen.empty() ? here.place + ":0" : options_.listen));
    }
    host_->set_place(here.place);
    return here.place + front_door_.listening_at().substr(front_door_.listening_at().rfind(':'));
  }

  // ---- The end

  void end(int status) {
    if (!std::exchange(ending_, true)) status_ = status;
  }

  void shut_down() {
    background_.cancel();
    front_door_.close();
    if (membership_ != nullptr) membership_->close();
    if (host_ != nullptr) host_->close();
    while (background_.size() != 0 || !front_door_.closed() ||
           (host_ != nullptr && (!membership_->closed() || !host_->closed()))) {
      reactor_.poll_one(async::Deadline::after(1s, reactor_.now()));
    }
    reactor_.unwatch(signals_.get());
    if (auto killed = process::kill_descendants(async::Deadline::after(kKillTime, reactor_.now())); !killed) {
      log(LogLevel::kError, "processes are left behind", {kv("error", killed.error())});
    }
    process::remove_run_folder(kept_.run_folder);
  }

  const process::Kept kept_;
  const DaemonOptions options_;
  net::TokenRing tokens_;
  const NodeId id_{random_u64()};
  Machine machine_;
  bool serves_one_driver_ = false;
  bool leaves_ = false;
  bool ending_ = false;
  int status_ = 0;

  net::Reactor reactor_;
  Fd signals_;
  FrontDoor front_door_{reactor_, identity(), tokens_,
                        FrontDoor::Guests{.driver = [this](Fd socket) { membership_->add_driver(std::move(socket)); },
                                          .node = [this](const Introduction& introduction,
                                                         Fd socket) { serve_node(introduction, std::move(socket)); }}};
  std::unique_ptr<ReactorHost> host_;
  std::unique_ptr<Membership> membership_;
  async::AsyncGroup background_{reactor_};
};

/// Returns whether a daemon can come to this failpoint.
bool is_of_daemon(FailpointId at) {
  const auto is_in = [at](const auto& list) { return std::ranges::count(list, at) != 0; };
  return is_in(failpoints::kOfStore) || is_in(failpoints::kOfTransfer) || is_in(failpoints::kOfRecords) ||
         is_in(object_store::failpoints::kOfTransfer);
}

/// Takes the failpoint that a test has ordered, if there is one. Returns false if the order makes no sense.
bool take_failpoint_order() {
  const char* const order = std::getenv("PHAROS_FAILPOINT");
  if (order == nullptr) return true;
  auto parsed = parse_failpoint(order);
  if (parsed && !is_of_daemon(parsed->at)) {
    parsed =
        Error{ErrorCode::kInvalidArgument, "a daemon has no failpoint of the name in \"" + std::string{order} + '"',
              "Take a name from pharos/node/failpoints.hpp."};
  }
  if (parsed) {
    order_failpoint(*parsed);
  } else {
    log(LogLevel::kError, "PHAROS_FAILPOINT makes no sense", {kv("error", parsed.error())});
  }
  return parsed.ok();
}

void name_process(const DaemonOptions& options) {
  ::prctl(PR_SET_NAME, "pharos-node");
  set_log_role(options.head.empty() ? "head" : "node");
}

}  // namespace

int run_daemon(process::Kept kept, Fd driver, const DaemonOptions& options) {
  ::prctl(PR_SET_NAME, "pharos-node");
  set_log_role("node");
  if (!take_failpoint_order()) return 1;
  const auto deadline = async::Deadline::after(kHandshakeTime, std::chrono::steady_clock::now());
  const auto preamble = process::receive_preamble(driver.get(), deadline);
  if (!preamble) return 1;
  Daemon daemon{std::move(kept), net::TokenRing{preamble->key}, options};
  return daemon.serve_driver(std::move(driver));
}

int run_daemon(process::Kept kept, const net::TokenRing& tokens, const DaemonOptions& options) {
  name_process(options);
  if (!take_failpoint_order()) return 1;
  Daemon daemon{std::move(kept), tokens, options};
  return daemon.serve_all();
}

}  // namespace pharos::node
