#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

#include <pharos/ml/models/kernels.hpp>

namespace pharos::ml {

/// Whether kernels take the tensor beside `first`: it is of the same type and on the same device, contiguous and
/// aligned.
inline bool suits(const at::Tensor& each, const at::Tensor& first) {
  constexpr std::uintptr_t kAlignment = 16;
  return each.device() == first.device() && each.scalar_type() == first.scalar_type() && each.is_contiguous() &&
         reinterpret_cast<std::uintptr_t>(each.const_data_ptr()) % kAlignment == 0;
}

/// The kernels for the device of `x`; nullptr if there are none, or if autocast chooses the types of numbers.
inline const detail::Kernels* kernels_outside_autocast(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? nullptr : detail::kernels_for(device);
}

}  // namespace pharos::ml
