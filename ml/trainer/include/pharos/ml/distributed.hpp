#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/trainer.hpp>

namespace pharos::ml {

struct DistributedOptions {
  /// Number of GPUs. There is one rank for each GPU, which no other rank uses.
  std::size_t gpus = 0;
  /// The type of the GPUs, as the label "gpu_type" of nodes has it: "A10". Empty: any type.
  std::string gpu_type{};
  /// Number of ranks of a training without GPUs. Exactly one of `gpus` and `workers` must be set.
  std::size_t workers = 0;
  /// All other options. The number of workers and of GPUs in its scaling, and its gpu_type, are taken from the fields
  /// above.
  TrainerOptions trainer{};
};

namespace detail {
/// Throws InvalidArgument unless exactly one of `gpus` and `workers` is set.
PHAROS_API TrainerOptions trainer_options(const DistributedOptions& options);
}  // namespace detail

/// Trains with one call, from a program that has no Runtime: in the cluster for which the program was started
/// (PHAROS_ADDRESS), or else on this machine.
///
///   const ml::TrainResult result = ml::distributed<&train>({.gpus = 8, .gpu_type = "A10"}, 1e-3);
///
/// `train` is a function as for Trainer::run(). Waits until the training is over; its Runtime then ends, with all
/// actors. Throws what Trainer::run() and the constructor of Runtime throw, and InvalidArgument for options that make
/// no sense. A program that has a Runtime already makes a Trainer instead. Any thread.
template <auto Train, class... Args>
TrainResult distributed(const DistributedOptions& options, Args&&... args) {
  TrainerOptions trainer = detail::trainer_options(options);
  Runtime runtime;
  return Trainer{runtime, std::move(trainer)}.template run<Train>(std::forward<Args>(args)...);
}

}  // namespace pharos::ml
