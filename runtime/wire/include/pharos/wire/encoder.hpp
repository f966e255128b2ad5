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

/// Collects the bytes of encoded arguments and results. Written bytes are copied to one growing buffer, but large Bytes
/// are not copied: the encoder remembers where they belong between the copied bytes. Belongs to one thread at a time.
///
/// With a LargeRoom (memory for large values), a value is encoded in a loop: `do Codec<T>::encode(value, encoder);
/// while (encoder.again());`. In the first pass, bytes after the first kInlineBytesMax are only counted. If there are
/// such bytes, a second pass writes the whole value into the room, which then has exactly the right size.
///
/// Failure: failed() is true after a value that cannot be encoded, for which the room has no memory (kNoRoom), or which
/// had another size in the second pass (kChanged). The first failure is kept until clear(). Without a room,
/// EncodedTooLarge is thrown for values above kEncodedBytesMax; clear() makes the Encoder usable again.
/// Owned by the code that encodes. The room and the context belong to others and must outlive their use here. End: the
/// destructor frees the Encoder's own buffer; memory of the room stays with the room.
class PHAROS_API Encoder {
 public:
  /// A contiguous part of the written bytes. If `shared` is null, the bytes belong to the encoder or its room.
  /// Otherwise a copy of `*shared` keeps them alive. Bytes of the encoder and all `shared` pointers are valid until the
  /// next write or clear().
  struct Segment {
    std::span<const std::byte> bytes;
    const Bytes* shared;
  };

  void write(const void* bytes, std::size_t count) {
    if (capacity_ - size_ < count && !enlarge(count)) [[unlikely]]
      return;
    if (count >= kLargeWriteMin && in_room_) [[unlikely]] {
      room_->write(begin_ + size_, bytes, count);
    } else if (count != 0) {  // with count 0 the pointer may be null, which memcpy does not allow
      std::memcpy(begin_ + size_, bytes, count);
    }
    size_ += count;
  }
  /// Writes bytes, without copying them if there are at least kSharedBytesMin.
  void write_shared(const Bytes& bytes) {
    if (bytes.size() < kSharedBytesMin) {
      write(bytes.data(), bytes.size());
    } else {
      add_shared(bytes);
    }
  }

  /// All written bytes. Aborts the process if has_shared() is true.
  std::span<const std::byte> bytes() const {
    if (!shared_.empty()) [[unlikely]]
      refuse_bytes();
    return {begin_, size_};
  }
  bool has_shared() const { return !shared_.empty(); }
  std::size_t size() const { return size_ + elsewhere_; }
  /// All written bytes in order, as parts that the sender puts together.
  std::vector<Segment> segments() const;
  /// Copies all written bytes to `to`, which must have room for size() bytes.
  void copy_to(std::byte* to) const {
    if (!has_shared()) [[likely]] {
      if (size_ != 0) std::memcpy(to, begin_, size_);
    } else {
      gather_to(to);
    }
  }
  std::vector<std::byte> flattened() const;

  /// Forgets the written bytes and a failure. Keeps the memory and the context.
  void clear() {
    size_ = 0;
    depth_ = 0;
    failure_ = CodecFailure::kNone;
    if (elsewhere_ != 0 || in_room_) [[unlikely]]
      come_back();
  }

  LargeRoom* large_room() const { return room_; }
  void set_large_room(LargeRoom* room) { room_ = room; }
  /// Returns true if the value is large and must be encoded once more, into the room. Returns false if the value is
  /// complete, if there is no room, and after a failure.
  bool again() { return size() > kInlineBytesMax && enter_room(); }
  /// Returns true if all written bytes are in the room.
  bool in_room() const { return in_room_; }

  /// Records that a value cannot be encoded. The written bytes are then incomplete and must not be sent.
  void fail(CodecFailure failure) {
    if (failure_ == CodecFailure::kNone) failure_ = failure;
  }
  bool failed() const { return failure_ != CodecFailure::kNone; }
  CodecFailure failure() const { return failure_; }

  /// For Nested.
  void enter() {
    if (++depth_ > kNestingMax) [[unlikely]]
      fail(CodecFailure::kTooDeep);
  }
  void leave() { --depth_; }

  CodecContext* context() const { return context_; }
  void set_context(CodecContext* context) { context_ = context; }

 private:
  struct Shared {
    std::size_t at;  // number of the encoder's own bytes before these
    Bytes bytes;
  };

  bool enlarge(std::size_t count);
  void add_shared(const Bytes& bytes);
  bool enter_room();
  void come_back();
  void gather_to(std::byte* to) const;
  [[noreturn]] void refuse_bytes() const;

  std::byte* begin_ = nullptr;  // begin of the encoder's own storage, or of the room
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  CodecFailure failure_ = CodecFailure::kNone;
  std::uint16_t depth_ = 0;
  bool in_room_ = false;
  std::vector<Shared> shared_;
  std::size_t elsewhere_ = 0;  // number of bytes that are shared, or only counted
  std::size_t longest_ = 0;    // size of the longest write among these
  CodecContext* context_ = nullptr;
  LargeRoom* room_ = nullptr;
  std::unique_ptr<std::byte[]> storage_;
  std::size_t storage_bytes_ = 0;
};

}  // namespace pharos
