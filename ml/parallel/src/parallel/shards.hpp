#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/dtype.hpp>
#include <pharos/ml/sharding.hpp>

#include "module/parameters.hpp"
#include "parallel/units.hpp"

namespace pharos::ml {

/// A flat, and the piece of it that this rank keeps. Sharded::Core owns all shards and units; the thread that trains
/// uses them.
struct Shard {
  Flat flat{};
  at::Device device{at::kCPU};
  at::ScalarType computed{};       ///< type in which the module computes
  at::ScalarType sent{};           ///< type in which its gradients are sent and summed up
  std::size_t place = 0;           ///< offset in the memory of its unit, in bytes
  std::size_t gradient_place = 0;  ///< offset in the memory of its unit's gradients, in bytes
  at::Tensor whole{};              ///< the parameters are views of it; its memory is swapped
  at::Tensor own{};                ///< this rank's piece, which the optimizer changes
  at::Tensor gradient{};           ///< gradient of this rank's piece
  /// A slice (ShardSlice) that lies in this rank's piece.
  struct Part {
    std::size_t slice = 0;
    std::size_t parameter = 0;
    std::int64_t begin = 0;  ///< where it begins in the piece, in elements
  };
  std::vector<Part> parts{};

  std::size_t bytes(std::uint32_t ranks) const {
    return static_cast<std::size_t>(flat.piece) * ranks * c10::elementSize(computed);
  }
  std::size_t gradient_bytes(std::uint32_t ranks) const {
    return flat.is_trained ? static_cast<std::size_t>(flat.piece) * ranks * c10::elementSize(sent) : 0;
  }
};

/// A unit, with the shards of its flats. Sizes are in bytes, for all ranks together.
struct ShardedUnit {
  std::string name;
  bool is_rest = false;
  std::vector<Shard> shards{};
  std::size_t bytes = 0;
  std::size_t gradient_bytes = 0;
};

/// Runs `work`, and adds the name of the unit to an Exception that it throws. Other exceptions stay as they are.
template <class Work>
void between_ranks(const char* what, const ShardedUnit& unit, const Work& work) {
  try {
    work();
  } catch (const Exception& error) {
    throw_error(Error{error.error()}.with(what + (" \"" + unit.name + '"')));
  }
}

/// The type in which ranks keep trained parameters of `type`: float instead of half and bfloat16.
inline at::ScalarType kept_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

/// The type in which the module computes with the parameters of a flat. `asked`: ShardOptions::param. Throws
/// InvalidArgument if that is no floating point type.
at::ScalarType computed_type(const Flat& flat, const std::optional<DType>& asked);
/// The type in which a rank keeps its piece of a flat.
inline at::ScalarType kept_type(const Flat& flat) {
  return flat.is_trained ? kept_type(flat.type) : flat.type;
}

/// Makes the tensor, and all views of it, use this memory of the tensor's device. nullptr: the tensor has no memory
/// until the next call. The tensor does not own the memory.
void place(const at::Tensor& tensor, std::byte* memory);

/// Plans the units. `data` will gather the parameters, and reduce the gradients. Throws kUnsupported, with the name and
/// the reason, for a parameter that cannot be sharded, and InvalidArgument for options that do not fit the module. It
/// throws on this rank only, and changes nothing.
std::vector<ShardedUnit> sharded_units(const torch::nn::Module& module, std::span<const NamedTensor> parameters,
                                       const ShardOptions& options, const Communicator& data);

/// Gives each rank its piece of rank 0's values of a unit. Afterwards the parameters are views of Shard::whole, whose
/// memory is swapped. `memory` is the unit's own memory, or nullptr; the piece lies in it if the module computes in the
/// type that is kept, and it outlives the shards. All ranks call it together; when it throws what fails between them,
/// the module is of no further use.
void take_over(ShardedUnit& unit, std::span<const NamedTensor> parameters, Communicator& data, std::byte* memory);

}  // namespace pharos::ml
