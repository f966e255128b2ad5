#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "number_type.hpp"

namespace pharos::ml {

/// Rows of scores on a GPU, one after the other. A row's loss is its cross entropy, or 0 if its target is `ignored`, or
/// NaN if its target is no column.
struct ScoredRows {
  void* scores = nullptr;
  const std::int64_t* targets = nullptr;
  float* losses = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t ignored = 0;
  bool gradients = false;  // the scores become the gradient of the sum of the losses
};

/// Gives the kernel to the stream. Fails if CUDA refuses it.
cudaError_t compute_row_losses(NumberType type, const ScoredRows& rows, cudaStream_t stream);

}  // namespace pharos::ml
