// The connections of rank 0 to two other ranks, which the test plays.

#include "stream/peer_sockets.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "no_descriptors.hpp"
#include "played_rank.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using MessageKind = StreamMessage::Kind;

constexpr std::size_t kMoreThanASocketTakes = 8 << 20;

class PeerSocketsTest : public testing::Test {
 protected:
  struct Came {
    std::uint32_t rank;
    std::uint32_t stream;
    std::uint64_t number;
    std::string bytes;
    bool operator==(const Came&) const = default;
  };
  /// Keeps what comes, unless it is to refuse it.
  class Keeper final : public Stream::Receiver {
   public:
    Keeper(PeerSocketsTest& test, std::uint32_t rank, std::uint32_t stream)
        : test_{test}, rank_{rank}, stream_{stream} {}
    Result<std::byte*> place(const StreamMessage& message) override {
      if (test_.refuses) return Error{ErrorCode::kCorrupt, "nobody waits for that"};
      bytes_.resize(message.bytes);
      return reinterpret_cast<std::byte*>(bytes_.data());
    }
    void came(const StreamMessage& message) override {
      test_.came.push_back({rank_, stream_, message.number, std::exchange(bytes_, {})});
    }

   private:
    PeerSocketsTest& test_;
    const std::uint32_t rank_;
    const std::uint32_t stream_;
    std::string bytes_;
  };

  Result<void> start(PeerSockets& some) {
    return some.start(
        [this](std::uint32_t rank, std::uint32_t stream) { return std::make_unique<Keeper>(*this, rank, stream); });
  }
  void SetUp() override { ASSERT_TRUE(start(*sockets)); }

  static StreamMessage message(std::uint64_t number, std::size_t bytes = 0) {
    return {.kind = MessageKind::kData, .number = number, .bytes = bytes};
  }
  static std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span{text}); }
  static TimePoint in(Duration time) { return std::chrono::steady_clock::now() + time; }
  /// Serves once. Something must come within 20 s.
  std::optional<PeerSockets::Lost> serve() {
    const TimePoint when = in(20s);
    auto lost = sockets->serve(when, [] { return true; });
    EXPECT_LT(std::chrono::steady_clock::now(), when) << "nothing has come";
    return lost;
  }

  bool refuses = false;
  std::vector<Came> came;
  std::vector<Connections> connections = connections_of(3);
  std::optional<PeerSockets> sockets{std::in_place, std::move(connections[0]), 0};
  PlayedRank first{std::move(connections[1][0])};
  PlayedRank second{std::move(connections[2][0])};
};

// ---- Starting

TEST_F(PeerSocketsTest, SayThatTheyCouldNotBeMade) {
  std::vector<Connections> others = connections_of(2);
  std::optional<PeerSockets> some;
  {
    const NoDescriptors none;
    some.emplace(std::move(others[0]), 0);
  }
  EXPECT_EQ(::close(-1), -1);  // another error since then
  const auto started = start(*some);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), ErrorCode::kExhausted) << started.error().to_string();
}

TEST_F(PeerSocketsTest, SayThatAConnectionCannotBeWatched) {
  std::vector<Connections> others = connections_of(2);
  others[0][1][1] = Fd{::memfd_create("no socket", MFD_CLOEXEC)};
  PeerSockets some{std::move(others[0]), 0};
  const auto started = start(some);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), ErrorCode::kPermissionDenied) << started.error().to_string();
}

// ---- Receiving

TEST_F(PeerSocketsTest, GiveWhatComesToTheReceiverOfItsConnection) {
  first.say(message(1), bytes_of("one"), 0);
  first.say(message(2), bytes_of("two"), 1);
  second.say(message(3), bytes_of("three"), 0);
  while (came.size() < 3 && !HasFailure()) ASSERT_FALSE(serve());
  std::sort(came.begin(), came.end(), [](const Came& a, const Came& b) { return a.number < b.number; });
  EXPECT_EQ(came, (std::vector<Came>{{1, 0, 1, "one"}, {1, 1, 2, "two"}, {2, 0, 3, "three"}}));
}

TEST_F(PeerSocketsTest, ServeUntilTheTimeIsOver) {
  const TimePoint when = in(30ms);
  EXPECT_FALSE(sockets->serve(when, [] { return true; }));
  EXPECT_GE(std::chrono::steady_clock::now(), when);
}

TEST_F(PeerSocketsTest, ReadOnlyWhileTheyAreToGoOn) {
  for (PlayedRank* const each : {&first, &second}) each->say(message(1));
  EXPECT_FALSE(sockets->serve(in(20s), [] { return false; }));
  EXPECT_TRUE(came.empty());
  EXPECT_FALSE(sockets->serve(in(20s), [&] { return came.empty(); }));
  EXPECT_EQ(came.size(), 1U);
  EXPECT_FALSE(serve());
  EXPECT_EQ(came.size(), 2U);
}

