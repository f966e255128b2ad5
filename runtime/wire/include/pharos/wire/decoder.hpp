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

/// Bytes that arrived. Every read is checked against what is left; after one that asks for more, `failed()` stays true
/// and every later read gives zeros, so that a decoder of many fields may look once, at the end.
class PHAROS_API Decoder {
 public:
  /// Bytes that lie together, and what keeps them alive, if they are to be shared with values.
  struct Part {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  /// With an owner, which keeps `bytes` alive, large Bytes are shared with it instead of copied.
  explicit Decoder(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr)
      : bytes_{bytes}, owner_{std::move(owner)} {}
  /// Of bytes that lie in several places, none of them empty. A value lies in one part.
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

  /// The next `count` bytes, in place; empty after a failure.
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
  /// The next `count` bytes, shared with the owner where there is one and they are many.
  Bytes take_shared(std::size_t count);
  /// How many elements follow, each of at least `bytes_min` bytes. Zero, and a failure, if there is no room for them:
  /// so nothing is allocated for elements that cannot come.
  std::size_t read_count(std::size_t bytes_min = 1) {
    std::uint64_t count = 0;
    read(&count, sizeof count);
    if (count > left() / bytes_min) [[unlikely]] {
      fail(CodecFailure::kTruncated);
      return 0;
    }
    return static_cast<std::size_t>(count);
  }

  void enter() {
    if (++depth_ > kNestingMax) [[unlikely]]
      fail(CodecFailure::kTooDeep);
  }
  void leave() { --depth_; }

  CodecContext* context() const { return context_; }
  void set_context(CodecContext* context) { context_ = context; }

 protected:
  /// Before anything is read: these come before what is there, which moves to `rest`.
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
  std::span<const Part> parts_;  // that come after
  std::size_t in_parts_ = 0;     // bytes
  CodecFailure failure_ = CodecFailure::kNone;
  std::uint16_t depth_ = 0;
  CodecContext* context_ = nullptr;
  std::shared_ptr<const void> owner_;
};

}  // namespace pharos
