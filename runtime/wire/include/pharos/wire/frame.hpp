#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>

namespace pharos::wire {

/// Both sides of a connection must speak the same one; the hello says which.
inline constexpr std::uint32_t kProtocolVersion = 1;

enum class FrameKind : std::uint8_t {
  kCall = 2,         ///< a method call or a task: arguments
  kReply = 3,        ///< the result, or an encoded error
  kCancel = 4,       ///< the call of this number is wanted no more
  kControl = 5,      ///< a control message (message.hpp) that asks for no answer
  kRequest = 6,      ///< a control message that does
  kResponse = 7,     ///< its answer, under the same number
  kAcknowledge = 8,  ///< of replies; the payload is a list of more numbers, 8 bytes each
  kRetry = 9,        ///< run the call of this number, which follows, again for what `function` lists, up to `attempt`
  kReceived = 10,    ///< the receiver of this reply has told its node of the actors that it carries
  kGiveBack = 11,    ///< of tasks: what has not begun may run elsewhere sooner
};

/// How a call ended, in a reply.
enum class ReplyStatus : std::uint8_t {
  kOk = 0,
  kError = 1,       ///< the payload is an encoded Error
  kReturned = 2,    ///< not begun, and the caller may run it elsewhere: the task that runs here waits, or takes long
  kTurnedAway = 3,  ///< not begun, and nothing that comes later will be: the worker is to end
};

enum FrameFlags : std::uint8_t {
  kNoFlags = 0,
  kUnordered = 1,      ///< may overtake earlier calls of its caller
  kByName = 2,         ///< the payload begins with the function's name: caller and callee are different programs
  kInPieces = 4,       ///< the payload begins with a list of objects, whose bytes belong between the others
  kCarriesActors = 8,  ///< a reply; before anything else its payload lists the actors that the result has handles of
  kMayRunAgain = 16,   ///< a task; its caller sends it again where the worker dies
};

/// What goes before every payload, on Unix sockets and TCP alike. Little-endian, as it lies in memory.
struct FrameHeader {
  std::uint32_t payload_bytes = 0;
  FrameKind kind{};
  std::uint8_t flags = kNoFlags;
  std::uint8_t attempt = 0;  ///< 0 the first time that a call is sent to be run, then one more for each retry
  ReplyStatus status = ReplyStatus::kOk;
  std::uint64_t caller = 0;  ///< CallerId, by which numbers are counted
  std::uint64_t number = 0;  ///< of this caller's calls; rises from each to the next to one callee. a reply repeats it
  std::uint64_t actor = 0;   ///< ActorId, or 0 for a task
  std::uint32_t incarnation = 0;
  std::uint32_t function = 0;      ///< index in the sorted table of the build that both sides are
  std::uint64_t trace = 0;         ///< TraceId of the call tree
  std::int64_t time = 0;           ///< call: nanoseconds left before its deadline, 0 for none. reply: how long it ran
  std::uint64_t acknowledged = 0;  ///< call: the replies to all numbers below this have come
};
static_assert(sizeof(FrameHeader) == 64);

/// Above this a payload is refused before anything is allocated for it.
inline constexpr ByteCount kCallPayloadMax{std::uint64_t{1} << 30};
inline constexpr ByteCount kControlPayloadMax{std::uint64_t{4} << 20};
inline constexpr ByteCount kAcknowledgePayloadMax{std::uint64_t{64} << 10};

/// What a payload of this header may claim, by its kind; an error when the header makes no sense.
Result<void> check(const FrameHeader& header);

/// One received frame. The payload lies in the receive buffer and is valid as long as the FrameView's batch is.
struct FrameView {
  FrameHeader header;
  std::span<const std::byte> payload;
};

}  // namespace pharos::wire
