#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include <pharos/base/export.hpp>
#include <pharos/wire/bytes.hpp>
#include <pharos/wire/codec_limits.hpp>

namespace pharos {

/// Reads received bytes. Every read is checked against the number of bytes that are left. After a read that asks for
/// more, failed() stays true and every later read gives zeros, so that code which decodes many fields can check once,
/// at the end. The first failure is kept. Nothing throws but std::bad_alloc.
/// Owned by the code that decodes. Belongs to one thread at a time. The bytes, and the list of parts, must stay valid
/// as long as the Decoder is used; the bytes also as long as views from take(). Bytes from take_shared() may outlive
/// both: they are copies, or keep the owner alive.
class PHAROS_API Decoder {
 public:
  /// Contiguous bytes, and an owner that keeps them alive (null if decoded values must copy the bytes).
  struct Part {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  /// With an owner, which must keep `bytes` alive, decoded large Bytes share the owner instead of copying.
  explicit Decoder(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr)
      : bytes_{bytes}, owner_{std::move(owner)} {}
  /// For bytes in several parts, none of them empty. A single read that spans two parts fails with kTruncated.
  explicit Decoder(std::span<const Part> parts) : bytes_{}, parts_{parts} {
    for (const Part& part : parts) in_parts_ += part.bytes.size();
  }

  std::size_t left() const { return bytes_.size() + in_parts_; }
  bool failed() const { return failure_ != CodecFailure::kNone; }
  CodecFailure failure() const { return failure_; }
  void fail(CodecFailure failure = CodecFailure::kInvalid) {
    if (failure_ == CodecFailure::kNone) failure_ = failure;
    bytes_ = {};
    parts_ = {};
    in_parts_ = 0;
  }

  /// Returns a view of the next `count` bytes, without a copy; empty after a failure.
  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size()) [[unlikely]]
      return take_next(count);
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
  /// Returns the next `count` bytes. They share the owner if there is one and count is at least kSharedBytesMin;
  /// otherwise they are copied.
  Bytes take_shared(std::size_t count);
  /// Reads the number of elements that follow, each of at least `bytes_min` bytes. Fails and returns 0 if the bytes
  /// that are left cannot hold so many elements, so that no memory is allocated for elements that cannot follow.
  std::size_t read_count(std::size_t bytes_min = 1) {
    std::uint64_t count = 0;
    read(&count, sizeof count);
    if (count > left() / bytes_min) [[unlikely]] {
      fail(CodecFailure::kTruncated);
      return 0;
    }
    return static_cast<std::size_t>(count);
  }

  /// For Nested.
  void enter() {
    if (++depth_ > kNestingMax) [[unlikely]]
      fail(CodecFailure::kTooDeep);
  }
  void leave() { --depth_; }

  CodecContext* context() const { return context_; }
  void set_context(CodecContext* context) { context_ = context; }

 protected:
  /// Puts bytes in front of the Decoder's bytes, which move to `rest`. To be called before the first read; `rest` must
  /// outlive the Decoder.
  void precede(std::span<const std::byte> before, Part& rest) {
    rest = {bytes_, std::move(owner_)};
    in_parts_ = bytes_.size();
    parts_ = rest.bytes.empty() ? std::span<const Part>{} : std::span<const Part>{&rest, 1};
    bytes_ = before;
    owner_ = nullptr;
  }

 private:
  std::span<const std::byte> take_next(std::size_t count);

  std::span<const std::byte> bytes_;
  std::span<const Part> parts_;  // the parts after bytes_
  std::size_t in_parts_ = 0;     // number of bytes in parts_
  CodecFailure failure_ = CodecFailure::kNone;
  std::uint16_t depth_ = 0;
  CodecContext* context_ = nullptr;
  std::shared_ptr<const void> owner_;
};

}  // namespace pharos
