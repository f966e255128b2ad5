#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include <pharos/ml/rule.hpp>

namespace pharos::ml {

/// Parameters of one type on one device, which are changed by the same launches. Made by Optimizer::step() for one
/// call. Entry i of each list belongs to parameter i. The tensors have one dimension, in the order of the parameter's
/// memory.
struct DeviceRun {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> kept[2];   ///< as Optimizer::names() lists them
  std::vector<std::uint64_t> steps;  ///< number of steps of each parameter, the present one included
};

/// Does one step of a rule that is no UpdateRule, with libtorch's fused operators. The host does not wait for the
/// device, whose errors libtorch throws later. Throws libtorch's exception when there is no memory. The formulas are
/// those of update(), but the device rounds in its own way.
void update_on_device(const Rule& rule, double lr, double weight_decay, DeviceRun& run);

}  // namespace pharos::ml
