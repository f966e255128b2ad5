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

/// The memory of a Writable: an object of the store that becomes the value of a Ref when it is sealed. Owned by a
/// Writable. One thread. The destructor gives memory that was not sealed back to the store.
class PHAROS_API WritableValue {
 public:
  /// Makes an object for `count` elements, which have `bytes` bytes together. May wait for the node. Throws Exhausted
  /// if the store is full, and RuntimeStopped after the end of the Runtime. The Caller need not outlive the object.
  WritableValue(Caller& caller, std::uint64_t count, std::size_t bytes, CallSite site);
  WritableValue(WritableValue&& other) noexcept;
  WritableValue& operator=(WritableValue&& other) noexcept;
  ~WritableValue();

  /// The memory of the elements.
  std::byte* data() const { return data_; }
  /// Returns a cell that is ready. Aborts the process if the value was sealed or moved from before.
  CellHandle seal() &&;

 private:
  struct Object;
  std::unique_ptr<Object> object_;
  std::byte* data_;
};

/// Returns a * b, or SIZE_MAX if that overflows; there is never room for so much.
constexpr std::size_t saturating_product(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

}  // namespace detail

/// An array in the object store, which this program fills in place (Runtime::create()). When it is sealed, it is a
/// value like one that put() makes, and was never copied:
///
///   auto batch = runtime.create<float>(256, 1024);
///   read_into(batch.span());
///   const Ref<SharedSpan<float>> ref = std::move(batch).seal();
///
/// The program owns it. One thread at a time may use it. The elements are not initialised. If it is destroyed before it
/// is sealed, its memory goes back to the store. It may outlive the Runtime. After seal() or a move it may only be
/// destroyed or assigned to.
template <class T>
class Writable {
  static_assert(detail::kPlain<T>, "the elements are numbers, or structs of numbers without padding");
  static_assert(alignof(T) <= sizeof(std::uint64_t), "elements begin at a multiple of 8 bytes");

 public:
  /// The type of the value after seal().
  using Value = std::conditional_t<std::is_same_v<T, std::byte>, Bytes, SharedSpan<T>>;

  Writable(detail::Caller& caller, std::size_t size, CallSite site)
      : value_{caller, size, detail::saturating_product(size, sizeof(T)), site}, size_{size} {}

  std::span<T> span() { return {data(), size_}; }
  T* data() { return reinterpret_cast<T*>(value_.data()); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data()[i]; }

  /// Makes the array a value, which never changes. The spans and pointers that were taken before must not be written to
  /// any more.
  Ref<Value> seal() && { return Ref<Value>{std::move(value_).seal()}; }

 private:
  detail::WritableValue value_;
  std::size_t size_;
};

}  // namespace pharos
