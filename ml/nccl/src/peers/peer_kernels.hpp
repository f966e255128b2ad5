#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include <pharos/ml/dtype.hpp>

/// What a GPU does in a round of PeerGroup: it reads from the memory of all ranks' GPUs, and writes to it. The
/// functions give a kernel to the stream, and fail if CUDA refuses it. The kernels do nothing once the rank's group has
/// ended.
namespace pharos::ml {

inline constexpr std::uint32_t kPeersMax = 64;

/// What one rank, the writer, tells another one, the reader, about its newest round. In memory of the host that the
/// GPUs of all ranks use; 0 at first. The writer's GPU writes it. A rank that gives up overwrites `here` and `done`,
/// for which its GPU waits, and `what`.
struct alignas(64) PeerLine {
  std::uint64_t at;        // where the writer's data begins: an address of the reader
  std::uint64_t stride;    // the bytes from one piece of the data to the next
  std::uint64_t what;      // the operation but for its elements, as one number; 0 is none
  std::uint64_t elements;  // in the whole operation
  std::uint32_t here;      // the last round whose data is there
  std::uint32_t done;      // the last round in which the writer has ended its part
  std::uint32_t came;      // the same as `here`
  std::uint32_t did;       // the same as `done`
};

/// A round, as this rank knows it.
struct PeerRound {
  PeerLine* lines = nullptr;             // as the GPU sees them: those of reader 0, then those of reader 1, …
  const std::uint32_t* ended = nullptr;  // not 0 once this rank's group has ended
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t number = 0;  // from 1; after 2^32 - 1 comes 0
  std::uint64_t what = 0;
  std::uint64_t elements = 0;
};

/// Where this rank's data of a round lies.
struct PeerPlace {
  std::uint64_t at[kPeersMax];  // for each rank, its address of the data
  std::uint64_t stride;
};

/// Tells all ranks that this rank's data is there.
cudaError_t tell_here(const PeerRound& round, const PeerPlace& place, cudaStream_t stream);
/// Tells all ranks that this rank has ended its part: it does not use their data any more.
cudaError_t tell_done(const PeerRound& round, cudaStream_t stream);

// The following two come after all ranks have told that their data is there. They do nothing unless all of them told
// the same operation.

/// Reduces a part of all ranks' data in the order of the ranks.
struct PeerReduction {
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  std::uint32_t piece = 0;
  std::uint64_t offset = 0;  // of the part in the piece, in bytes
  std::uint64_t elements = 0;
  std::byte* to = nullptr;  // nullptr: to the same part of all ranks' data
};
cudaError_t reduce_peers(const PeerRound& round, const PeerReduction& reduction, cudaStream_t stream);

/// Copies a piece of the data of the ranks [first, last).
struct PeerCopy {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t piece = 0;
  std::uint64_t bytes = 0;
  std::byte* to = nullptr;
  std::uint64_t to_stride = 0;  // from the place of one rank's piece to that of the next
};
cudaError_t copy_peers(const PeerRound& round, const PeerCopy& copy, cudaStream_t stream);

}  // namespace pharos::ml
