#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include <pharos/base/export.hpp>

namespace pharos {

/// Why a value could not be encoded or decoded.
enum class CodecFailure : std::uint8_t {
  kNone,
  kTruncated,  ///< the bytes end before the value ends, or claim more elements than they can hold
  kInvalid,    ///< not a value of the type: a bool of 2, a key that comes twice, a variant without a value
  kTooDeep,    ///< values are nested deeper than kNestingMax
  kNoRoom,     ///< the value is large, and the LargeRoom has no memory for it
  kChanged,    ///< a large value had another size when it was encoded the second time
};
PHAROS_API std::string_view to_string(CodecFailure failure);

/// How deep values may be nested through unique_ptr and containers. It bounds the use of the stack, even for bytes from
/// a malicious sender. A longer linked list must travel as a vector.
inline constexpr std::uint16_t kNestingMax = 256;

/// The largest encoded value in an Encoder without a LargeRoom, not counting shared Bytes. The Encoder throws
/// EncodedTooLarge before it allocates memory for more. A LargeRoom sets its own limit. The limit of one message is
/// lower.
inline constexpr std::size_t kEncodedBytesMax = std::size_t{2} << 30;

/// Thrown when a value has more than kEncodedBytesMax bytes and its Encoder has no LargeRoom. The Encoder must be
/// cleared before it is used again.
class PHAROS_API EncodedTooLarge : public std::length_error {
 public:
  explicit EncodedTooLarge(std::size_t bytes);
};

/// Bytes of at least this size are sent and received in place; smaller ones are cheaper to copy.
inline constexpr std::size_t kSharedBytesMin = 4096;

/// Values with more encoded bytes than this are not part of a message. They are in the object store, if there is one.
inline constexpr std::size_t kInlineBytesMax = 100 << 10;

/// Single writes of at least so many bytes are copied by the LargeRoom, which may use several threads.
inline constexpr std::size_t kLargeWriteMin = std::size_t{4} << 20;

class Bytes;

/// Provides the memory for encoded values that are larger than kInlineBytesMax, for example in the object store. Owned
/// by the code that sets it in an Encoder, and used by the Encoder's thread only. The room must live as long as the
/// Encoder uses it; the Encoder's destructor does not touch it. ObjectRoom implements it.
class LargeRoom {
 public:
  /// Provides memory for a value of `bytes` bytes. `longest` is the size of the longest single write. Returns null if
  /// there is no memory; the Encoder then fails with kNoRoom, and the implementation knows the reason. The memory stays
  /// in place until the next call of make(), or until the owner takes the value out of the room.
  virtual std::byte* make(std::size_t bytes, std::size_t longest) = 0;
  /// Copies at least kLargeWriteMin bytes to a place in that memory.
  virtual void write(std::byte* to, const void* from, std::size_t count) = 0;
  /// Returns true if these large Bytes are in the object store already and need not be written. The receiver is then
  /// told that they belong after the first `at` bytes of the value. Called in each pass over the value, also for a
  /// value that turns out to be small.
  virtual bool has(const Bytes&, std::size_t /*at*/) { return false; }

 protected:
  ~LargeRoom() = default;
};

/// The surroundings that the codecs of handles (Ref, Actor) need. Defined in the module actors.
class CodecContext;

/// Counts one level of nesting in an Encoder or Decoder during its own lifetime. When there are more than kNestingMax
/// levels, the coder only records kTooDeep. So code that encodes must ask failed() before it goes deeper.
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
