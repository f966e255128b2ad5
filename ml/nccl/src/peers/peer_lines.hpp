#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <pharos/base/result.hpp>
#include <pharos/ml/communicator.hpp>

#include "peers/host_pages.hpp"
#include "peers/peer_kernels.hpp"

namespace pharos::ml {

/// The lines of all ranks, in memory that all ranks and their GPUs share. A value; owned by PeerGroup, which destroys
/// it when its GPU does not use it any more. One thread at a time.
class PeerLines {
 public:
  /// All ranks call it together. Fails if this rank's GPU cannot use memory of the host.
  static Result<PeerLines> make(Communicator& host);

  /// As this rank's GPU sees them.
  PeerLine* for_gpu() const { return reinterpret_cast<PeerLine*>(pages_.for_gpu()); }
  const std::uint32_t* ended_for_gpu() const { return &states(pages_.for_gpu())[rank_].ended; }
  /// The newest round of which that rank has told this one that its data is there, or that it has ended its part.
  const std::uint32_t* here_for_gpu(std::uint32_t writer) const { return &for_gpu()[rank_ * ranks_ + writer].here; }
  const std::uint32_t* done_for_gpu(std::uint32_t writer) const { return &for_gpu()[rank_ * ranks_ + writer].done; }

  /// Gives up: kernels of this rank that have not begun do nothing, and its waits end. Called again and again until the
  /// GPU has come through, because other ranks may still write. `round` is this rank's newest one.
  void end(std::uint32_t round);
  /// After that: kernels of other ranks that have not begun do nothing either.
  void withdraw();
  /// Whether the GPU of that rank may be at work on all ranks' data.
  bool is_at_work(std::uint32_t other) const;
  /// Another rank that has given up.
  std::optional<std::uint32_t> other_that_ended() const;

  /// This rank uses the memory of no other rank's GPU any more.
  void leave();
  bool have_all_left() const;

 private:
  struct alignas(64) State {
    std::uint32_t ended;
    std::uint32_t left;
  };
  PeerLines(HostPages pages, std::uint32_t rank, std::uint32_t ranks)
      : pages_{std::move(pages)}, rank_{rank}, ranks_{ranks} {}

  static std::size_t bytes_of_lines(std::uint32_t ranks) { return sizeof(PeerLine) * ranks * ranks; }
  State* states(std::byte* pages) const { return reinterpret_cast<State*>(pages + bytes_of_lines(ranks_)); }
  State& state(std::uint32_t rank) const { return states(pages_.for_host())[rank]; }
  PeerLine& line(std::uint32_t reader, std::uint32_t writer) const {
    return reinterpret_cast<PeerLine*>(pages_.for_host())[reader * ranks_ + writer];
  }

  HostPages pages_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
};

}  // namespace pharos::ml
