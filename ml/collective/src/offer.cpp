#include "offer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include <pharos/base/random.hpp>

#include "meeting.hpp"
#include "shared_backend.hpp"

namespace pharos::ml {
namespace {

/// Processes that see each other under the same numbers, and may open each other's files: one boot of one kernel, one
/// namespace of processes, one user.
std::string this_machine() {
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  struct stat processes {};
  ::stat("/proc/self/ns/pid", &processes);
  return boot + '/' + std::to_string(processes.st_ino) + '/' + std::to_string(::getuid());
}

// Its process may be gone, and its number another's by now: memory of another name is a stranger's.
Result<Mapping> map_offered(const detail::RankOffer& offer, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(offer.process) + "/fd/" + std::to_string(offer.meeting);
  const Fd file{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  char link[256] = {};
  const ssize_t length = file ? ::readlink(path.c_str(), link, sizeof link - 1) : -1;
  if (length < 0) return Error::from_errno("opening the memory where ranks meet, " + path, errno);
  struct stat its {};
  if (std::string_view{link, static_cast<std::size_t>(length)} != "/memfd:" + offer.name + " (deleted)" ||
      ::fstat(file.get(), &its) != 0 || static_cast<std::size_t>(its.st_size) != bytes) {
    return Error{ErrorCode::kActorDied, "the process where ranks were to meet has ended",
                 "Connect those that are there now."};
  }
  return Mapping::of(file.get(), bytes);
}

}  // namespace

Result<Offered> Offered::make(std::uint32_t ranks) {
  if (ranks == 0 || ranks > Meeting::kRanksMax) {
    return Error{ErrorCode::kInvalidArgument, "a group of " + std::to_string(ranks) + " ranks makes no sense",
                 "Give between 1 and " + std::to_string(Meeting::kRanksMax) + '.'};
  }
  detail::RankOffer offer{.machine = this_machine(),
                          .process = ::getpid(),
                          .name = "pharos-ranks-" + std::to_string(random_u64()) + std::to_string(random_u64())};
  Fd file{::memfd_create(offer.name.c_str(), MFD_CLOEXEC)};
  if (!file) return Error::from_errno("making memory where ranks meet", errno);
  const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(Meeting::bytes_for(ranks)));
  if (error != 0) return Error::from_errno("making memory where ranks meet", error);
  offer.meeting = file.get();
  return Offered{std::move(file), std::move(offer)};
}

Result<std::unique_ptr<detail::Backend>> work_together(const std::vector<detail::RankOffer>& offers, std::uint32_t rank,
                                                       Duration time) {
  std::vector<std::int32_t> processes;
  for (const detail::RankOffer& each : offers) {
    processes.push_back(each.process);
    if (each.machine != offers.front().machine) {
      return Error{ErrorCode::kUnsupported, "ranks on several machines cannot work together yet",
                   "Place them on one: Strategy::kStrictPack."};
    }
  }
  const auto ranks = static_cast<std::uint32_t>(offers.size());
  PHAROS_TRY(Mapping meeting, map_offered(offers.front(), Meeting::bytes_for(ranks)));
  PHAROS_TRY(auto backend, SharedBackend::make(std::move(meeting), rank, ranks, time, processes));
  return std::unique_ptr<detail::Backend>{std::move(backend)};
}

}  // namespace pharos::ml
