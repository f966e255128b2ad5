#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include <pharos/wire/encoder.hpp>

namespace pharos::detail {

/// A copy of some bytes. Few bytes are stored in the object itself, without an allocation. Owned by a ResultCell. One
/// thread at a time. span() is valid until the next change.
class SmallBytes {
 public:
  std::span<const std::byte> span() const { return {large_ != nullptr ? large_.get() : small_.data(), size_}; }
  /// Returns the place for this many bytes, which are to be written there. The earlier bytes are lost.
  std::byte* make_room(std::size_t size) {
    size_ = size;
    if (size > small_.size()) [[unlikely]] {
      large_ = std::make_unique_for_overwrite<std::byte[]>(size);
      return large_.get();
    }
    large_.reset();
    return small_.data();
  }
  void assign(const Encoder& encoded) { encoded.copy_to(make_room(encoded.size())); }

 private:
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> large_;
  std::array<std::byte, 48> small_;
};

}  // namespace pharos::detail
