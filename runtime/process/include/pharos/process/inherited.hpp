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

/// How a process learns that it was started as a zygote or worker. It inherits one end of a socket pair, whose number
/// is in the environment variable PHAROS_ROLE. The first bytes on the socket are a Preamble with the process's key;
/// only the process that started it can have written them. When libpharos.so is loaded, before user code runs, it
/// removes the variable and sets the socket to close on exec.
namespace pharos::process {

enum class InheritedRole : std::uint8_t { kZygote, kWorker };

/// The role of this process and the descriptors that it inherited, which this object owns.
struct Inherited {
  InheritedRole role;
  Fd socket;
  Fd crash;  ///< for a worker: the memory of its CrashPage
};

/// Returns the role and descriptors of this process, to be called by the start object before main. Returns nullopt in a
/// driver, after the first call, and if PHAROS_ROLE makes no sense or names no socket. Not thread-safe.
std::optional<Inherited> take_inherited();

/// Returns the entry for the environment of a process to start: "PHAROS_ROLE=zygote:3" or "PHAROS_ROLE=worker:3:4".
std::string role_variable(InheritedRole role, int socket, int crash = -1);

/// The first bytes on an inherited socket. A plain value, sent exactly as it is in memory.
struct Preamble {
  std::array<std::byte, 32> key{};
  std::uint64_t id = 0;  ///< JobId of a zygote, WorkerId of a worker, NodeId of a daemon
  char name[16] = {};    ///< name of the process in process lists

  /// Cuts the name to 15 characters.
  void set_name(std::string_view text);
};
/// Sends a preamble without waiting. Fails as send_all() of net does: kDeadlineExceeded if the socket has no room,
/// kUnavailable if the other end is closed.
Result<void> send_preamble(int socket, const Preamble& preamble);
/// Receives a preamble; blocks until the deadline at most. Fails with kDeadlineExceeded, or with kUnavailable if the
/// other end is closed.
Result<Preamble> receive_preamble(int socket, async::Deadline deadline);

}  // namespace pharos::process
