#pragma once

#include <cstddef>
#include <span>

#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// Reduces `elements` elements of each of `from`, in the order of the list, and writes the result to each of `to`,
/// which may be the same memory. Half-precision numbers are summed as floats and rounded once. The result has the same
/// bits on every machine: sums of integers wrap around, and a maximum or minimum is NaN if one of the values is. Like
/// all functions here it has no state and never fails: any thread may call it, and the caller, a backend, has checked
/// types and sizes.
void reduce(DType dtype, Reduction reduction, std::span<const std::byte* const> from, std::span<std::byte* const> to,
            std::size_t elements);

/// Copies the bytes to each of `to`. `from` is read once for up to four copies.
void spread(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes);

/// Divides each element by `by`, as a mean of `by` ranks does.
void divide(DType dtype, std::byte* data, std::size_t elements, std::size_t by);

/// Converts floats to bfloat16, with rounding, and back.
void shorten(const float* from, BFloat16* to, std::size_t elements);
void lengthen(const BFloat16* from, float* to, std::size_t elements);

// The code of kernels.inc, compiled without AVX2 and with it. reduce() and spread() choose by the machine's CPU.
void reduce_plain(DType dtype, Reduction reduction, std::span<const std::byte* const> from,
                  std::span<std::byte* const> to, std::size_t elements);
void reduce_avx2(DType dtype, Reduction reduction, std::span<const std::byte* const> from,
                 std::span<std::byte* const> to, std::size_t elements);
void spread_plain(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes);
void spread_avx2(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes);

}  // namespace pharos::ml
