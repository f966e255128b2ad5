#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "number_type.hpp"

/// Layer normalisation of rows that lie side by side. Each pointer but those to floats is to numbers of one type, and
/// is a multiple of 16. The functions give kernels to the stream, and fail if CUDA refuses them.
namespace pharos::ml {

/// Whether there is a kernel for rows with so many columns.
bool normalizes(NumberType type, std::int64_t columns);

/// normalized = (sum - mean) * scale * weight + bias, where sum = x + branch.
struct NormalizedRows {
  const void* x = nullptr;
  const void* branch = nullptr;  // nullptr: the sum is x
  const void* weight = nullptr;  // a number for each column
  const void* bias = nullptr;
  void* sum = nullptr;  // nullptr if there is no branch
  void* normalized = nullptr;
  float* means = nullptr;   // one for each row
  float* scales = nullptr;  // 1 / standard deviation
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float epsilon = 0;
};
cudaError_t normalize_rows(NumberType type, const NormalizedRows& what, cudaStream_t stream);

struct NormGradients {
  const void* of_normalized = nullptr;
  const void* of_sum = nullptr;  // what the sum is used for besides; nullptr for nothing
  const void* sum = nullptr;
  const void* weight = nullptr;
  const float* means = nullptr;
  const float* scales = nullptr;
  void* of_x = nullptr;  // and of the branch
  void* of_weight = nullptr;
  void* of_bias = nullptr;
  float* parts = nullptr;  // room for `part_count` times 2 * columns floats
  std::int64_t part_count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
/// The number of parts in which the gradients of weight and bias are summed.
std::int64_t norm_part_count(std::int64_t rows, std::int64_t columns);
cudaError_t compute_norm_gradients(NumberType type, const NormGradients& what, cudaStream_t stream);

}  // namespace pharos::ml
