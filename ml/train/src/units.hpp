#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parameters.hpp"

namespace pharos::ml {

/// Parameters of one type that are all trained, or all frozen, one behind the other. Each rank keeps a piece of that.
struct Flat {
  at::ScalarType type{};
  bool is_trained = false;
  struct Member {
    std::size_t parameter = 0;
    std::int64_t begin = 0;  ///< in elements, as all here
    std::int64_t size = 0;
  };
  std::vector<Member> members{};
  std::int64_t size = 0;
  std::int64_t piece = 0;
};

/// What is gathered together.
struct Unit {
  std::string name;
  bool is_rest = false;  ///< what belongs to no block alone
  std::vector<Flat> flats{};
};

/// So many units' parameters are there at once: of that which is worked on, the one before it, and the next.
constexpr std::size_t kGatheredAtOnce = 3;

using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

/// The children of the list or sequence that has most of the parameters, or of one inside that which has most of its
/// parameters again, where less is there at once then; else of the module itself.
Modules blocks_of(const torch::nn::Module& module);

/// Throws InvalidArgument for blocks that are not in the module, or one inside another.
std::vector<Unit> units_of(const torch::nn::Module& module, std::span<const NamedTensor> parameters,
                           const Modules& blocks, std::uint32_t ranks);

}  // namespace pharos::ml
