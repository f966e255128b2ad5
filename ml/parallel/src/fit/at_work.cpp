#include "fit/at_work.hpp"

#include <torch/nn/module.h>

#include <pharos/ml/device.hpp>
#include <pharos/ml/learner.hpp>

namespace pharos::ml {

LearnerAtWork::LearnerAtWork(TrainContext& context, Learner& learner) : learner_{learner} {
  learner.context_ = &context;
  learner.device_ = own_device();
  learner.copies_.reset();
  learner.logged_ = std::make_shared<LoggedMeans>();
}

LearnerAtWork::~LearnerAtWork() {
  learner_.copies_.reset();
  learner_.logged_.reset();
}

void LearnerAtWork::move_to_device() {
  if (learner_.device_.is_cpu()) return;
  learner_.module().to(learner_.device_);
  learner_.copies_ = std::make_shared<DeviceCopies>(learner_.device_);
}

DeviceCopies* LearnerAtWork::copies() const {
  return learner_.copies_.get();
}

LoggedMeans& LearnerAtWork::logged() const {
  return *learner_.logged_;
}

}  // namespace pharos::ml
