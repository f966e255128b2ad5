#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/actors/call_site.hpp>
#include <pharos/actors/ref.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/shared_array.hpp>
#include <pharos/wire/shared_span.hpp>

namespace pharos {

namespace detail {

class Caller;

/// The memory of a Writable: an object of the store that becomes the value of a Ref when it is sealed. Owned by a
/// Writable. One thread. The destructor gives memory that was not sealed back to the store.
class PHAROS_API WritableValue {
 public:
  /// Makes an object: these numbers, which the value begins with, and `bytes` bytes of elements. May wait for the node.
  /// Throws Exhausted if the store is full, and RuntimeStopped after the end of the Runtime. The Caller need not
  /// outlive the object.
  WritableValue(Caller& caller, std::span<const std::uint64_t> head, std::size_t bytes, CallSite site);
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

/// What Runtime::create() makes: Bytes, a SharedSpan, or a SharedArray if there are several dimensions.
template <class T, std::size_t dimensions>
struct Created {
  using Value = SharedArray<T, dimensions>;
};
template <class T>
struct Created<T, 1> {
  using Value = SharedSpan<T>;
};
template <>
struct Created<std::byte, 1> {
  using Value = Bytes;
};

}  // namespace detail

/// An array in the object store, which this program fills in place (Runtime::create()). When it is sealed, it is a
/// value like one that put() makes, and was never copied:
///
///   auto batch = runtime.create<float>(256, 1024);
///   batch(3, 5) = 0.5F;
///   const Ref<SharedArray<float, 2>> ref = std::move(batch).seal();
///
/// The program owns it. One thread at a time may use it. The elements are not initialised. If it is destroyed before it
/// is sealed, its memory goes back to the store. It may outlive the Runtime. After seal() or a move it may only be
/// destroyed or assigned to.
template <class T, std::size_t dimensions = 1>
class Writable {
  static_assert(detail::kPlain<T>, "the elements are numbers, or structs of numbers without padding");
  static_assert(alignof(T) <= sizeof(std::uint64_t), "elements begin at a multiple of 8 bytes");

 public:
  /// The type of the value after seal().
  using Value = typename detail::Created<T, dimensions>::Value;
  using Extents = std::array<std::size_t, dimensions>;

  Writable(detail::Caller& caller, const Extents& extents, CallSite site)
      : extents_{extents}, value_{caller, head_of(extents), bytes_of(extents), site} {}

  /// All elements, row by row.
  std::span<T> span() { return {data(), size()}; }
  T* data() { return reinterpret_cast<T*>(value_.data()); }
  std::size_t size() const { return detail::product_of(extents_); }
  const Extents& extents() const { return extents_; }
  T& operator[](std::size_t i) { return data()[i]; }
  /// The element in this row and column. Indexes are not checked.
  template <std::integral... Index>
  requires(sizeof...(Index) == dimensions) T& operator()(Index... index) {
    return data()[detail::place_in(extents_, index...)];
  }

  /// Makes the array a value, which never changes. The spans and pointers that were taken before must not be written to
  /// any more.
  Ref<Value> seal() && { return Ref<Value>{std::move(value_).seal()}; }

 private:
  // The layout is that of the codecs: the extents if there are several, the number of elements, and the elements.
  static std::vector<std::uint64_t> head_of(const Extents& extents) {
    std::vector<std::uint64_t> head;
    if (dimensions > 1) head.assign(extents.begin(), extents.end());
    head.push_back(detail::product_of(extents));
    return head;
  }
  static std::size_t bytes_of(const Extents& extents) {
    std::size_t bytes = 0;
    return __builtin_mul_overflow(detail::product_of(extents), sizeof(T), &bytes) ? SIZE_MAX : bytes;
  }

  Extents extents_;
  detail::WritableValue value_;
};

}  // namespace pharos
