#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos {

/// Bytes that grow at the end: arguments and results on their way out. Not shared between threads.
class Encoder {
 public:
  void write(const void* bytes, std::size_t count) {
    if (count != 0) std::memcpy(grow(count), bytes, count);  // an empty view may point nowhere
  }
  std::span<const std::byte> bytes() const { return {storage_.get(), size_}; }
  void clear() { size_ = 0; }

 private:
  std::byte* grow(std::size_t count) {
    if (capacity_ - size_ < count) [[unlikely]] {
      const std::size_t capacity = std::max<std::size_t>({size_ + count, capacity_ * 2, 256});
      auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity);
      if (size_ != 0) std::memcpy(larger.get(), storage_.get(), size_);
      storage_ = std::move(larger);
      capacity_ = capacity;
    }
    std::byte* at = storage_.get() + size_;
    size_ += count;
    return at;
  }

  std::unique_ptr<std::byte[]> storage_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Bytes that arrived. Every read is checked against what is left; after one that asks for more, `failed()` stays true
/// and every later read gives zeros, so that a decoder of many fields may look once, at the end.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : bytes_{bytes} {}

  std::size_t left() const { return bytes_.size(); }
  bool failed() const { return failed_; }
  void fail() {
    failed_ = true;
    bytes_ = {};
  }

  /// The next `count` bytes, in place; empty after a failure.
  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size()) [[unlikely]] {
      fail();
      return {};
    }
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  void read(void* to, std::size_t count) {
    const auto from = take(count);
    if (from.size() == count) [[likely]] {
      if (count != 0) std::memcpy(to, from.data(), count);
    } else {
      std::memset(to, 0, count);
    }
  }

 private:
  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

/// How a T becomes bytes and comes back: `static void encode(const T&, Encoder&)` and `static T decode(Decoder&)`.
/// A type without one cannot be an argument or a result; the compiler's message names the type.
template <class T>
struct Codec;

namespace detail {

/// Types whose bytes mean nothing in another process.
template <class T>
inline constexpr bool kPointsElsewhere =
    std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_reference_v<T> || std::is_null_pointer_v<T>;
template <class Char, class Traits>
inline constexpr bool kPointsElsewhere<std::basic_string_view<Char, Traits>> = true;
template <class T, std::size_t N>
inline constexpr bool kPointsElsewhere<std::span<T, N>> = true;

}  // namespace detail

/// Values that are their bytes: numbers, enums, and structs of them.
template <class T>
requires(std::is_trivially_copyable_v<T> && !std::is_const_v<T>) struct Codec<T> {
  static_assert(!detail::kPointsElsewhere<T>,
                "a pointer, reference or view means nothing in another process: pass the value itself, "
                "std::string for a string_view");
  static void encode(const T& value, Encoder& to) { to.write(&value, sizeof value); }
  static T decode(Decoder& from) {
    if constexpr (std::is_default_constructible_v<T>) {
      T value;
      from.read(static_cast<void*>(&value), sizeof value);
      return value;
    } else {
      alignas(T) std::byte storage[sizeof(T)];
      from.read(storage, sizeof storage);
      return *std::launder(reinterpret_cast<T*>(storage));
    }
  }
};

template <>
struct Codec<bool> {
  static void encode(bool value, Encoder& to) { to.write(&value, 1); }
  static bool decode(Decoder& from) {
    std::uint8_t byte = 0;
    from.read(&byte, 1);
    if (byte > 1) from.fail();
    return byte == 1;
  }
};

template <>
struct Codec<std::string> {
  static void encode(std::string_view value, Encoder& to) {
    const std::uint64_t size = value.size();
    to.write(&size, sizeof size);
    to.write(value.data(), value.size());
  }
  static std::string decode(Decoder& from) {
    std::uint64_t size = 0;
    from.read(&size, sizeof size);
    const auto bytes = from.take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

}  // namespace pharos
