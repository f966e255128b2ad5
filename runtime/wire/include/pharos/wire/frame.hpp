#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>

namespace pharos::wire {

/// The version of the protocol. Both sides of a connection must have the same version; the handshake compares them.
inline constexpr std::uint32_t kProtocolVersion = 1;

/// The kinds of frames. The comments name the fields of the FrameHeader that have a special meaning.
enum class FrameKind : std::uint8_t {
  kCall = 2,         ///< a method call or a task; the payload has the arguments
  kReply = 3,        ///< the answer to a call: the result, or an encoded error
  kCancel = 4,       ///< the caller no longer wants the result of the call `number`
  kControl = 5,      ///< a control message (message.hpp) without an answer
  kRequest = 6,      ///< a control message with an answer
  kResponse = 7,     ///< the answer to a request, with the same number
  kAcknowledge = 8,  ///< replies have arrived: all below `acknowledged`, and the numbers in the payload (8 bytes each)
  /// Sent before the call `number`: the worker runs the call again after an exception of a type in the list `function`
  /// (an index), until the attempt with the number `attempt`.
  kRetry = 9,
  kReceived = 10,  ///< the caller owns the object and has told its node of the actors that came with reply `number`
  kGiveBack = 11,  ///< for task workers: return the tasks that have not begun, because they may run sooner elsewhere
};

/// How a call ended, in a reply.
enum class ReplyStatus : std::uint8_t {
  kOk = 0,
  kError = 1,       ///< the payload is an encoded Error
  kReturned = 2,    ///< not begun; the caller may run it elsewhere, because this worker's present task waits or is long
  kTurnedAway = 3,  ///< not begun; the worker is about to end and begins no more calls
};

/// Bits of FrameHeader::flags.
enum FrameFlags : std::uint8_t {
  kNoFlags = 0,
  kUnordered = 1,      ///< the call may overtake earlier calls of its caller
  kInPieces = 4,       ///< the payload begins with a list of objects, whose bytes belong between the payload's bytes
  kCarriesActors = 8,  ///< a reply; the payload begins with a list of the actors whose handles are in the result
  kMayRunAgain = 16,   ///< a task; its caller sends it again if the worker dies
  /// A call whose result nobody wants. A reply with this flag says that all one-way calls from number `acknowledged` to
  /// `number` have run without an error.
  kOneWay = 32,
};

/// Stands in place of a function's index in a call by which a caller of another build asks an actor for the index of a
/// method. The payload has the name and the declaration of the method. The result is the index, which the caller's next
/// calls use; or the error kFunctionNotFound, with the methods that there are.
inline constexpr std::uint32_t kFindMethod = ~std::uint32_t{0} - 1;

/// How often a call may be run again, in one byte. A count without a limit stays larger than the number of any attempt.
inline constexpr std::uint8_t kRetriesMax = 254;
inline constexpr std::uint8_t kAlwaysRetried = 255;
/// Returns that byte for what a program asks: a negative number means always.
constexpr std::uint8_t retries_of(std::int32_t asked) {
  return asked < 0 ? kAlwaysRetried : static_cast<std::uint8_t>(std::min<std::int32_t>(asked, kRetriesMax));
}
/// Returns the number of the attempt that follows. Beyond kRetriesMax attempts are not told apart.
constexpr std::uint8_t next_attempt(std::uint8_t attempt) {
  return attempt < kRetriesMax ? static_cast<std::uint8_t>(attempt + 1) : attempt;
}

/// The header of every frame, on Unix sockets and on TCP. Sent exactly as it is in memory, little-endian.
struct FrameHeader {
  std::uint32_t payload_bytes = 0;
  FrameKind kind{};
  std::uint8_t flags = kNoFlags;
  std::uint8_t attempt = 0;  ///< 0 when a call is first sent to be run, then one more for each retry
  ReplyStatus status = ReplyStatus::kOk;
  std::uint64_t caller = 0;  ///< CallerId; each caller numbers its own calls
  std::uint64_t number = 0;  ///< number of the call, which rises with each call to one callee; a reply repeats it
  std::uint64_t actor = 0;   ///< ActorId, or 0 for a task
  std::uint32_t incarnation = 0;
  std::uint32_t function = 0;  ///< index in the function table of the callee's program, or kFindMethod
  std::uint64_t trace = 0;     ///< TraceId of the call tree
  std::int64_t time = 0;       ///< call: nanoseconds left until its deadline, 0 for none; reply: duration of the call
  std::uint64_t acknowledged = 0;  ///< call: the replies to all lower numbers have arrived; reply: see kOneWay
};
static_assert(sizeof(FrameHeader) == 64);

/// Limits of a frame's payload. A larger payload is refused before memory is allocated for it.
inline constexpr ByteCount kCallPayloadMax{std::uint64_t{1} << 30};
inline constexpr ByteCount kControlPayloadMax{std::uint64_t{4} << 20};
inline constexpr ByteCount kAcknowledgePayloadMax{std::uint64_t{64} << 10};

/// Checks a received header: its kind, its status, and the size of its payload, which is limited by the kind. Returns
/// kCorrupt if the header makes no sense; net::FrameReader calls this function, and the connection then ends. The other
/// fields are not checked here. Any thread.
Result<void> check(const FrameHeader& header);

/// One received frame. The payload is in the receive buffer, and valid as long as the batch from which the frame came.
struct FrameView {
  FrameHeader header;
  std::span<const std::byte> payload;
};

}  // namespace pharos::wire
