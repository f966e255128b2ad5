#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include <pharos/base/export.hpp>

namespace pharos::ml::detail {

/// Returns the cross entropy of each row of scores as floats; 0 for rows whose target is `ignored`. With `gradients`
/// the scores become the gradient of the sum of these losses. `scores` has rows side by side, of floats or of
/// half-precision numbers; `targets` are 64-bit. Runs on the current stream, and does not wait for it.
using RowLosses = at::Tensor (*)(at::Tensor& scores, const at::Tensor& targets, std::int64_t ignored, bool gradients);

/// A library for a kind of device registers its kernel when it is loaded; linear_cross_entropy() uses it. Any thread.
PHAROS_API void register_row_losses(at::DeviceType device, RowLosses kernel);
/// Returns the registered kernel; nullptr if there is none.
RowLosses row_losses(at::DeviceType device);

}  // namespace pharos::ml::detail
