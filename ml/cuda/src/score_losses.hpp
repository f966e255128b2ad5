#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pharos::ml {

/// detail::Kernels::score_losses, by the kernel of row_losses.cu. Throws c10::Error if CUDA refuses it.
at::Tensor score_losses(at::Tensor& scores, const at::Tensor& targets, std::int64_t ignored, bool gradients);

}  // namespace pharos::ml
