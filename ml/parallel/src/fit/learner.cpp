#include <pharos/ml/learner.hpp>
#include <pharos/ml/module_state.hpp>

#include "fit/device_copies.hpp"

namespace pharos::ml {

Learner::~Learner() = default;

at::Tensor Learner::on_device(const Batch& batch, std::string_view field) const {
  const Array& array = batch[field];
  if (copies_ != nullptr) {
    if (const auto copy = copies_->find(array)) return *copy;
  }
  return tensor_of(array, device_);
}

std::optional<Order> Learner::training_order(std::uint64_t) {
  return std::nullopt;
}

}  // namespace pharos::ml
