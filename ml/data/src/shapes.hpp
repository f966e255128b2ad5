#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// Returns the bytes of all elements; nullopt if a length is negative or the number is too large, even if another
/// length is 0.
std::optional<std::size_t> bytes_of_shape(DType dtype, std::span<const std::int64_t> shape);

}  // namespace pharos::ml
