#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/distributed.hpp>

namespace pharos::ml::detail {

TrainerOptions trainer_options(const DistributedOptions& options) {
  if ((options.gpus == 0) == (options.workers == 0)) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      options.gpus == 0 ? "DistributedOptions::gpus and DistributedOptions::workers are both 0"
                                        : "DistributedOptions::gpus and DistributedOptions::workers are both set",
                      "Set one of them."});
  }
  TrainerOptions trainer = options.trainer;
  const bool on_gpus = options.gpus != 0;
  trainer.scaling.workers = on_gpus ? options.gpus : options.workers;
  trainer.scaling.gpus_per_worker = on_gpus ? 1 : 0;
  trainer.gpu_type = options.gpu_type;
  return trainer;
}

}  // namespace pharos::ml::detail
