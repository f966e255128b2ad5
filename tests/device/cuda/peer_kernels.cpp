// The kernels of ml/nccl, compiled for simulated devices.

#include "peers/peer_kernels.hpp"

#include <cuda_language.h>

#include <atomic>
#include <vector>

#include <pharos/ml/collective/operation.hpp>

#include "memory.hpp"

namespace pharos::ml {

using simulated::memory;
using Piece = simulated::OrderChecker::Piece;

// The order checker sees what is done with this rank's own memory, as if this rank's work did all of it; that other
// ranks write to it only between the two waits, the results show.

static void note_uses(const Piece& piece, const PeerRound& round, const PeerPlace& place) {
  constexpr int kKindBegins = 48;
  const bool writes = (round.what >> kKindBegins & 0xff) == static_cast<std::uint64_t>(Operation::Kind::kAllReduce);
  memory().note(piece, reinterpret_cast<const void*>(place.at[round.rank]), 1, writes, "tell_here");
}
static void note_uses(const Piece&, const PeerRound&) {}
static void note_uses(const Piece& piece, const PeerRound&, const PeerReduction& what) {
  memory().note(piece, what.to, what.elements * size_of(what.dtype), true, "reduce_peers");
}
static void note_uses(const Piece& piece, const PeerRound&, const PeerCopy& what) {
  for (std::uint32_t rank = what.first; rank < what.last; ++rank) {
    memory().note(piece, what.to + (rank - what.first) * what.to_stride, what.bytes, true, "copy_peers");
  }
}

static std::byte* for_kernels(std::byte* address) {
  const bool is_of_device = memory().device_of(address).has_value();
  return is_of_device ? static_cast<std::byte*>(simulated::Memory::for_kernels(address)) : address;
}

/// A copy of the lines that this rank reads. What they say comes from ranks that do not know this process's kernels.
static std::vector<PeerLine> lines_for_kernels(PeerRound& round) {
  PeerLine* const own = round.lines + round.rank * round.ranks;
  std::vector<PeerLine> lines(std::size_t{round.ranks} * round.ranks);
  for (std::uint32_t writer = 0; writer < round.ranks; ++writer) {
    PeerLine& line = lines[round.rank * round.ranks + writer];
    line.what = std::atomic_ref{own[writer].what}.load(std::memory_order_acquire);
    line.at = reinterpret_cast<std::uint64_t>(for_kernels(reinterpret_cast<std::byte*>(own[writer].at)));
    line.stride = own[writer].stride;
    line.elements = own[writer].elements;
  }
  round.lines = lines.data();
  return lines;
}

// Nothing that these two use is in the memory of a device.
static int as_kernels_see(PeerRound&, PeerPlace&) {
  return 0;
}
static int as_kernels_see(PeerRound&) {
  return 0;
}
static std::vector<PeerLine> as_kernels_see(PeerRound& round, PeerReduction& what) {
  what.to = for_kernels(what.to);
  return lines_for_kernels(round);
}
static std::vector<PeerLine> as_kernels_see(PeerRound& round, PeerCopy& what) {
  what.to = for_kernels(what.to);
  return lines_for_kernels(round);
}

}  // namespace pharos::ml

#include "peers/peer_kernels.cu"
