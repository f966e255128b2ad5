#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "module/parameters.hpp"

namespace pharos::ml {

/// Parameters of one type that are all trained, or all frozen, laid one behind the other as a flat vector. Each rank
/// keeps one piece of it. Sizes and places are in elements.
struct Flat {
  at::ScalarType type{};
  bool is_trained = false;
  struct Member {
    std::size_t parameter = 0;
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };
  std::vector<Member> members{};
  std::int64_t size = 0;
  std::int64_t piece = 0;  ///< size of each rank's piece; all pieces together may be longer than `size`
};

/// Parameters that are gathered together. A value, like Flat.
struct Unit {
  std::string name;
  bool is_rest = false;  ///< the unit of the parameters that belong to no block, or to several
  std::vector<Flat> flats{};
};

/// Number of units that are gathered at the same time: the one that is in use, the one before it, and the next one.
constexpr std::size_t kGatheredAtOnce = 3;

using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

/// Chooses the blocks of a module: the children of the list or sequence that has most of the parameters. A list inside
/// of that list is taken instead if it has most of the parameters again, and its children need less memory at the same
/// time. Without any list the blocks are the children of the module itself. This function and the next one only read
/// the module; Sharded::Core and size_of_model() call them.
Modules blocks_of(const torch::nn::Module& module);

/// Divides the parameters of the module into units, one for each block, and one for the rest. Units without parameters
/// are left out. Throws InvalidArgument if a block is not in the module, or if two blocks have a module in common, for
/// example because one of them lies inside the other. `ranks` is at least 1.
std::vector<Unit> units_of(const torch::nn::Module& module, std::span<const NamedTensor> parameters,
                           const Modules& blocks, std::uint32_t ranks);

}  // namespace pharos::ml
