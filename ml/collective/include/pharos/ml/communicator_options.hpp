#pragma once

#include <chrono>
#include <cstdint>

#include <pharos/base/clock.hpp>

namespace pharos::ml {

/// How ranks on GPUs reach each other.
enum class GpuPath : std::uint8_t {
  kBest,   ///< kPeers where the GPUs of all ranks can do that, else kNccl
  kPeers,  ///< kernels of Pharos that use the memory of all GPUs; for ranks of one machine
  kNccl,   ///< NVIDIA's NCCL
};

struct CommunicatorOptions {
  /// The longest time that an operation waits for other ranks. Then the operation fails on all ranks with
  /// DeadlineExceeded, and the error names the rank that did not come. Between machines, finding that rank can take a
  /// few seconds more.
  Duration timeout = std::chrono::seconds{30};
  /// Ranks of one machine share memory. If false, they use TCP as if each rank had a machine of its own, which is meant
  /// for tests and measurements.
  bool share_memory = true;
  /// The order of sums where each of several machines has the same number of ranks, with consecutive numbers. If false,
  /// the ranks of each machine sum their data first, and the machines' sums are summed then; the ranks of a machine
  /// share that work. If true, all data is summed in the order of the ranks, whatever machine they are on, which is
  /// slower.
  bool sums_by_rank = false;
  /// all_reduce() and reduce_scatter() send floats (float32) over TCP as bfloat16, which has half the bytes and about
  /// three digits. The received numbers are summed as floats. All ranks must set the same.
  bool bf16_over_tcp = false;
  /// The most bytes that a rank sends over TCP in a second. 0: no limit.
  std::uint64_t bytes_per_second = 0;
  /// For on_gpu() and communicator_on(). All ranks must set the same.
  GpuPath gpu_path = GpuPath::kBest;
};

}  // namespace pharos::ml
