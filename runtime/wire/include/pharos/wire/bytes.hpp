#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos {

/// Bytes that never change, shared by all copies of this value: a block of data. As an argument or a result it travels
/// like a vector of bytes, but encoding and decoding a large one copies nothing: what is received is a part of what it
/// arrived in (and keeps the whole of that alive; it may lie at any alignment). Between processes of one machine those
/// of more than kInlineBytesMax lie in the object store, where they are written once, however far they are passed on.
/// May be copied and read in any thread.
class PHAROS_API Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::vector<std::byte> bytes);
  explicit Bytes(std::string text);
  /// `bytes` must stay where and as they are for as long as anybody holds `owner`.
  Bytes(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_{std::move(owner)}, bytes_{bytes} {}
  static Bytes copy_of(std::span<const std::byte> bytes);

  std::span<const std::byte> span() const { return bytes_; }
  const std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// Whether they hold the same bytes, wherever these lie.
  friend PHAROS_API bool operator==(const Bytes& a, const Bytes& b);

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace pharos
