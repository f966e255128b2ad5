#include <ATen/ops/scalar_tensor.h>

#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/module_state.hpp>

#include "fit/device_copies.hpp"
#include "fit/logged_means.hpp"

namespace pharos::ml {

Learner::~Learner() = default;

at::Tensor Learner::on_device(const Batch& batch, std::string_view field) const {
  const Array& array = batch[field];
  if (copies_ != nullptr) {
    if (const auto copy = copies_->find(array)) return *copy;
  }
  return tensor_of(array, device_);
}

void Learner::log(std::string_view name, const at::Tensor& mean) {
  if (logged_ == nullptr) {
    throw_error(Error{ErrorCode::kFailedPrecondition,
                      "a learner logs \"" + std::string{name} + "\" while nothing is trained",
                      "Call log() in training_step(), validation_step() or test_step()."});
  }
  logged_->log(name, mean);
}
void Learner::log(std::string_view name, double mean) {
  log(name, at::scalar_tensor(mean, at::kDouble));
}

at::Tensor Learner::predict_step(const Batch&) {
  throw_error(
      Error{ErrorCode::kUnsupported, "the learner says nothing about predictions", "Give it a predict_step()."});
}

std::optional<Order> Learner::training_order(std::uint64_t) {
  return std::nullopt;
}

}  // namespace pharos::ml
