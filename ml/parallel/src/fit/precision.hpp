#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/precision.hpp>

namespace pharos::ml {

/// What fit() runs a learner's steps in. nullopt for the default precision, so that an autocast that the learner has
/// set itself stays as it is.
inline std::optional<Autocast> autocast_of(at::Device device, const FitOptions& options) {
  if (options.precision == Precision::kFloat) return std::nullopt;
  return std::optional<Autocast>{std::in_place, device, options.precision};
}

}  // namespace pharos::ml
