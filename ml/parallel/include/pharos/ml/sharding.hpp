#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/ml/dtype.hpp>

namespace torch::nn {
class Module;
}

/// What a Sharded divides, how, and the parts that a rank keeps.
namespace pharos::ml {

/// What the ranks divide among them, instead of each of them having all of it.
enum class Sharding : std::uint8_t {
  kOptimizer,   ///< The state of the optimizer (ZeRO-1).
  kGradients,   ///< The state of the optimizer and the gradients (ZeRO-2).
  kParameters,  ///< The state of the optimizer, the gradients and the parameters (ZeRO-3, FSDP).
};

struct ShardOptions {
  /// Submodules, each of which becomes a unit: its parameters are gathered and released together. All parameters that
  /// belong to no block, or to several, form one more unit, which stays from its first use in a step to the last.
  /// Empty: the blocks are the children of the list or sequence that has most of the parameters. If most of these lie
  /// in a list inside of it, such as the layers of an encoder in a sequence of embedding, encoder and head, the
  /// children of the inner list are taken where that needs less memory.
  std::vector<std::shared_ptr<torch::nn::Module>> blocks{};
  /// The type in which the module computes, for instance DType::kBF16; the ranks keep floats. nullopt: the parameters'
  /// own type.
  std::optional<DType> param{};
  /// The type in which ranks send and sum up gradients. nullopt: the type in which the module computes.
  std::optional<DType> reduce{};
  /// If false, a unit that was gathered in forward stays until the end of backward. That saves one gather in each step,
  /// and takes memory for all units. It makes no difference where ranks read parameters in place (see Sharded), or
  /// where parameters are not divided.
  bool reshard_after_forward = true;
  /// After each step all ranks have rank 0's buffers (running means and the like).
  bool broadcast_buffers = true;
};

/// A part of a parameter that a rank keeps: the elements from `begin` on, in the order of the parameter's memory.
struct ShardSlice {
  std::string name;
  std::vector<std::int64_t> shape;  ///< shape of the whole parameter
  std::int64_t begin = 0;
  /// The elements, in one dimension. For a trained parameter the type is float or double, and the tensor is a leaf
  /// that requires gradients.
  at::Tensor values;
};

}  // namespace pharos::ml
