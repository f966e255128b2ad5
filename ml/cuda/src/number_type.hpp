#pragma once

#include <cstdint>

namespace pharos::ml {

/// The types of the numbers that kernels take.
enum class NumberType : std::uint8_t { kFloat, kHalf, kBFloat16 };

}  // namespace pharos::ml
