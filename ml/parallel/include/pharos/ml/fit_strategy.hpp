#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// How the ranks train one model together: what they divide among them, instead of each of them having all of it. In
/// the library each strategy is one class (ml/parallel/src/fit/strategy.hpp).
enum class FitStrategy : std::uint8_t {
  kByMemory,    ///< fit() takes the first of the strategies below that fits the memory of the ranks or of their GPUs.
  kCopies,      ///< Nothing is divided: each rank trains a copy of the model (Ddp), or there is one rank.
  kZero1,       ///< The state of the optimizer is divided.
  kZero2,       ///< The state of the optimizer and the gradients are divided.
  kFullyShard,  ///< The state of the optimizer, the gradients and the parameters are divided.
};

/// The name of a strategy, for options and tables: "copies", "zero1", "zero2", "fsdp", and "auto" for kByMemory. Throws
/// InvalidArgument for a number that is no FitStrategy. Any thread may call the functions here.
PHAROS_API std::string_view name_of(FitStrategy strategy);
/// The strategy of that name, or nullopt.
PHAROS_API std::optional<FitStrategy> strategy_named(std::string_view name);
/// What the strategy does, in words that follow "several ranks train one model, and": "each has a copy of it". Throws
/// like name_of().
PHAROS_API std::string_view summary_of(FitStrategy strategy);

/// The strategy that choose_strategy() has chosen, and why. A value.
struct PHAROS_API FitChoice {
  FitStrategy strategy = FitStrategy::kCopies;
  /// Text that lists how many bytes each strategy needs on a rank, and how many are available. Activations, which
  /// forward keeps for backward, and batches are not counted.
  std::string arithmetic;
};
/// The sizes of a model and of what belongs to it. A value.
struct FitSize {
  std::uint64_t parameters = 0;    ///< Number of parameters that are trained.
  std::size_t bytes = 4;           ///< Bytes of one parameter.
  std::size_t kept = 2;            ///< Numbers that the optimizer keeps for each parameter.
  std::uint64_t frozen_bytes = 0;  ///< Bytes of the parameters that are not trained.
  /// Divided parameters lie in memory that all ranks read, so that no parameter is there twice.
  bool reads_in_place = false;
  // Bytes that a rank has whole at the same time although they are divided: a few units, and all that belongs to no
  // unit alone (see ShardOptions::blocks).
  std::uint64_t gathered_bytes = 0;  ///< Bytes of parameters.
  std::uint64_t gradient_bytes = 0;  ///< Bytes of gradients.
};
/// Chooses the first strategy, in the order of FitStrategy, that fits into `memory` bytes for each rank; if none fits,
/// the one that needs least. With one rank it always chooses kCopies. Never fails; any thread may call it.
PHAROS_API FitChoice choose_strategy(const FitSize& size, std::uint32_t ranks, std::uint64_t memory);

}  // namespace pharos::ml
