#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <pharos/wire/shared_span.hpp>

namespace pharos {

namespace detail {

/// Returns the product of the extents; SIZE_MAX, which no memory can hold, if it is larger.
template <std::size_t dimensions>
constexpr std::size_t product_of(const std::array<std::size_t, dimensions>& extents) {
  std::size_t product = 1;
  bool overflows = false;
  bool empty = false;
  for (const std::size_t extent : extents) {
    empty |= extent == 0;
    overflows |= __builtin_mul_overflow(product, extent, &product);
  }
  if (empty) return 0;
  return overflows ? SIZE_MAX : product;
}

/// Returns the number of the element with these indexes, where the elements lie row by row.
template <std::size_t dimensions, std::integral... Index>
constexpr std::size_t place_in(const std::array<std::size_t, dimensions>& extents, Index... index) {
  std::size_t place = 0;
  std::size_t dimension = 0;
  ((place = place * extents[dimension++] + static_cast<std::size_t>(index)), ...);
  return place;
}

}  // namespace detail

/// Immutable numbers in rows and columns (or in more dimensions), which all copies of this value share: a SharedSpan
/// that knows its extents. `array(2, 5)` is the element in row 2 and column 5; the elements lie row by row. Any thread
/// may copy and read it. Indexes are not checked.
template <class T, std::size_t dimensions>
class SharedArray {
  static_assert(dimensions >= 2, "an array of one dimension is a SharedSpan");

 public:
  using value_type = T;
  using Extents = std::array<std::size_t, dimensions>;

  SharedArray() = default;
  /// The product of the extents must be the number of elements.
  SharedArray(const Extents& extents, SharedSpan<T> elements) : extents_{extents}, elements_{std::move(elements)} {}

  const Extents& extents() const { return extents_; }
  std::size_t extent(std::size_t dimension) const { return extents_[dimension]; }
  template <std::integral... Index>
  requires(sizeof...(Index) == dimensions) const T& operator()(Index... index) const {
    return elements_[detail::place_in(extents_, index...)];
  }
  /// The elements with this first index: those of a row, if there are two dimensions.
  std::span<const T> row(std::size_t index) const {
    const std::size_t size = extents_[0] == 0 ? 0 : elements_.size() / extents_[0];
    return elements_.span().subspan(index * size, size);
  }
  /// All elements, row by row.
  const SharedSpan<T>& elements() const { return elements_; }
  std::span<const T> span() const { return elements_.span(); }
  const T* data() const { return elements_.data(); }
  std::size_t size() const { return elements_.size(); }

 private:
  Extents extents_{};
  SharedSpan<T> elements_;
};

template <class T, std::size_t dimensions>
struct Codec<SharedArray<T, dimensions>> {
  static constexpr detail::FormatOf<std::pair<std::array<std::uint64_t, dimensions>, std::vector<T>>> kFormat{};

  static void encode(const SharedArray<T, dimensions>& value, Encoder& to) {
    for (const std::uint64_t extent : value.extents()) to.write(&extent, sizeof extent);
    Codec<SharedSpan<T>>::encode(value.elements(), to);
  }
  static SharedArray<T, dimensions> decode(Decoder& from) {
    typename SharedArray<T, dimensions>::Extents extents{};
    for (std::size_t& each : extents) {
      std::uint64_t extent = 0;
      from.read(&extent, sizeof extent);
      each = static_cast<std::size_t>(extent);
    }
    auto elements = Codec<SharedSpan<T>>::decode(from);
    if (detail::product_of(extents) != elements.size()) from.fail();
    if (from.failed()) return {};
    return {extents, std::move(elements)};
  }
};

}  // namespace pharos
