#include <string>

#include <pharos/wire/frame.hpp>

namespace pharos::wire {
namespace {

Error bad(std::string what) {
  return {ErrorCode::kCorrupt, "received an invalid frame: " + std::move(what),
          "The peer is not a Pharos process of this version, or is broken; the connection is closed."};
}

}  // namespace

Result<void> check(const FrameHeader& header) {
  ByteCount most = kCallPayloadMax;
  switch (header.kind) {
    case FrameKind::kCall:
    case FrameKind::kReply: break;
    case FrameKind::kCancel:
    case FrameKind::kRetry:
    case FrameKind::kReceived:
    case FrameKind::kGiveBack: most = ByteCount{0}; break;
    case FrameKind::kAcknowledge: most = kAcknowledgePayloadMax; break;
    case FrameKind::kControl:
    case FrameKind::kRequest:
    case FrameKind::kResponse: most = kControlPayloadMax; break;
    default: return bad("kind " + std::to_string(static_cast<int>(header.kind)));
  }
  if (header.payload_bytes > most.bytes()) {
    return bad("a payload of " + to_string(ByteCount{header.payload_bytes}) + "; at most " + to_string(most) +
               " are allowed");
  }
  if (header.status > ReplyStatus::kTurnedAway) {
    return bad("status " + std::to_string(static_cast<int>(header.status)));
  }
  return {};
}

}  // namespace pharos::wire
