#include "shared/neighbours.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

namespace pharos::ml {

Neighbours::Neighbours(std::uint32_t rank, std::uint32_t ranks, std::vector<std::uint32_t> names)
    : rank_{rank}, ranks_{ranks}, names_{std::move(names)}, processes_(ranks) {}

Result<void> Neighbours::watch(std::uint32_t rank, std::int32_t process) {
  if (process == ::getpid()) return {};
  processes_[rank] = Fd{static_cast<int>(::syscall(SYS_pidfd_open, process, 0))};
  if (processes_[rank]) return {};
  // EINVAL: the kernel is just removing the process.
  if (errno == ESRCH || errno == EINVAL) return died_early(rank);
  return Error::from_errno("looking at the process of rank " + std::to_string(name(rank)), errno);
}

bool Neighbours::has_died(std::uint32_t rank, Duration patience) const {
  pollfd ended{.fd = processes_[rank].get(), .events = POLLIN, .revents = 0};
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(patience);
  return processes_[rank] && ::poll(&ended, 1, static_cast<int>(wait.count())) == 1;
}

Error Neighbours::died_early(std::uint32_t rank) const {
  return {ErrorCode::kActorDied,
          "rank " + std::to_string(name(rank)) + " has died before all ranks had joined the group",
          "Connect the group again without this rank, or with another process in its place."};
}

}  // namespace pharos::ml