TEST_F(PeerSocketsTest, WakeOnAnyThread) {
  std::jthread other{[&] { sockets->wake(); }};
  EXPECT_FALSE(serve());
  const TimePoint when = in(30ms);
  EXPECT_FALSE(sockets->serve(when, [] { return true; }));
  EXPECT_GE(std::chrono::steady_clock::now(), when) << "one call of wake() wakes once";
}

TEST_F(PeerSocketsTest, NameTheRankWhoseMessagesTheReceiverRefuses) {
  refuses = true;
  second.say(message(1));
  const auto lost = serve();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 2U);
  EXPECT_EQ(lost->why.message(), "nobody waits for that");
}

TEST_F(PeerSocketsTest, NameTheRankWhoseConnectionEnds) {
  second.close(1);
  const auto lost = serve();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 2U);
  EXPECT_EQ(lost->why.code(), ErrorCode::kUnavailable);
}

TEST_F(PeerSocketsTest, CloseAConnectionWhoseEndIsExpected) {
  EXPECT_FALSE(sockets->expects_end(2, 1));
  sockets->expect_end(2, 1);
  EXPECT_TRUE(sockets->expects_end(2, 1));
  EXPECT_FALSE(sockets->expects_end(2, 0));
  EXPECT_FALSE(sockets->expects_end(1, 1));
  EXPECT_TRUE(sockets->is_open(2, 1));
  second.close(1);
  EXPECT_FALSE(serve());
  EXPECT_FALSE(sockets->is_open(2, 1));
  EXPECT_TRUE(sockets->is_open(2, 0));
  bool was_sent = false;
  sockets->send(2, 1, message(1), nullptr, [&] { was_sent = true; });
  EXPECT_FALSE(sockets->write_all());
  EXPECT_FALSE(was_sent) << "a message to a closed connection is dropped";
  EXPECT_EQ(sockets->bytes_sent(), 0U);
}

// ---- Sending

TEST_F(PeerSocketsTest, SendByTheConnectionThatIsNamedAndCountTheBytes) {
  const std::string text = "some data";
  int sent = 0;
  sockets->send(1, 0, message(1, text.size()), bytes_of(text).data(), [&] { ++sent; });
  sockets->send(2, 1, message(2), nullptr, [&] { ++sent; });
  EXPECT_EQ(sent, 0) << "it is only queued";
  EXPECT_FALSE(sockets->write_all());
  EXPECT_EQ(sent, 2);
  EXPECT_EQ(first.next()->bytes, text);
  EXPECT_EQ(second.next(1)->message.number, 2U);
  EXPECT_FALSE(first.has_come(1));
  EXPECT_FALSE(second.has_come(0));
  EXPECT_EQ(sockets->bytes_sent(), 2 * sizeof(StreamMessage) + text.size());
}

TEST_F(PeerSocketsTest, SendToAllByAllConnections) {
  sockets->send_to_all(message(7));
  EXPECT_FALSE(sockets->write_all());
  for (PlayedRank* const each : {&first, &second}) {
    for (const std::uint32_t stream : {0U, 1U}) EXPECT_EQ(each->next(stream)->message.number, 7U);
  }
}

TEST_F(PeerSocketsTest, SendAsFarAsPossibleAndLetTheBytesChangeOnceAllAreSent) {
  const std::vector<std::byte> data(kMoreThanASocketTakes, std::byte{3});
  bool was_sent = false;
  sockets->send(1, 0, message(1, data.size()), data.data(), [&] { was_sent = true; });
  EXPECT_FALSE(sockets->write_all());
  EXPECT_GT(sockets->bytes_sent(), 0U);
  EXPECT_FALSE(was_sent);
  std::jthread reader{[&] { EXPECT_EQ(first.next()->bytes, std::string(data.size(), 3)); }};
  while (!was_sent && !HasFailure()) {
    ASSERT_FALSE(serve()) << "it returns when the connection takes more";
    ASSERT_FALSE(sockets->write_all());
  }
}

TEST_F(PeerSocketsTest, NameTheRankToWhichNothingCanBeSentAndKeepTheConnection) {
  second.close(0);
  sockets->send(1, 0, message(1));
  sockets->send(2, 0, message(2));
  std::optional<PeerSockets::Lost> lost;
  for (int turn = 0; turn < 3 && !lost; ++turn) lost = sockets->write_all();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 2U);
  EXPECT_SAYS(lost->why.message(), "Broken pipe");
  EXPECT_TRUE(sockets->is_open(2, 0));
}

