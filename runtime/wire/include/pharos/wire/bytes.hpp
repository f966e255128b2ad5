#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos {

/// A block of immutable bytes, which all copies of this value share. As an argument or a result it travels like a
/// vector of bytes, but encoding and decoding a large block (kSharedBytesMin) copies nothing. A large block that was
/// received may be a part of the memory in which it arrived, and then keeps all of that memory alive; its address may
/// have any alignment. Between processes of one machine blocks of more than kInlineBytesMax are in the object store,
/// where they are written once, even if they are passed on many times. Any thread may copy and read it. The bytes are
/// freed with the last copy; spans and pointers must not be used after that.
class PHAROS_API Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::vector<std::byte> bytes);
  explicit Bytes(std::string text);
  /// `bytes` must not move or change as long as a copy of `owner` exists.
  Bytes(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_{std::move(owner)}, bytes_{bytes} {}
  static Bytes copy_of(std::span<const std::byte> bytes);

  std::span<const std::byte> span() const { return bytes_; }
  const std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// Compares the contents, not the addresses.
  friend PHAROS_API bool operator==(const Bytes& a, const Bytes& b);

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace pharos
