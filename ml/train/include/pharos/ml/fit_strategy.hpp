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

/// Why a strategy was taken: the bytes of each, of those that there are. What forward keeps for backward, and batches,
/// come on top.
struct PHAROS_API FitChoice {
  FitStrategy strategy = FitStrategy::kCopies;
  std::string arithmetic;
};
/// What is to lie in memory.
struct FitSize {
  std::uint64_t parameters = 0;    ///< that are trained
  std::size_t bytes = 4;           ///< of each
  std::size_t kept = 2;            ///< numbers that the optimizer keeps of each
  std::uint64_t frozen_bytes = 0;  ///< of parameters that are not trained
  /// What is divided is in memory that all ranks read: no parameter is there twice.
  bool reads_in_place = false;
  // What is there at once of what is divided: some units, and whole what belongs to none (see ShardOptions::blocks).
  std::uint64_t gathered_bytes = 0;  ///< of parameters
  std::uint64_t gradient_bytes = 0;  ///< of gradients
};
/// The first that fits; where none does, that which takes least.
PHAROS_API FitChoice choose_strategy(const FitSize& size, std::uint32_t ranks, std::uint64_t memory);

}  // namespace pharos::ml
