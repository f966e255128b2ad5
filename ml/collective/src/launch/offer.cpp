#include "launch/offer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <pharos/base/random.hpp>
#include <pharos/net/address.hpp>

#include "hierarchical/hierarchical_backend.hpp"
#include "shared/meeting.hpp"
#include "shared/shared_backend.hpp"
#include "stream/stream_backend.hpp"

namespace pharos::ml {
namespace {

/// Names what processes must have in common to open each other's memory by process id: the same boot of the same
/// kernel, the same PID namespace and the same user. Processes in different network namespaces count as different
/// machines, too: somebody has separated them on purpose.
std::string this_machine() {
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  const auto number_of = [](const char* path) {
    struct stat its {};
    ::stat(path, &its);
    return '/' + std::to_string(its.st_ino);
  };
  return boot + number_of("/proc/self/ns/pid") + number_of("/proc/self/ns/net") + '/' + std::to_string(::getuid());
}

// The process may have ended, and its id may belong to another process by now. The name of the memory shows that.
Result<Mapping> map_offered(const detail::RankOffer& offer, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(offer.process) + "/fd/" + std::to_string(offer.meeting);
  const Fd file{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  char link[256] = {};
  const ssize_t length = file ? ::readlink(path.c_str(), link, sizeof link - 1) : -1;
  if (length < 0) return Error::from_errno("opening the memory where ranks meet, " + path, errno);
  struct stat its {};
  if (std::string_view{link, static_cast<std::size_t>(length)} != "/memfd:" + offer.name + " (deleted)" ||
      ::fstat(file.get(), &its) != 0 || static_cast<std::size_t>(its.st_size) != bytes) {
    return Error{ErrorCode::kActorDied, "the process that holds the ranks' meeting memory has ended",
                 "Connect the group again, with ranks that are alive."};
  }
  return Mapping::of(file.get(), bytes);
}

/// Returns the number of ranks on each machine, if there are several machines with the same number of ranks each, more
/// than one, and the ranks of each machine have consecutive numbers. Otherwise nullopt.
std::optional<std::uint32_t> ranks_on_each(const std::vector<detail::RankOffer>& offers) {
  const auto is_other = [](const auto& a, const auto& b) { return a.machine != b.machine; };
  const auto second = std::adjacent_find(offers.begin(), offers.end(), is_other);
  const std::size_t on_each =
      second == offers.end() ? offers.size() : static_cast<std::size_t>(second - offers.begin()) + 1;
  if (on_each == 1 || on_each == offers.size() || offers.size() % on_each != 0) return std::nullopt;
  std::set<std::string> machines;
  for (std::size_t begin = 0; begin < offers.size(); begin += on_each) {
    if (!machines.insert(offers[begin].machine).second) return std::nullopt;
    for (std::size_t i = begin; i < begin + on_each; ++i) {
      if (is_other(offers[begin], offers[i])) return std::nullopt;
    }
  }
  return static_cast<std::uint32_t>(on_each);
}

}  // namespace

Result<Offered> Offered::make(std::uint32_t ranks, const std::string& host, const CommunicatorOptions& options) {
  if (ranks == 0 || ranks > Meeting::kRanksMax) {
    return Error{ErrorCode::kInvalidArgument, "a group cannot have " + std::to_string(ranks) + " ranks",
                 "Give between 1 and " + std::to_string(Meeting::kRanksMax) + '.'};
  }
  detail::RankOffer offer{.machine = this_machine(),
                          .process = ::getpid(),
                          .name = "pharos-ranks-" + std::to_string(random_u64()) + std::to_string(random_u64())};
  PHAROS_TRY(Fd file, make_memory(offer.name, Meeting::bytes_for(ranks)));
  offer.meeting = file.get();
  if (!options.share_memory) offer.machine += ' ' + offer.name;
  Fd listener;
  if (!host.empty() || !options.share_memory) {
    const std::string place = host.empty() ? "127.0.0.1" : host;
    PHAROS_TRY(listener, net::listen_at({.unix_socket = false, .place = place, .port = 0}));
    PHAROS_TRY(const net::Address bound, net::bound_address(listener.get()));
    offer.address = bound.to_string();
  }
  return Offered{std::move(file), std::move(listener), std::move(offer)};
}

Result<std::unique_ptr<detail::Backend>> Offered::work_together(const std::vector<detail::RankOffer>& offers,
                                                                const detail::RankKey& key, std::uint32_t rank,
                                                                const CommunicatorOptions& options) const {
  const auto ranks = static_cast<std::uint32_t>(offers.size());
  std::vector<std::int32_t> processes;
  std::vector<std::string> addresses;
  bool one_machine = true;
  for (const detail::RankOffer& each : offers) {
    processes.push_back(each.process);
    addresses.push_back(each.address);
    one_machine = one_machine && each.machine == offers.front().machine;
  }
  if (one_machine) {
    PHAROS_TRY(Mapping meeting, map_offered(offers.front(), Meeting::bytes_for(ranks)));
    PHAROS_TRY(auto backend, SharedBackend::make(std::move(meeting), rank, ranks, options.timeout, processes));
    return std::unique_ptr<detail::Backend>{std::move(backend)};
  }
  const auto on_each = ranks_on_each(offers);
  const auto unreached = std::find(addresses.begin(), addresses.end(), std::string{});
  if (unreached != addresses.end()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "rank " + std::to_string(unreached - addresses.begin()) +
                     " has no address that ranks on other machines can reach",
                 "Let its node listen at an address that other machines can reach, or place all ranks on one machine."};
  }
  if (!on_each || options.sums_by_rank) {
    PHAROS_TRY(auto backend, StreamBackend::make(listener_, addresses, key, rank, options));
    return std::unique_ptr<detail::Backend>{std::move(backend)};
  }
  const HierarchicalBackend::Layout layout{.rank = rank, .machines = ranks / *on_each, .on_each = *on_each};
  const std::vector<std::uint32_t> neighbours = layout.neighbours();
  const std::span<const std::int32_t> all{processes};
  PHAROS_TRY(Mapping meeting, map_offered(offers[neighbours.front()], Meeting::bytes_for(ranks)));
  const auto make_far = [&](const StreamSteps& steps) {
    return StreamBackend::make(listener_, addresses, key, rank, options, steps);
  };
  auto near = std::make_unique<SharedBackend>(std::move(meeting), layout.place(), neighbours);
  PHAROS_TRY(auto backend,
             HierarchicalBackend::make(layout, std::move(near), all.subspan(neighbours.front(), neighbours.size()),
                                       options.timeout, make_far));
  return std::unique_ptr<detail::Backend>{std::move(backend)};
}

}  // namespace pharos::ml
