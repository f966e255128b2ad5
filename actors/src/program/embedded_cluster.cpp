#include "program/embedded_cluster.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/run_folder.hpp>
#include <pharos/process/spawn.hpp>
#include <pharos/process/token.hpp>

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;

constexpr int kControl = 3;  // the descriptor where `pharos keeper` expects the daemon's end of the connection
constexpr auto kConnectTime = 10s;

/// Returns an absolute path, or "." if the folder cannot be found. If the runtime is linked statically into the
/// program, the dynamic linker knows only the name by which the program was called: perhaps a relative path, or a name
/// without a slash that was found in PATH. For such a name the answer comes from /proc/self/exe.
std::string folder_of_this_library() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<void*>(&find_daemon), &found) == 0 || found.dli_fname == nullptr) return ".";
  const bool is_path = std::string_view{found.dli_fname}.find('/') != std::string_view::npos;
  const std::unique_ptr<char, decltype(&std::free)> whole{
      ::realpath(is_path ? found.dli_fname : "/proc/self/exe", nullptr), &std::free};
  if (whole == nullptr) return ".";
  const std::string path = whole.get();
  return path.substr(0, path.rfind('/'));
}

bool executable(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

Result<net::Key> token_of(const RuntimeOptions& options, const net::Address& address) {
  std::string token_file = options.token_file.empty() ? variable("PHAROS_TOKEN_FILE") : options.token_file;
  if (token_file.empty() && address.unix_socket) {
    token_file = address.place.substr(0, address.place.rfind('/') + 1) + "token";
  }
  if (token_file.empty()) {
    return Error{ErrorCode::kPermissionDenied, "no token for the cluster at " + options.address,
                 "Set PHAROS_TOKEN_FILE to the cluster's token file."};
  }
  return process::read_token(token_file);
}

/// Returns the names of the options that are set and count only for a cluster of the program's own.
std::string options_of_own_cluster(const RuntimeOptions& options) {
  std::string names;
  const auto add = [&](bool is_set, const char* name) {
    if (is_set) names += (names.empty() ? "" : ", ") + std::string{name};
  };
  add(!options.listen.empty(), "listen");
  add(options.object_store != ByteCount{}, "object_store");
  add(!options.spill_folder.empty(), "spill_folder");
  add(options.cpus != 0, "cpus");
  return names;
}

/// Starts a keeper and a daemon for this program alone, with these options of `pharos keeper`.
Result<NodeConnection> start_daemon(const net::Key& token, std::vector<std::string> options) {
  PHAROS_TRY(const std::string daemon, find_daemon());
  PHAROS_TRY(const std::string base, process::ensure_base_folder());
  PHAROS_TRY(net::SocketPair control, net::socket_pair());
  process::Preamble preamble;
  preamble.key = token;
  preamble.id = random_u64();
  PHAROS_TRY_VOID(process::send_preamble(control.first.get(), preamble));
  process::Program program{.path = daemon,
                           .executable = {},
                           .arguments = {"pharos", "keeper", "--base-folder", base},
                           .environment = process::own_environment(),
                           .moved = {{control.second.get(), kControl}},
                           .folder = "/",
                           .new_session = true};
  program.arguments.insert(program.arguments.end(), options.begin(), options.end());
  PHAROS_TRY(const pid_t keeper, process::spawn(program));
  return NodeConnection{std::move(control.first), token, keeper, daemon};
}

}  // namespace

Result<std::string> find_daemon() {
  if (const std::string named = variable("PHAROS_DAEMON"); !named.empty()) {
    if (executable(named)) return named;
    return Error{ErrorCode::kNotFound, "PHAROS_DAEMON names " + named + ", which is not an executable file"};
  }
  const std::string here = folder_of_this_library();
  for (const std::string& path : {here + "/../bin/pharos", here + "/pharos"}) {
    if (executable(path)) return path;
  }
  return Error{ErrorCode::kNotFound, "found no pharos executable at " + here + "/../bin/pharos or " + here + "/pharos",
               "Set PHAROS_DAEMON to the path of the executable."};
}

Result<NodeConnection> start_embedded_cluster(const RuntimeOptions& options) {
  std::vector<std::string> arguments;
  if (!options.listen.empty()) {
    PHAROS_TRY([[maybe_unused]] const net::Address address, net::parse_address(options.listen));
    arguments.insert(arguments.end(), {"--listen", options.listen});
  }
  if (options.cpus != 0) arguments.insert(arguments.end(), {"--cpus", std::to_string(options.cpus)});
  if (options.object_store != ByteCount{}) {
    arguments.insert(arguments.end(), {"--object-store", std::to_string(options.object_store.bytes())});
  }
  if (!options.spill_folder.empty()) {
    arguments.insert(arguments.end(), {"--spill-folder", options.spill_folder});
  }
  net::Key token;
  fill_random(token);
  return start_daemon(token, std::move(arguments));
}

// A program needs a node on its own machine, because descriptors cannot travel over TCP. That node runs already, or the
// program starts one of its own.
Result<NodeConnection> join_cluster(const RuntimeOptions& options) {
  PHAROS_TRY(const net::Address address, net::parse_address(options.address));
  PHAROS_TRY(const net::Key token, token_of(options, address));
  if (const std::string ignored = options_of_own_cluster(options); !ignored.empty()) {
    log(LogLevel::kWarn, "this program joins a cluster, so options for a cluster of its own have no effect",
        {kv("cluster", options.address), kv("options", ignored)});
  }
  if (!address.unix_socket) return start_daemon(token, {"--head", options.address});
  const auto deadline = async::Deadline::after(kConnectTime, std::chrono::steady_clock::now());
  PHAROS_TRY(Fd socket, net::connect_to(address, deadline));
  return NodeConnection{std::move(socket), token, 0, options.address};
}

}  // namespace pharos::actors
