#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "number_type.hpp"

/// The gradient of a bias: sums over rows that lie side by side. Each pointer but that to floats is to numbers of one
/// type, and is a multiple of 16. The functions give kernels to the stream, and fail if CUDA refuses them.
namespace pharos::ml {

/// Whether there is a kernel for rows with so many columns.
bool sums_columns(NumberType type, std::int64_t columns);

struct ColumnSums {
  const void* rows_of = nullptr;
  const void* before_gelu = nullptr;  // not nullptr: rows_of is the gradient of gelu(before_gelu) in its form with tanh
  void* of_before = nullptr;          // …, and the gradient of before_gelu is written here and summed
  void* sums = nullptr;
  float* parts = nullptr;  // room for `part_count` times `columns` floats
  std::int64_t part_count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
/// The number of parts in which columns are summed.
std::int64_t column_part_count(NumberType type, std::int64_t rows, std::int64_t columns);
cudaError_t sum_columns(NumberType type, const ColumnSums& what, cudaStream_t stream);

}  // namespace pharos::ml
