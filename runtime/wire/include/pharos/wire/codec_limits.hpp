#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include <pharos/base/export.hpp>

namespace pharos {

/// What is said when bytes cannot be made of a value, or a value of bytes.
enum class CodecFailure : std::uint8_t {
  kNone,
  kTruncated,  ///< the bytes end before the value does, or claim more elements than they can hold
  kInvalid,    ///< no value of the type looks like that: a bool of 2, a key twice, a variant without a value
  kTooDeep,    ///< values inside each other beyond kNestingMax
  kNoRoom,     ///< a large value, and no room for it
  kChanged,    ///< a large value had another size when it was encoded the second time
};
PHAROS_API std::string_view to_string(CodecFailure failure);

/// How deep values may lie in each other through unique_ptr and containers: a bound on the stack, whoever wrote the
/// bytes. A list of more nodes travels as a vector.
inline constexpr std::uint16_t kNestingMax = 256;

/// More is not encoded at all, shared Bytes aside: EncodedTooLarge is thrown before memory is taken for it. What may
/// travel is less.
inline constexpr std::size_t kEncodedBytesMax = std::size_t{2} << 30;

class PHAROS_API EncodedTooLarge : public std::length_error {
 public:
  explicit EncodedTooLarge(std::size_t bytes);
};

/// Bytes of at least this size are sent and received in place; smaller ones are cheaper to copy.
inline constexpr std::size_t kSharedBytesMin = 4096;

/// Values of more encoded bytes than this are no part of a message: they lie in the object store, where there is one.
inline constexpr std::size_t kInlineBytesMax = 100 << 10;

/// So many bytes in one piece are copied by the room.
inline constexpr std::size_t kLargeWriteMin = std::size_t{4} << 20;

class Bytes;

/// Where a value is encoded to that is larger than kInlineBytesMax.
class LargeRoom {
 public:
  /// Memory for a value of so many bytes, which is written once, the longest piece of it by `longest` bytes. Null:
  /// there is none, and whoever made this knows why.
  virtual std::byte* make(std::size_t bytes, std::size_t longest) = 0;
  /// Copies many bytes (kLargeWriteMin) to a place in that memory.
  virtual void write(std::byte* to, const void* from, std::size_t count) = 0;
  /// Large Bytes may lie there already: true if they need not be written, since whoever reads the value will be shown
  /// that they belong after its first `at` bytes.
  virtual bool has(const Bytes&, std::size_t /*at*/) { return false; }

 protected:
  ~LargeRoom() = default;
};

/// What codecs of handles (Ref, Actor) need to know of the program around them. Defined above this module.
class CodecContext;

/// Counts one value inside another for as long as it lives.
template <class Coder>
class Nested {
 public:
  explicit Nested(Coder& coder) : coder_{coder} { coder_.enter(); }
  ~Nested() { coder_.leave(); }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Coder& coder_;
};

}  // namespace pharos
