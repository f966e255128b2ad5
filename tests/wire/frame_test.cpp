#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include <pharos/wire/frame.hpp>

namespace pharos::wire {
namespace {

// The format is final: programs of different builds exchange it.
TEST(FrameHeader, IsSixtyFourBytesWithEachFieldAtItsPlace) {
  EXPECT_EQ(sizeof(FrameHeader), 64u);
  EXPECT_TRUE(std::is_trivially_copyable_v<FrameHeader>);
  EXPECT_EQ(offsetof(FrameHeader, payload_bytes), 0u);
  EXPECT_EQ(offsetof(FrameHeader, kind), 4u);
  EXPECT_EQ(offsetof(FrameHeader, flags), 5u);
  EXPECT_EQ(offsetof(FrameHeader, attempt), 6u);
  EXPECT_EQ(offsetof(FrameHeader, status), 7u);
  EXPECT_EQ(offsetof(FrameHeader, caller), 8u);
  EXPECT_EQ(offsetof(FrameHeader, number), 16u);
  EXPECT_EQ(offsetof(FrameHeader, actor), 24u);
  EXPECT_EQ(offsetof(FrameHeader, incarnation), 32u);
  EXPECT_EQ(offsetof(FrameHeader, function), 36u);
  EXPECT_EQ(offsetof(FrameHeader, trace), 40u);
  EXPECT_EQ(offsetof(FrameHeader, time), 48u);
  EXPECT_EQ(offsetof(FrameHeader, acknowledged), 56u);
  EXPECT_EQ(sizeof(FrameHeader::payload_bytes), 4u);
  EXPECT_EQ(sizeof(FrameHeader::kind), 1u);
  EXPECT_EQ(sizeof(FrameHeader::status), 1u);
  EXPECT_EQ(sizeof(FrameHeader::incarnation), 4u);
  EXPECT_EQ(sizeof(FrameHeader::function), 4u);
}

TEST(FrameHeader, KindsStatusesAndFlagsKeepTheirNumbers) {
  EXPECT_EQ(static_cast<int>(FrameKind::kCall), 2);
  EXPECT_EQ(static_cast<int>(FrameKind::kReply), 3);
  EXPECT_EQ(static_cast<int>(FrameKind::kCancel), 4);
  EXPECT_EQ(static_cast<int>(FrameKind::kControl), 5);
  EXPECT_EQ(static_cast<int>(FrameKind::kRequest), 6);
  EXPECT_EQ(static_cast<int>(FrameKind::kResponse), 7);
  EXPECT_EQ(static_cast<int>(FrameKind::kAcknowledge), 8);
  EXPECT_EQ(static_cast<int>(FrameKind::kRetry), 9);
  EXPECT_EQ(static_cast<int>(FrameKind::kReceived), 10);
  EXPECT_EQ(static_cast<int>(FrameKind::kGiveBack), 11);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kOk), 0);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kError), 1);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kReturned), 2);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kTurnedAway), 3);
  EXPECT_EQ(kUnordered, 1);
}

TEST(FrameHeader, IsLittleEndian) {
  FrameHeader header;
  header.payload_bytes = 0x01020304;
  header.number = 0x1122334455667788;
  unsigned char bytes[sizeof header];
  std::memcpy(bytes, &header, sizeof header);
  EXPECT_EQ(bytes[0], 0x04);
  EXPECT_EQ(bytes[3], 0x01);
  EXPECT_EQ(bytes[16], 0x88);
  EXPECT_EQ(bytes[23], 0x11);
}

FrameHeader header_of(int kind, std::uint64_t payload_bytes) {
  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind);
  header.payload_bytes = static_cast<std::uint32_t>(payload_bytes);
  return header;
}

TEST(CheckOfAHeader, RefusesEveryKindThatDoesNotExist) {
  for (int kind = 0; kind < 256; ++kind) {
    const auto checked = check(header_of(kind, 0));
    EXPECT_EQ(checked.ok(), kind >= 2 && kind <= 11) << kind;
    if (!checked) {
      EXPECT_EQ(checked.error().code(), ErrorCode::kCorrupt);
      EXPECT_NE(checked.error().message().find("kind " + std::to_string(kind)), std::string::npos);
    }
  }
}

TEST(CheckOfAHeader, RefusesEveryStatusThatDoesNotExist) {
  for (int status = 0; status < 256; ++status) {
    FrameHeader header = header_of(static_cast<int>(FrameKind::kReply), 0);
    header.status = static_cast<ReplyStatus>(status);
    EXPECT_EQ(check(header).ok(), status <= 3) << status;
  }
}

TEST(CheckOfAHeader, RefusesAPayloadAboveTheBoundOfItsKind) {
  const auto allows = [](FrameKind kind, std::uint64_t bytes) {
    return check(header_of(static_cast<int>(kind), bytes)).ok();
  };
  for (const auto kind : {FrameKind::kCall, FrameKind::kReply}) {
    EXPECT_TRUE(allows(kind, std::uint64_t{1} << 30));
    EXPECT_FALSE(allows(kind, (std::uint64_t{1} << 30) + 1));
    EXPECT_FALSE(allows(kind, ~std::uint32_t{0}));
  }
  for (const auto kind : {FrameKind::kControl, FrameKind::kRequest, FrameKind::kResponse}) {
    EXPECT_TRUE(allows(kind, 4 << 20));
    EXPECT_FALSE(allows(kind, (4 << 20) + 1));
  }
  EXPECT_TRUE(allows(FrameKind::kCancel, 0));
  EXPECT_FALSE(allows(FrameKind::kCancel, 1));
  EXPECT_TRUE(allows(FrameKind::kRetry, 0));
  EXPECT_FALSE(allows(FrameKind::kRetry, 1));
  EXPECT_TRUE(allows(FrameKind::kReceived, 0));
  EXPECT_FALSE(allows(FrameKind::kReceived, 1));
  EXPECT_TRUE(allows(FrameKind::kGiveBack, 0));
  EXPECT_FALSE(allows(FrameKind::kGiveBack, 1));
}

TEST(CheckOfAHeader, SaysHowMuchWasClaimedAndHowMuchIsAllowed) {
  const auto checked = check(header_of(static_cast<int>(FrameKind::kControl), 5 << 20));
  EXPECT_NE(checked.error().message().find("5 MiB; at most 4 MiB"), std::string::npos) << checked.error().to_string();
}

}  // namespace
}  // namespace pharos::wire
