#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/wire/codec.hpp>
#include <pharos/wire/stored_codec.hpp>

namespace pharos {

/// Immutable numbers (or structs of numbers), which all copies of this value share: like Bytes, but with elements. Its
/// encoding is that of std::vector<T>, so that a Ref of a SharedSpan may be the argument of a function that takes a
/// vector, and the other way round. A SharedSpan that arrives from the object store refers to the object itself, which
/// stays alive as long as a copy of the SharedSpan; small ones (below kSharedBytesMin) and those whose bytes are not
/// aligned for T are copied. Any thread may copy and read it. Indexes are not checked.
template <class T>
class SharedSpan {
  static_assert(detail::kPlain<T>, "the elements of a SharedSpan are numbers, or structs of numbers without padding");

 public:
  using value_type = T;

  SharedSpan() = default;
  explicit SharedSpan(std::vector<T> elements) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(elements));
    elements_ = *owner;
    owner_ = std::move(owner);
  }
  /// `elements` must not move or change as long as a copy of `owner` exists.
  SharedSpan(std::shared_ptr<const void> owner, std::span<const T> elements)
      : owner_{std::move(owner)}, elements_{elements} {}

  std::span<const T> span() const { return elements_; }
  const T* data() const { return elements_.data(); }
  std::size_t size() const { return elements_.size(); }
  bool empty() const { return elements_.empty(); }
  const T& operator[](std::size_t i) const { return elements_[i]; }
  auto begin() const { return elements_.begin(); }
  auto end() const { return elements_.end(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const T> elements_;
};

namespace detail {

/// The kFormat of a Codec that encodes as Codec<As> does. The two types then have the same structure for to_bytes(),
/// which calls the shape_from() below for a kFormat of this type.
template <class As>
struct FormatOf {};
template <class As>
consteval std::uint64_t shape_from(FormatOf<As> /*format*/) {
  return shape_of<As>();
}

}  // namespace detail

template <class T>
struct Codec<SharedSpan<T>> {
  static constexpr detail::FormatOf<std::vector<T>> kFormat{};
  static void encode(const SharedSpan<T>& value, Encoder& to) {
    detail::encode_count(value.size(), to);
    to.write_shared(Bytes{value.owner(), std::as_bytes(value.span())});
  }
  static SharedSpan<T> decode(Decoder& from) {
    const std::size_t count = from.read_count(sizeof(T));
    const Bytes bytes = from.take_shared(count * sizeof(T));
    if (from.failed() || count == 0) return {};
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) == 0) {
      return {bytes.owner(), {reinterpret_cast<const T*>(bytes.data()), count}};
    }
    std::vector<T> copy(count);
    std::memcpy(static_cast<void*>(copy.data()), bytes.data(), bytes.size());
    return SharedSpan<T>{std::move(copy)};
  }
};

namespace detail {

/// True if the encoding of a From can be decoded as a To.
template <class From, class To>
inline constexpr bool kSameBytes = std::is_same_v<From, To>;
template <class T, class Allocator>
inline constexpr bool kSameBytes<std::vector<T, Allocator>, SharedSpan<T>> = true;
template <class T, class Allocator>
inline constexpr bool kSameBytes<SharedSpan<T>, std::vector<T, Allocator>> = true;

}  // namespace detail
}  // namespace pharos
