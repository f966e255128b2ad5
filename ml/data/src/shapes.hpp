#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// Of all its elements. Nothing: lengths below 0, or more bytes than can be counted.
std::optional<std::size_t> bytes_of_shape(DType dtype, std::span<const std::int64_t> shape);

}  // namespace pharos::ml
