#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <pharos/base/fd.hpp>
#include <pharos/base/random.hpp>
#include <pharos/net/address.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/process/keeper.hpp>
#include <pharos/process/run_folder.hpp>
#include <pharos/process/token.hpp>

#include "commands.hpp"
#include "daemon_options.hpp"

namespace pharos::console {
namespace {

namespace fs = std::filesystem;

struct StartOptions {
  bool head = false;
  bool block = false;                   // true: runs in this process until Ctrl-C; false: in the background
  std::optional<std::uint16_t> port{};  // the port of a head; unset: kDefaultPort; 0: a free port
  std::string base_folder;              // where the run folder is made; empty: the default place
  node::DaemonOptions daemon;
};

/// Returns the tokens from the token file. A head creates the file if it does not exist: with a state folder the
/// default place is that folder, else the token is only in its run folder. A node must be given a token file unless its
/// cluster is on this machine.
Result<net::TokenRing> tokens_of(StartOptions& options) {
  node::DaemonOptions& daemon = options.daemon;
  if (!options.head) {
    if (!daemon.token_file.empty()) return process::read_token_ring(daemon.token_file);
    PHAROS_TRY(const std::string here, token_of_cluster_here());
    return process::read_token_ring(here);
  }
  if (daemon.token_file.empty() && !daemon.state.empty()) {
    std::error_code failed;
    if (fs::create_directories(daemon.state, failed)) fs::permissions(daemon.state, fs::perms::owner_all, failed);
    if (failed) return Error{ErrorCode::kPermissionDenied, "making " + daemon.state + ": " + failed.message()};
    daemon.token_file = daemon.state + "/token";
  }
  if (!daemon.token_file.empty() && fs::exists(daemon.token_file)) return process::read_token_ring(daemon.token_file);
  net::Key token;
  fill_random(token);
  if (!daemon.token_file.empty()) PHAROS_TRY_VOID(process::write_token(daemon.token_file, token));
  return net::TokenRing{token};
}

// The node may have written a new token to its file before it was given up.
int keep(const std::string& base, StartOptions& options, net::TokenRing tokens) {
  for (;;) {
    const int status = process::run_keeper(
        base, [&](process::Kept kept) { return node::run_daemon(std::move(kept), tokens, options.daemon); });
    if (status != node::kExitToRestartAsNewNode) return status;
    if (auto newest = tokens_of(options)) tokens = *std::move(newest);
  }
}

/// Prints all text up to a zero byte, which is not printed. Returns false if the text ended before a zero byte.
bool show_until_zero(int from) {
  std::array<char, 4096> some{};
  for (;;) {
    const ssize_t size = ::read(from, some.data(), some.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    const std::string_view text{some.data(), static_cast<std::size_t>(size)};
    std::cout << text.substr(0, text.find('\0')) << std::flush;
    if (text.find('\0') != std::string_view::npos) return true;
  }
}

// The child process gets a session of its own. It prints how to go on, then a zero byte, and nothing more.
Result<int> keep_in_background(const std::string& base, StartOptions& options, const net::TokenRing& tokens) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("making a pipe", errno);
  const Fd reading{ends[0]};
  Fd writing{ends[1]};
  const std::string log = base + "/start-" + std::to_string(::getpid()) + ".log";
  const pid_t child = ::fork();
  if (child < 0) return Error::from_errno("starting it in the background", errno);
  if (child == 0) {
    ::setsid();
    ::signal(SIGPIPE, SIG_IGN);
    const Fd nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    const Fd lines{::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(writing.get(), STDOUT_FILENO);
    if (lines) ::dup2(lines.get(), STDERR_FILENO);
    options.daemon.ends_words_with_zero = true;
    const int status = keep(base, options, tokens);
    if (status == 0) ::unlink(log.c_str());  // nothing went wrong
    ::_exit(status);
  }
  writing.reset();
  if (show_until_zero(reading.get())) {
    std::cout << "it runs in the background; its log is " << log << std::endl;
    return 0;
  }
  int ended = 0;
  ::waitpid(child, &ended, 0);
  std::cerr << std::ifstream{log}.rdbuf();
  ::unlink(log.c_str());
  if (WIFEXITED(ended) && WEXITSTATUS(ended) != 0) return WEXITSTATUS(ended);
  return Error{ErrorCode::kUnavailable, "the daemon ended before it had started"};
}

/// Starts a head, which is also a node, or another node. Prints how to go on, and returns the exit status.
Result<int> start_node(StartOptions options) {
  if (options.head == !options.daemon.head.empty()) {
    return Error{ErrorCode::kInvalidArgument, "it has to be either a head or a node of one",
                 "Give --head, or --address HOST:PORT."};
  }
  const auto is_for_heads = [](const char* option) {
    return Error{ErrorCode::kInvalidArgument, std::string{option} + " is an option for a head",
                 "Leave it out, or give --head."};
  };
  if (!options.head && options.port) return is_for_heads("--port");
  if (!options.head && !options.daemon.state.empty()) return is_for_heads("--state");
  if (options.port && !options.daemon.listen.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--listen names a port, too", "Leave --port out."};
  }
  if (options.daemon.listen.starts_with("unix:")) {
    return Error{ErrorCode::kInvalidArgument,
                 "--listen is the address for other machines; a node always has a local socket, too",
                 "Write --listen HOST:PORT."};
  }
  if (options.head && options.daemon.listen.empty()) {
    options.daemon.listen = "127.0.0.1:" + std::to_string(options.port.value_or(kDefaultPort));
  }
  if (!options.head) {  // so that a host name is resolved only once
    PHAROS_TRY(const net::Address head, net::parse_address(options.daemon.head));
    options.daemon.head = head.to_string();
  }
  if (!options.base_folder.empty()) ::setenv("PHAROS_FOLDER", options.base_folder.c_str(), 1);
  PHAROS_TRY(const std::string base, process::ensure_base_folder());
  PHAROS_TRY(const net::TokenRing tokens, tokens_of(options));
  if (options.block) return keep(base, options, tokens);
  return keep_in_background(base, options, tokens);
}

}  // namespace

void add_start(Commands& commands) {
  const auto options = std::make_shared<StartOptions>();
  node::DaemonOptions& daemon = options->daemon;
  CLI::App& command = commands.add("start", "Starts the head of a cluster, which is also a node, or another node",
                                   [options] { return status_of(start_node(std::move(*options))); });
  command.add_flag("--head", options->head, "Starts a head");
  command.add_option("--address", daemon.head, "Starts a node that joins the head at this address")
      ->type_name("HOST:PORT");
  command.add_flag("--block", options->block, "Runs in this process, until Ctrl-C; else in the background");
  command.add_option("--port", options->port, "The port of a head at 127.0.0.1 (default: 7400; 0: a free port)")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535).description(""));
  command
      .add_option(
          "--listen", daemon.listen,
          "The address at which other machines reach it; no other machine reaches 127.0.0.1 (default of a node: a "
          "free port at the address from which it reaches the head)")
      ->type_name("HOST:PORT");
  command
      .add_option(
          "--state", daemon.state,
          "The folder, on a disk, in which a head keeps what must outlive it; a head that starts there again goes "
          "on")
      ->type_name("FOLDER");
  command
      .add_option(
          "--token-file", daemon.token_file,
          "The cluster's token, or a copy of it, with mode 600. A head makes the file if it is not there; a node "
          "on the head's machine finds the token without it")
      ->type_name("FILE")
      ->envname("PHAROS_TOKEN_FILE");
  command
      .add_option("--grace", daemon.grace,
                  "If the node gets SIGTERM, what runs there has so many seconds to go elsewhere, as with \"pharos "
                  "drain\"; a second SIGTERM ends it at once. Without this option the first one does")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 86'400).description(""));
  command
      .add_option("--folder", options->base_folder,
                  "Where the run folder is made (default: PHAROS_FOLDER, TMPDIR or /tmp)")
      ->type_name("FOLDER");
  add_resource_options(command, daemon);
  add_store_options(command, daemon);
  command.footer(
      "Examples:\n"
      "  pharos start --head\n"
      "  pharos start --head --listen 10.0.0.1:7400 --state /var/lib/pharos\n"
      "  pharos start --head --cpus 8 --resources gpu=2,memory=64GiB,fast_disk=1 --labels zone=a --block\n"
      "  pharos start --address 10.0.0.1:7400 --token-file ~/cluster.token\n"
      "  pharos start --address 10.0.0.1:7400 --grace 25 --block    # under Slurm, Kubernetes, on spot machines\n"
      "A node runs a program from the path where the program was started, if the same build is there; else the node "
      "gets\n"
      "a copy of the executable. The shared libraries of the program must be on the node.");
}

}  // namespace pharos::console
