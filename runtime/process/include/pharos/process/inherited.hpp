#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

/// How a process learns that it was started in a role: it inherits one end of a socket pair, whose number stands in the
/// environment variable PHAROS_ROLE. The first bytes on the socket are a Preamble with the process's credential; only
/// who started it can have written them. libpharos.so takes both away when it is loaded, before user code runs.
namespace pharos::process {

enum class InheritedRole : std::uint8_t { kZygote, kWorker };

struct Inherited {
  InheritedRole role;
  Fd socket;
  Fd crash;  ///< a worker's: memory for its CrashPage
};

/// What this process was started as; nothing in a driver. Once: the second call finds nothing.
std::optional<Inherited> take_inherited();

/// "PHAROS_ROLE=zygote:3", "PHAROS_ROLE=worker:3:4", for the environment of the process that is started.
std::string role_variable(InheritedRole role, int socket, int crash = -1);

/// The first bytes on an inherited socket.
struct Preamble {
  std::array<std::byte, 32> key{};
  std::uint64_t id = 0;  ///< JobId of a zygote, WorkerId of a worker, NodeId of a daemon
  char name[16] = {};    ///< for the process list

  void set_name(std::string_view text);
};
Result<void> send_preamble(int socket, const Preamble& preamble);
Result<Preamble> receive_preamble(int socket, async::Deadline deadline);

}  // namespace pharos::process
