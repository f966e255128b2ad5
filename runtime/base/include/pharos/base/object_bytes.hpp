#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace pharos {

/// A value that is sent as it lies in memory.
template <class T>
requires std::is_trivially_copyable_v<T> std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span{&value, 1});
}
/// The same, to be received into.
template <class T>
requires std::is_trivially_copyable_v<T> std::span<std::byte> room_of(T& value) {
  return std::as_writable_bytes(std::span{&value, 1});
}

}  // namespace pharos
