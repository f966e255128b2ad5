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
#include <pharos/ml/sharded.hpp>

#include "parameters.hpp"
#include "units.hpp"

namespace pharos::ml {

/// What this rank keeps of a flat.
struct Shard {
  Flat flat{};
  at::ScalarType computed{};  ///< what the module computes in
  at::ScalarType sent{};      ///< what its gradients are summed up in
  std::size_t place = 0;      ///< in its unit's memory: bytes, as all here
  std::size_t gradient_place = 0;
  at::Tensor whole{};     ///< the parameters are views of it; its memory comes and goes
  at::Tensor own{};       ///< this rank's piece, which the optimizer changes
  at::Tensor gradient{};  ///< of that
  /// Which of the slices lie in it, and from where on.
  struct Part {
    std::size_t slice = 0;
    std::size_t parameter = 0;
    std::int64_t begin = 0;  ///< in elements
  };
  std::vector<Part> parts{};

  std::size_t bytes(std::uint32_t ranks) const {
    return static_cast<std::size_t>(flat.piece) * ranks * c10::elementSize(computed);
  }
  std::size_t gradient_bytes(std::uint32_t ranks) const {
    return flat.is_trained ? static_cast<std::size_t>(flat.piece) * ranks * c10::elementSize(sent) : 0;
  }
};

struct ShardedUnit {
  std::string name;
  bool is_rest = false;
  std::vector<Shard> shards{};
  std::size_t bytes = 0;
  std::size_t gradient_bytes = 0;
};

/// What fails between ranks says at which unit.
template <class Work>
void between_ranks(const char* what, const ShardedUnit& unit, const Work& work) {
  try {
    work();
  } catch (const Exception& error) {
    throw_error(Error{error.error()}.with(what + (" \"" + unit.name + '"')));
  }
}

/// In float at least.
inline at::ScalarType kept_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

/// What the module computes in where a flat's parameters are used. `asked`: ShardOptions::param.
at::ScalarType computed_type(const Flat& flat, const std::optional<DType>& asked);
/// What a rank keeps of a flat is of this type.
inline at::ScalarType kept_type(const Flat& flat) {
  return flat.is_trained ? kept_type(flat.type) : flat.type;
}

/// A tensor's memory, from now on. Null: it has none, until it gets some.
void place(const at::Tensor& tensor, std::byte* memory);
/// A flat tensor on memory of somebody else's.
at::Tensor tensor_on(std::byte* memory, at::ScalarType type, std::int64_t elements);

/// Plans the units. Throws kUnsupported, by name and reason, for what cannot be sharded.
std::vector<ShardedUnit> sharded_units(const torch::nn::Module& module, std::span<const NamedTensor> parameters,
                                       const ShardOptions& options, std::uint32_t ranks);

/// A unit's values are rank 0's, of which each rank takes its piece: into `memory`, if the unit stays there and the
/// type is the same. The parameters are views of memory that comes and goes, from then on.
void take_over(ShardedUnit& unit, std::span<const NamedTensor> parameters, Communicator& ranks, std::byte* memory);

}  // namespace pharos::ml
