#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <pharos/base/export.hpp>

/// The types of the numbers that collective operations work on, and the ways to reduce them. All are plain values; the
/// functions have no state and never fail.
namespace pharos::ml {

/// An IEEE binary16 number as it lies in memory.
struct Half {
  std::uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};
/// A bfloat16 number as it lies in memory: the upper 16 bits of a float.
struct BFloat16 {
  std::uint16_t bits = 0;
  bool operator==(const BFloat16&) const = default;
};

enum class DType : std::uint8_t { kU8, kI8, kI32, kI64, kF16, kBF16, kF32, kF64 };

PHAROS_API std::string_view to_string(DType dtype);

constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t kSizes[] = {1, 1, 4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<std::size_t>(dtype)];
}

/// Returns whether the type is a floating point type.
constexpr bool is_real(DType dtype) {
  return dtype >= DType::kF16;
}

namespace detail {
template <class T>
struct DTypeOf;
template <DType dtype>
struct IsDType {
  static constexpr DType kDType = dtype;
};
template <>
struct DTypeOf<std::uint8_t> : IsDType<DType::kU8> {};
template <>
struct DTypeOf<std::byte> : IsDType<DType::kU8> {};
template <>
struct DTypeOf<std::int8_t> : IsDType<DType::kI8> {};
template <>
struct DTypeOf<std::int32_t> : IsDType<DType::kI32> {};
template <>
struct DTypeOf<std::int64_t> : IsDType<DType::kI64> {};
template <>
struct DTypeOf<Half> : IsDType<DType::kF16> {};
template <>
struct DTypeOf<BFloat16> : IsDType<DType::kBF16> {};
template <>
struct DTypeOf<float> : IsDType<DType::kF32> {};
template <>
struct DTypeOf<double> : IsDType<DType::kF64> {};
}  // namespace detail

/// The C++ types that elements can have.
template <class T>
concept Element = requires {
  detail::DTypeOf<std::remove_cv_t<T>>::kDType;
};
template <Element T>
inline constexpr DType kDTypeOf = detail::DTypeOf<std::remove_cv_t<T>>::kDType;

inline float to_float(BFloat16 from) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(from.bits) << 16);
}
/// Rounds to the nearest number, and ties to even. Too large numbers become infinite, and NaN stays NaN.
inline BFloat16 to_bfloat16(float from) {
  const auto bits = std::bit_cast<std::uint32_t>(from);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded)};
}
inline float to_float(Half from) {
  const std::uint32_t sign = (from.bits & 0x8000U) << 16;
  const std::uint32_t rest = from.bits & 0x7fffU;
  if (rest >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | ((rest & 0x3ffU) << 13));
  // The multiplication corrects the bias of the exponent. It is exact, and right for subnormal numbers, too.
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112F));
}
/// Rounds to the nearest number, and ties to even. Too large numbers become infinite, and NaN stays NaN.
inline Half to_half(float from) {
  const auto bits = std::bit_cast<std::uint32_t>(from);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t rest = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (rest > 0x7f800000U) {
    half = 0x7e00U;
  } else if (rest >= 0x477ff000U) {
    half = 0x7c00U;
  } else if (rest < 0x38800000U) {  // The result is subnormal: the addition rounds it.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    half = (rest + 0xfffU + ((rest >> 13) & 1U) - (112U << 23)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

enum class Reduction : std::uint8_t { kSum, kMean, kMax, kMin };

PHAROS_API std::string_view to_string(Reduction reduction);

}  // namespace pharos::ml
