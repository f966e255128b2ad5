#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/trainer.hpp>

namespace pharos::ml {

struct DistributedOptions {
  /// A rank for each, which has it for itself.
  std::size_t gpus = 0;
  /// As the label "gpu_type" of nodes says it: "A10". Empty: any.
  std::string gpu_type{};
  /// Without GPUs: so many ranks, with a CPU each.
  std::size_t workers = 0;
  /// What else there is to say; its scaling and gpu_type follow from the above.
  TrainerOptions trainer{};
};

namespace detail {
/// Throws InvalidArgument for what makes no sense.
PHAROS_API TrainerOptions trainer_options(const DistributedOptions& options);
}  // namespace detail

/// Trains with one call, from a program that knows of no cluster: in the one that it was started for (PHAROS_ADDRESS),
/// else on this machine.
///
///   const ml::TrainResult result = ml::distributed<&train>({.gpus = 8, .gpu_type = "A10"}, 1e-3);
///
/// `train` is as for Trainer::run(). A program that has a Runtime already makes a Trainer instead.
template <auto Train, class... Args>
TrainResult distributed(const DistributedOptions& options, Args&&... args) {
  TrainerOptions trainer = detail::trainer_options(options);
  Runtime runtime;
  return Trainer{runtime, std::move(trainer)}.template run<Train>(std::forward<Args>(args)...);
}

}  // namespace pharos::ml
