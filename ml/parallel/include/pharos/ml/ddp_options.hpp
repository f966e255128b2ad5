#pragma once

#include <cstddef>
#include <cstdint>

namespace pharos::ml {

/// The form in which ranks send gradients to each other.
enum class Wire : std::uint8_t {
  kExact,     ///< Gradients are sent in their own type.
  kBf16,      ///< Float and double are sent as bfloat16 and summed as float: half of float's bytes, three digits.
  kPowerSgd,  ///< Float and double matrices are sent as products of two thin matrices: far fewer bytes, not exact.
};

/// How Wire::kPowerSgd sends a gradient of n rows and m columns. The part of a gradient that is lost in one step is
/// added in the next. Checkpoints do not contain that part, and a new Ddp begins without it: also the Ddp that each
/// rank makes when another process has taken a dead rank's place.
struct PowerSgd {
  /// A gradient is sent as `rank` rows of n numbers and `rank` rows of m numbers. A gradient that would not shrink to
  /// half of its size or less is sent exactly.
  std::uint32_t rank = 4;
  /// The first steps, in which gradients change much, are sent exactly: as many as this says, but at least one.
  std::uint64_t exact_steps = 100;
};

struct DdpOptions {
  /// Size of a bucket: gradients of so many bytes are reduced by one operation, while operations on earlier buckets are
  /// still under way. 0: 1 MiB between CPUs, 25 MiB between GPUs.
  std::size_t bucket_bytes = 0;
  Wire wire = Wire::kExact;
  PowerSgd power_sgd{};
  /// The gradient of a parameter comes in the same number of parts in each backward; Ddp counts them in the first one.
  /// Needed for modules that run a part of themselves again in backward (see recompute.hpp), where one gradient may
  /// come in several parts.
  bool static_graph = false;
  /// After each step all ranks have the buffers (running means and the like) of one rank: of rank 0, or, where ranks
  /// weigh(), of the first rank that has not called finish().
  bool broadcast_buffers = true;
  /// Checks each gradient before it is reduced. If an element is NaN or infinite, backward() throws FailedPrecondition
  /// on all ranks, with the names of the parameter, the rank and the step. Costs one reading of all gradients.
  bool check_numbers = false;
  /// Number of steps that a resumed training had done before. Used in messages only.
  std::uint64_t first_step = 0;
};

}  // namespace pharos::ml
