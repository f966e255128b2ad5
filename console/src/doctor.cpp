#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/node/machine_check.hpp>

#include "commands.hpp"
#include "daemon_options.hpp"

namespace pharos::console {
namespace {

using namespace std::chrono_literals;
using node::MachineCheck;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kOffsetMax = 1s;

/// Prints one line, and returns whether all is well.
bool print(const MachineCheck& check) {
  std::cout << (check.remedy.empty() ? "  ok    " : "  FAIL  ") << check.what << ": " << check.found << '\n';
  if (!check.remedy.empty()) std::cout << "        -> " << check.remedy << '\n';
  return check.remedy.empty();
}

/// Loads these libraries in a process of its own, because libtorch cannot be unloaded. Returns why that failed; an
/// empty text if it did not.
std::string why_not_loaded(const std::vector<std::string>& libraries) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("making a pipe", errno).message();
  const Fd reading{ends[0]};
  Fd writing{ends[1]};
  const pid_t child = ::fork();
  if (child < 0) return Error::from_errno("starting a process", errno).message();
  if (child == 0) {
    for (const std::string& each : libraries) {
      if (::dlopen(each.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) continue;
      const std::string why = ::dlerror();
      ::_exit(::write(writing.get(), why.data(), why.size()) < 0 ? 2 : 1);
    }
    ::_exit(0);
  }
  writing.reset();
  std::string why;
  std::array<char, 1024> some{};
  for (ssize_t size = 1; size != 0;) {
    size = ::read(reading.get(), some.data(), some.size());
    if (size > 0) why.append(some.data(), static_cast<std::size_t>(size));
    if (size < 0 && errno != EINTR) break;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status != 0 && why.empty() ? "the process that loaded it has died" : why;
}

/// Programs find libtorch where their build has found it, which this program does not know.
MachineCheck check_training() {
  const std::string library = "libpharos_ml.so." PHAROS_ABI;
  const char* const torch = std::getenv("PHAROS_TORCH_DIR");
  std::vector<std::string> libraries{library};
  if (torch != nullptr) libraries.insert(libraries.begin(), std::string{torch} + "/lib/libtorch.so");
  const std::string why = why_not_loaded(libraries);
  MachineCheck check{.what = "training", .found = library + " and libtorch are found"};
  if (why.empty()) return check;
  if (why.starts_with(library)) {
    check.found = "not installed (libpharos_ml)";
  } else if (torch == nullptr && why.find("libtorch") != std::string::npos) {
    check.found = "installed; libtorch was not looked for, because PHAROS_TORCH_DIR is not set";
  } else {
    check.found = why;
    check.remedy = "Fetch libtorch by \"pharos setup-torch DIR\", and set PHAROS_TORCH_DIR=DIR.";
  }
  return check;
}

// ---- The cluster

Seconds now() {
  return std::chrono::system_clock::now().time_since_epoch();
}

/// The clock of a node, beside that of this machine.
Result<MachineCheck> check_clock_of(NodeConnection& asked, const std::string& node) {
  const Seconds before = now();
  PHAROS_TRY(const wire::Rows rows,
             rows_of(asked.ask(
                 wire::ListRows{.table = "clock", .filters = {}, .limit = 1, .number = 0, .node = node_of(node)})));
  const Seconds after = now();
  if (rows.rows.size() != 1 || rows.rows[0].size() != 2) {
    return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
  }
  const Seconds its = std::chrono::microseconds{std::strtoll(rows.rows[0][1].c_str(), nullptr, 10)};
  // Somewhere between the question and the answer the node has read its clock.
  const Seconds ahead = its > after ? its - after : its < before ? its - before : Seconds{};
  MachineCheck check{.what = "clock of node " + node, .found = "as this machine's"};
  if (std::abs(ahead.count()) < kOffsetMax.count()) return check;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f s %s this machine's", std::abs(ahead.count()),
                ahead.count() > 0 ? "ahead of" : "behind");
  check.found = text.data();
  check.remedy = "Logs and reports have each machine's own time: run an NTP client, such as chrony, on both.";
  return check;
}

Result<std::vector<MachineCheck>> check_cluster(const Place& place) {
  PHAROS_TRY(NodeConnection asked, NodeConnection::connect(place));
  PHAROS_TRY(const wire::Rows nodes,
             rows_of(asked.ask(wire::ListRows{.table = "nodes", .filters = {}, .limit = kAllRows})));
  std::vector<MachineCheck> checks{
      {.what = "cluster", .found = std::to_string(nodes.matching) + (nodes.matching == 1 ? " node" : " nodes")}};
  for (const auto& row : nodes.rows) {
    const std::string node = row.empty() ? "" : row[0];
    const auto clock = check_clock_of(asked, node);
    checks.push_back(clock ? *clock
                           : MachineCheck{.what = "clock of node " + node,
                                          .found = clock.error().message(),
                                          .remedy = "Look at its log: pharos logs."});
  }
  return checks;
}

int examine(const Place& place) {
  bool is_well = true;
  std::cout << "This machine\n";
  for (const MachineCheck& each : node::check_machine()) is_well = print(each) && is_well;
  is_well = print(check_training()) && is_well;

  const auto addresses = addresses_of(place, Here::kStarted);
  const bool is_asked_for = !place.address.empty() || std::getenv("PHAROS_ADDRESS") != nullptr;
  if (!addresses && !is_asked_for && addresses.error().code() == ErrorCode::kNotFound) {
    is_well = print(node::check_port(kDefaultPort)) && is_well;
    std::cout << "\nNo cluster runs here; --address HOST:PORT looks at one elsewhere.\n";
    return is_well ? 0 : 1;
  }
  std::cout << "\nThe cluster\n";
  const auto checks = check_cluster(place);
  if (!checks) return status_of(Result<void>{checks.error()});
  for (const MachineCheck& each : *checks) is_well = print(each) && is_well;
  return is_well ? 0 : 1;
}

}  // namespace

void add_doctor(Commands& commands) {
  const auto place = std::make_shared<Place>();
  CLI::App& command = commands.add("doctor", "Looks for what keeps Pharos from working here, and says what to do",
                                   [place] { return examine(*place); });
  add_place_options(command, *place);
  command.footer(
      "Examples:\n"
      "  pharos doctor\n"
      "  pharos doctor --address 10.0.0.1:7400 --token-file ~/cluster.token\n"
      "The exit code is 1 if a line says FAIL.");
}

}  // namespace pharos::console