TEST_F(PeerSocketsTest, SendOnlyATextAndTheRestOfAMessageThatHasBegun) {
  const std::vector<std::byte> data(kMoreThanASocketTakes, std::byte{3});
  bool was_sent = false;
  int dropped = 0;
  sockets->send(1, 0, message(1, data.size()), data.data(), [&] { was_sent = true; });
  EXPECT_FALSE(sockets->write_all());
  sockets->send(1, 0, message(2), nullptr, [&] { ++dropped; });
  sockets->send(2, 1, message(3), nullptr, [&] { ++dropped; });
  const std::string why = "the loss is not a number";
  sockets->send_only({.kind = MessageKind::kFailed, .number = 4}, why);
  std::jthread reader{[&] {
    EXPECT_EQ(first.next()->bytes.size(), data.size());
    EXPECT_EQ(first.next()->bytes, why);
  }};
  while (sockets->bytes_sent() < data.size() + 5 * sizeof(StreamMessage) + 4 * why.size()) {
    ASSERT_FALSE(sockets->write_all());
    ASSERT_FALSE(sockets->serve(in(1ms), [] { return true; }));
  }
  reader.join();
  EXPECT_TRUE(was_sent);
  EXPECT_EQ(first.next(1)->message.number, 4U);
  for (const std::uint32_t stream : {0U, 1U}) {
    EXPECT_EQ(second.next(stream)->bytes, why);
    EXPECT_FALSE(second.has_come(stream));
  }
  EXPECT_EQ(dropped, 0);
}

TEST_F(PeerSocketsTest, SendNoMoreThanTheyMayInASecond) {
  constexpr std::uint64_t kBytesPerSecond = 10'000'000;
  const std::vector<std::byte> data(kBytesPerSecond / 20);
  std::vector<Connections> others = connections_of(2);
  PlayedRank other{std::move(others[1][0])};
  const TimePoint begin = in(0s);
  PeerSockets some{std::move(others[0]), kBytesPerSecond};
  ASSERT_TRUE(start(some));
  bool was_sent = false;
  some.send(1, 0, message(1, data.size()), data.data(), [&] { was_sent = true; });
  std::jthread reader{[&] { EXPECT_TRUE(other.next()); }};
  while (!was_sent) {
    ASSERT_FALSE(some.serve(std::nullopt, [] { return true; })) << "it returns when more may be sent";
    ASSERT_FALSE(some.write_all());
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 50ms);
}

// ---- Ending

TEST_F(PeerSocketsTest, CloseTheConnectionsAndDropWhatIsQueuedAtTheirEnd) {
  bool was_sent = false;
  sockets->send(1, 0, message(1), nullptr, [&] { was_sent = true; });
  sockets.reset();
  EXPECT_FALSE(was_sent);
  for (PlayedRank* const each : {&first, &second}) {
    for (const std::uint32_t stream : {0U, 1U}) EXPECT_FALSE(each->next(stream));
  }
}

TEST_F(PeerSocketsTest, SayFarewellDropWhatComesAndClose) {
  sockets->send_to_all(message(9));
  first.say(message(1));
  sockets->say_farewell();
  EXPECT_TRUE(came.empty());
  for (const std::uint32_t stream : {0U, 1U}) {
    EXPECT_FALSE(sockets->is_open(1, stream));
    EXPECT_FALSE(sockets->is_open(2, stream));
    for (PlayedRank* const each : {&first, &second}) {
      const auto last = each->next(stream);
      ASSERT_TRUE(last);
      EXPECT_EQ(last->message.number, 9U);
      EXPECT_FALSE(each->next(stream)) << "the connection has ended";
    }
  }
}

TEST_F(PeerSocketsTest, SayFarewellForAShortTimeToARankThatTakesNothing) {
  const std::vector<std::byte> data(kMoreThanASocketTakes);
  bool was_sent = false;
  sockets->send(1, 0, message(1, data.size()), data.data(), [&] { was_sent = true; });
  const TimePoint begin = in(0s);
  sockets->say_farewell();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, 10s);
  EXPECT_FALSE(was_sent);
  EXPECT_FALSE(sockets->is_open(1, 0));
}

TEST_F(PeerSocketsTest, SayFarewellAsFastAsTheyCan) {
  std::vector<Connections> others = connections_of(2);
  PlayedRank other{std::move(others[1][0])};
  PeerSockets some{std::move(others[0]), 1};
  ASSERT_TRUE(start(some));
  some.send(1, 0, message(1));
  some.say_farewell();
  EXPECT_TRUE(other.next());
}

}  // namespace
}  // namespace pharos::ml
