#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// What ranks divide among them.
enum class FitStrategy : std::uint8_t {
  kByMemory,    ///< as little as their memory makes them
  kCopies,      ///< nothing: one process, or Ddp
  kZero1,       ///< what the optimizer keeps
  kZero2,       ///< that, and gradients
  kFullyShard,  ///< that, and parameters
};

/// Why a strategy was taken: the bytes of each, of those that there are.
struct PHAROS_API FitChoice {
  FitStrategy strategy = FitStrategy::kCopies;
  std::string arithmetic;
};
/// For so many parameters that are trained, of so many bytes each, and an optimizer that keeps so many numbers of each.
PHAROS_API FitChoice choose_strategy(std::uint64_t parameters, std::size_t bytes, std::size_t kept, std::uint32_t ranks,
                                     std::uint64_t memory);

}  // namespace pharos::ml
