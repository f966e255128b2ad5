#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// The state of each random generator that libtorch's operators draw from in this process: the CPU's, and that of each
/// GPU in use. A value. Its functions may be called on any thread; they lock one generator after the other.
class PHAROS_API RandomState {
 public:
  /// The state at this moment.
  static RandomState now();
  /// Reads what bytes() returned in this process or another one. Throws InvalidArgument if bytes are missing.
  static RandomState from_bytes(std::span<const std::byte> bytes);

  /// From here on the generators draw what they drew after now(). States are matched by the numbers of the GPUs. A GPU
  /// that was not in use then keeps its state, and the state of a GPU that is not in use now is left out. Throws
  /// libtorch's exception for bytes that are not a state of this generator; the generators before it have been restored
  /// then.
  void restore() const;
  /// The states of all generators, with the numbers of their GPUs.
  std::vector<std::byte> bytes() const;

 private:
  struct Saved {
    std::int64_t device = 0;  ///< number of the GPU; -1 for the CPU
    at::Tensor state{};       ///< an array of bytes in the host's memory
  };
  std::vector<Saved> states_;
};

/// Gives the CPU's generator and those of all GPUs in use the same seed. On any thread.
PHAROS_API void seed_generators(std::uint64_t seed);

}  // namespace pharos::ml
