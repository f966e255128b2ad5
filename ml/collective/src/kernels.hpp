#pragma once

#include <cstddef>
#include <span>

#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// Reduces so many elements of each of `from`, in their order, and writes the result to each of `to`, which may be the
/// same places. Half-precision numbers are summed as float and rounded once. The same bits wherever it runs.
void reduce(DType dtype, Reduction reduction, std::span<const std::byte* const> from, std::span<std::byte* const> to,
            std::size_t elements);

/// Copies them to each of `to`, in one go.
void spread(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes);

/// Each element by as many, as a mean of as many is.
void divide(DType dtype, std::byte* data, std::size_t elements, std::size_t by);

/// Floats by their upper 16 bits, rounded, and back.
void shorten(const float* from, BFloat16* to, std::size_t elements);
void lengthen(const BFloat16* from, float* to, std::size_t elements);

// The same code, compiled for more than one machine.
void reduce_plain(DType dtype, Reduction reduction, std::span<const std::byte* const> from,
                  std::span<std::byte* const> to, std::size_t elements);
void reduce_avx2(DType dtype, Reduction reduction, std::span<const std::byte* const> from,
                 std::span<std::byte* const> to, std::size_t elements);
void spread_plain(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes);
void spread_avx2(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes);

}  // namespace pharos::ml
