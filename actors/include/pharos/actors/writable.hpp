#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <pharos/actors/call_site.hpp>
#include <pharos/actors/ref.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/shared_span.hpp>

namespace pharos {

namespace detail {

class Caller;

/// An object of the store that becomes the value of a Ref.
class PHAROS_API WritableValue {
 public:
  /// So many elements, of `bytes` in all. Throws Exhausted.
  WritableValue(Caller& caller, std::uint64_t count, std::size_t bytes, CallSite site);
  WritableValue(WritableValue&& other) noexcept;
  WritableValue& operator=(WritableValue&& other) noexcept;
  ~WritableValue();

  /// Where the elements lie.
  std::byte* data() const { return data_; }
  CellHandle seal() &&;

 private:
  struct Object;
  std::unique_ptr<Object> object_;
  std::byte* data_;
};

/// a * b, or the most that there is, for which there is never room.
constexpr std::size_t saturating_product(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

}  // namespace detail

/// Elements in the object store, which this program fills where they lie. Sealed they are a value like any other that
/// was put there, and nothing of it was ever copied:
///
///   auto batch = runtime.create<float>(256, 1024);
///   read_into(batch.span());
///   const Ref<SharedSpan<float>> ref = std::move(batch).seal();
///
/// Before they are written they hold anything. What is not sealed is given up. One thread at a time.
template <class T>
class Writable {
  static_assert(detail::kPlain<T>, "the elements are numbers, or structs of numbers without padding");
  static_assert(alignof(T) <= sizeof(std::uint64_t), "elements begin at a multiple of 8 bytes");

 public:
  /// What it is once it is sealed.
  using Value = std::conditional_t<std::is_same_v<T, std::byte>, Bytes, SharedSpan<T>>;

  Writable(detail::Caller& caller, std::size_t size, CallSite site)
      : value_{caller, size, detail::saturating_product(size, sizeof(T)), site}, size_{size} {}

  std::span<T> span() { return {data(), size_}; }
  T* data() { return reinterpret_cast<T*>(value_.data()); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data()[i]; }

  /// From now on it never changes.
  Ref<Value> seal() && { return Ref<Value>{std::move(value_).seal()}; }

 private:
  detail::WritableValue value_;
  std::size_t size_;
};

}  // namespace pharos
