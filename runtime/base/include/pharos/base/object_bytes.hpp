#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace pharos {

/// The bytes of a value, to send the value exactly as it is in memory. The span is valid as long as `value` exists.
template <class T>
requires std::is_trivially_copyable_v<T> std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span{&value, 1});
}
/// The bytes of a value as a place to receive into, valid as long as `value` exists.
template <class T>
requires std::is_trivially_copyable_v<T> std::span<std::byte> room_of(T& value) {
  return std::as_writable_bytes(std::span{&value, 1});
}

}  // namespace pharos
