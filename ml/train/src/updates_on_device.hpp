#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include <pharos/ml/optimizer.hpp>

namespace pharos::ml {

/// Parameters of one type on one device, which the same launches change. Entry i of each list belongs to parameter i.
/// Its tensors are rows of numbers in the order of the parameter's memory.
struct DeviceRun {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> kept[2];   ///< as Optimizer::names() lists them
  std::vector<std::uint64_t> steps;  ///< of each parameter, this one included
};

/// One step of the rule, by libtorch's fused operators. The host waits for nothing. The formulas are those of update();
/// the device rounds in its own way.
void update_on_device(const Rule& rule, double lr, double weight_decay, DeviceRun& run);

}  // namespace pharos::ml
