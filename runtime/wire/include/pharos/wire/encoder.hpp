#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/wire/bytes.hpp>
#include <pharos/wire/codec_limits.hpp>

namespace pharos {

/// Bytes that grow at the end: arguments and results on their way out. What is written is copied to one piece of
/// memory; large Bytes stay where they are and are woven in between. Not shared between threads.
/// With a room for large values, a value is encoded in a loop: `do Codec<T>::encode(value, encoder); while
/// (encoder.again());`. The first time round, what comes after kInlineBytesMax is only counted; if there was such, the
/// second time everything is written into the room, which has the right size.
class PHAROS_API Encoder {
 public:
  /// A stretch of what was written. `shared` is null where the bytes are the encoder's own, which stay until the next
  /// write or clear(); otherwise it says who keeps them.
  struct Segment {
    std::span<const std::byte> bytes;
    const Bytes* shared;
  };

  void write(const void* bytes, std::size_t count) {
    if (capacity_ - size_ < count && !enlarge(count)) [[unlikely]]
      return;
    if (count >= kLargeWriteMin && in_room_) [[unlikely]] {
      room_->write(begin_ + size_, bytes, count);
    } else if (count != 0) {  // an empty view may point nowhere
      std::memcpy(begin_ + size_, bytes, count);
    }
    size_ += count;
  }
  /// Writes bytes without copying them, if they are many.
  void write_shared(const Bytes& bytes) {
    if (bytes.size() < kSharedBytesMin) {
      write(bytes.data(), bytes.size());
    } else {
      add_shared(bytes);
    }
  }

  /// Everything, where nothing is shared.
  std::span<const std::byte> bytes() const {
    if (!shared_.empty()) [[unlikely]]
      refuse_bytes();
    return {begin_, size_};
  }
  bool has_shared() const { return !shared_.empty(); }
  std::size_t size() const { return size_ + elsewhere_; }
  /// Everything, in order, to be gathered by the sender.
  std::vector<Segment> segments() const;
  /// Copies everything to `to`, where there is room for size().
  void copy_to(std::byte* to) const {
    if (!has_shared()) [[likely]] {
      if (size_ != 0) std::memcpy(to, begin_, size_);
    } else {
      gather_to(to);
    }
  }
  std::vector<std::byte> flattened() const;

  /// Forgets what was written and that it failed; keeps its memory and its context.
  void clear() {
    size_ = 0;
    depth_ = 0;
    failure_ = CodecFailure::kNone;
    if (elsewhere_ != 0 || in_room_) [[unlikely]]
      come_back();
  }

  LargeRoom* large_room() const { return room_; }
  void set_large_room(LargeRoom* room) { room_ = room; }
  /// The value is large: it must be encoded once more, into the room.
  bool again() { return size() > kInlineBytesMax && enter_room(); }
  /// What was written is in the room, all of it.
  bool in_room() const { return in_room_; }

  /// A value that cannot be encoded: what was written is worthless, and must not be sent.
  void fail(CodecFailure failure) {
    if (failure_ == CodecFailure::kNone) failure_ = failure;
  }
  bool failed() const { return failure_ != CodecFailure::kNone; }
  CodecFailure failure() const { return failure_; }

  void enter() {
    if (++depth_ > kNestingMax) [[unlikely]]
      fail(CodecFailure::kTooDeep);
  }
  void leave() { --depth_; }

  CodecContext* context() const { return context_; }
  void set_context(CodecContext* context) { context_ = context; }

 private:
  struct Shared {
    std::size_t at;  // how many of the encoder's own bytes come before
    Bytes bytes;
  };

  bool enlarge(std::size_t count);
  void add_shared(const Bytes& bytes);
  bool enter_room();
  void come_back();
  void gather_to(std::byte* to) const;
  [[noreturn]] void refuse_bytes() const;

  std::byte* begin_ = nullptr;  // of the encoder's own storage, or of the room
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  CodecFailure failure_ = CodecFailure::kNone;
  std::uint16_t depth_ = 0;
  bool in_room_ = false;
  std::vector<Shared> shared_;
  std::size_t elsewhere_ = 0;  // bytes that are shared, or only counted
  std::size_t longest_ = 0;    // piece of these
  CodecContext* context_ = nullptr;
  LargeRoom* room_ = nullptr;
  std::unique_ptr<std::byte[]> storage_;
  std::size_t storage_bytes_ = 0;
};

}  // namespace pharos
