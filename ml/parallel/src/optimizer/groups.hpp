#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/parameter_settings.hpp>

namespace pharos::ml {

/// A parameter, or the part of it that this rank trains. A value, which keeps the tensor.
struct TrainedParameter {
  WholeParameter whole;
  at::Tensor values;
};

/// Groups with equal settings, in the order in which they first come. Throws what `settings` throws.
std::vector<ParameterGroup> grouped(const std::vector<TrainedParameter>& parameters, const SettingsOf& settings);

}  // namespace pharos::ml
