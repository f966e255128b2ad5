#include "peers/peer_lines.hpp"

#include <atomic>

namespace pharos::ml {
namespace {

// The GPU sees what was stored before, because it reads the host's memory in that order.
template <class T>
void store(T& place, T value) {
  std::atomic_ref{place}.store(value, std::memory_order_release);
}
template <class T>
T load(T& place) {
  return std::atomic_ref{place}.load(std::memory_order_acquire);
}

/// Rounds are counted modulo 2^32.
bool has_come(std::uint32_t round, std::uint32_t to) {
  return static_cast<std::int32_t>(round - to) >= 0;
}

}  // namespace

Result<PeerLines> PeerLines::make(Communicator& host) {
  PHAROS_TRY(HostPages pages, HostPages::make(host, bytes_of_lines(host.size()) + sizeof(State) * host.size()));
  return PeerLines{std::move(pages), host.rank(), host.size()};
}

void PeerLines::end(std::uint32_t round) {
  store(state(rank_).ended, 1U);
  for (std::uint32_t other = 0; other < ranks_; ++other) {
    store(line(rank_, other).here, round);
    store(line(rank_, other).done, round);
  }
}

void PeerLines::withdraw() {
  for (std::uint32_t other = 0; other < ranks_; ++other) store(line(other, rank_).what, std::uint64_t{0});
}

bool PeerLines::is_at_work(std::uint32_t other) const {
  PeerLine& own = line(other, other);
  const std::uint32_t round = load(own.came);
  for (std::uint32_t writer = 0; writer < ranks_; ++writer) {
    if (!has_come(load(line(other, writer).came), round)) return false;  // it waits for that rank
  }
  return !has_come(load(own.did), round);
}

std::optional<std::uint32_t> PeerLines::other_that_ended() const {
  for (std::uint32_t other = 0; other < ranks_; ++other) {
    if (other != rank_ && load(state(other).ended) != 0) return other;
  }
  return std::nullopt;
}

void PeerLines::leave() {
  store(state(rank_).left, 1U);
}

bool PeerLines::have_all_left() const {
  for (std::uint32_t other = 0; other < ranks_; ++other) {
    if (load(state(other).left) == 0) return false;
  }
  return true;
}

}  // namespace pharos::ml
