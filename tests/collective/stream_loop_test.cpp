// The thread of a StreamBackend, without a backend: the test is the owner, and plays the other ranks.

#include "stream/stream_loop.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "no_descriptors.hpp"
#include "played_rank.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using MessageKind = StreamMessage::Kind;

/// A rank with a thread of its own, and with what its StreamLoop needs.
class LoopingRank {
 public:
  /// `heard` is called on the rank's thread when its owner is told something.
  LoopingRank(std::uint32_t rank, Connections connections, std::function<void()> heard = {})
      : rows_{rank, static_cast<std::uint32_t>(connections.size()), {}},
        sockets_{std::move(connections), 0},
        requests_{[this] { sockets_.wake(); }, std::move(heard)} {}
  ~LoopingRank() { close(); }

  Result<void> start() {
    PHAROS_TRY_VOID(loop_.start());
    thread_ = std::thread{[this] { loop_.run(); }};
    return {};
  }
  std::shared_ptr<StreamOperation> begin(const Operation& operation, const detail::Places& places = {}) {
    const Among among = operation.kind == Operation::Kind::kMessage ? Among::kTwo : Among::kAll;
    const OperationId order{rows_.row_of(among, operation), ++number_};
    auto begun = std::make_shared<StreamOperation>(among, rows_.team(among), order, detail::Step{operation, operation},
                                                   places, buffers_);
    requests_.add(begun);
    return begun;
  }
  Result<void> wait_for(const StreamOperation& operation) {
    return requests_.wait_for(operation, std::chrono::steady_clock::now() + 20s);
  }
  /// Waits for the operation, which must fail.
  Error failure_of(const StreamOperation& operation) {
    const auto ended = wait_for(operation);
    return ended ? Error{ErrorCode::kInternal, "it has not failed"} : ended.error();
  }
  /// Waits until run() has returned.
  void close() {
    if (!thread_.joinable()) return;
    requests_.close();
    thread_.join();
  }
  StreamRequests& requests() { return requests_; }

 private:
  ScratchBuffers buffers_;
  const StreamRows rows_;
  PeerSockets sockets_;
  StreamRequests requests_;
  StreamLoop loop_{rows_, sockets_, requests_};
  std::thread thread_;
  std::uint64_t number_ = 0;
};

class StreamLoopTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(own->start()); }

  static Operation broadcast(std::uint64_t bytes, std::uint16_t root) {
    return {.kind = Operation::Kind::kBroadcast, .root = root, .count = bytes};
  }
  static StreamMessage begun(const Operation& operation, std::uint64_t number = 1) {
    return {.kind = MessageKind::kBegun, .number = number, .operation = operation};
  }
  static StreamMessage data(std::uint64_t number = 1) { return {.kind = MessageKind::kData, .number = number}; }
  static std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span{text}); }
  static void expect_failed(PlayedRank& at, ErrorCode code, const std::string& text) {
    std::optional<PlayedRank::Heard> heard;
    do {
      heard = at.next();
    } while (heard && heard->message.kind != MessageKind::kFailed);
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->message.tag, static_cast<std::uint32_t>(code));
    EXPECT_SAYS(heard->bytes, text);
    EXPECT_FALSE(at.next()) << "the connection has ended";
  }

  std::vector<Connections> connections = connections_of(3);
  std::optional<LoopingRank> own{std::in_place, 0, std::move(connections[0])};
  PlayedRank first{std::move(connections[1][0])};
  PlayedRank second{std::move(connections[2][0])};
};

// ---- Operations

TEST_F(StreamLoopTest, TellsTheOtherRanksWhatItBegins) {
  const Operation operation = broadcast(100, 1);
  own->begin({});
  own->begin(operation);
  for (PlayedRank* const each : {&first, &second}) {
    const auto barrier = each->next();
    ASSERT_TRUE(barrier);
    EXPECT_EQ(barrier->message.kind, MessageKind::kBegun);
    EXPECT_EQ(barrier->message.number, 1U);
    EXPECT_EQ(barrier->message.operation, Operation{});
    const auto heard = each->next();
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->message.number, 2U);
    EXPECT_EQ(heard->message.operation, operation);
  }
}

TEST_F(StreamLoopTest, TellsOnlyTheRanksOfTheOperation) {
  const Operation message{.kind = Operation::Kind::kMessage, .root = 0, .to = 2, .count = 4};
  const std::string text = "data";
  own->begin(message, {.from = bytes_of(text).data()});
  EXPECT_EQ(second.next()->message.operation, message);
  first.say({.kind = MessageKind::kAsk});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kAnswer) << "it has heard of no operation before";
}

TEST_F(StreamLoopTest, SendsDataOnlyToRanksThatHaveBegun) {
  const std::string text = "what all ranks are to have";
  const auto operation = own->begin(broadcast(text.size(), 0), {.from = bytes_of(text).data()});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kBegun);
  first.say(begun(operation->operation));
  const auto heard = first.next();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->message.kind, MessageKind::kData);
  EXPECT_EQ(heard->bytes, text);
  second.say({.kind = MessageKind::kAsk});
  EXPECT_EQ(second.next()->message.kind, MessageKind::kBegun);
  EXPECT_EQ(second.next()->message.kind, MessageKind::kAnswer) << "data has not come before";
  EXPECT_FALSE(*own->requests().has_ended(*operation));
  second.say(begun(operation->operation));
  EXPECT_EQ(second.next()->bytes, text);
  EXPECT_TRUE(own->wait_for(*operation));
}

TEST_F(StreamLoopTest, KnowsTheRanksThatHaveBegunBeforeIt) {
  const std::string text = "what all ranks are to have";
  for (PlayedRank* const each : {&first, &second}) {
    each->say(begun(broadcast(text.size(), 0)));
    each->say({.kind = MessageKind::kAsk});
    EXPECT_EQ(each->next()->message.kind, MessageKind::kAnswer);  // so it has heard both messages
  }
  const auto operation = own->begin(broadcast(text.size(), 0), {.from = bytes_of(text).data()});
  for (PlayedRank* const each : {&first, &second}) {
    EXPECT_EQ(each->next()->message.kind, MessageKind::kBegun);
    EXPECT_EQ(each->next()->bytes, text);
  }
  EXPECT_TRUE(own->wait_for(*operation));
}

TEST_F(StreamLoopTest, WritesDataWhereItBelongs) {
  std::string text(16, '-');
  const auto operation = own->begin(broadcast(8, 1), {.to = reinterpret_cast<std::byte*>(text.data()) + 4});
  for (PlayedRank* const each : {&first, &second}) {
    EXPECT_EQ(each->next()->message.kind, MessageKind::kBegun);  // a rank sends data only to ranks that have begun
    each->say(begun(operation->operation));
  }
  first.say(data(), bytes_of("received"));
  const auto ended = own->wait_for(*operation);
  ASSERT_TRUE(ended) << ended.error().to_string();
  EXPECT_EQ(text, "----received----");
}

TEST_F(StreamLoopTest, KeepsAnOperationUntilItHasEnded) {
  const std::weak_ptr<StreamOperation> operation = own->begin({});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kBegun);
  EXPECT_FALSE(operation.expired());
  for (PlayedRank* const each : {&first, &second}) {
    each->say(begun({}));
    each->say({.kind = MessageKind::kAsk});
    while (each->next()->message.kind != MessageKind::kAnswer) {
    }
  }
  EXPECT_TRUE(operation.expired());
}

TEST_F(StreamLoopTest, DropsTheOperationsThatAreLeftAtItsEnd) {
  const std::weak_ptr<StreamOperation> operation = own->begin({});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kBegun);
  own->close();
  EXPECT_FALSE(operation.expired());
  EXPECT_FALSE(operation.lock()->ended);
  own.reset();
  EXPECT_TRUE(operation.expired());
}

// ---- Failing

TEST_F(StreamLoopTest, FailsIfAnotherRankBeginsADifferentOperation) {
  const auto operation = own->begin({});
  first.say(begun(broadcast(3, 0)));
  const Error why = own->failure_of(*operation);
  EXPECT_EQ(why.code(), ErrorCode::kInvalidArgument);
  EXPECT_SAYS(why.message(), "rank 0 called barrier, and rank 1 called broadcast(3 u8 from rank 0)");
  for (PlayedRank* const each : {&first, &second}) expect_failed(*each, why.code(), why.message());
}

TEST_F(StreamLoopTest, FailsIfAnotherRankHasBegunADifferentOperationBefore) {
  first.say(begun(broadcast(3, 0)));
  first.say({.kind = MessageKind::kAsk});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kAnswer);
  const auto operation = own->begin({});
  EXPECT_EQ(own->failure_of(*operation).code(), ErrorCode::kInvalidArgument);
}

TEST_F(StreamLoopTest, FailsWithTheErrorThatAnotherRankTellsAndPassesItOn) {
  const auto operation = own->begin({});
  const Error why{ErrorCode::kCancelled, "the loss is not a number", "Lower the learning rate."};
  first.say_failed(told(why), why.code());
  const Error own_error = own->failure_of(*operation);
  EXPECT_EQ(own_error.code(), why.code());
  EXPECT_EQ(own_error.message(), why.message());
  EXPECT_EQ(own_error.remedy(), why.remedy());
  for (PlayedRank* const each : {&first, &second}) expect_failed(*each, why.code(), told(why));
}

TEST_F(StreamLoopTest, FailsIfTheConnectionOfARankEnds) {
  for (const std::uint32_t stream : {0U, 1U}) {
    std::vector<Connections> of_two = connections_of(2);
    LoopingRank rank{0, std::move(of_two[0])};
    PlayedRank other{std::move(of_two[1][0])};
    ASSERT_TRUE(rank.start());
    const auto operation = rank.begin({});
    other.close(stream);
    const Error why = rank.failure_of(*operation);
    EXPECT_EQ(why.code(), ErrorCode::kActorDied) << stream;
    EXPECT_SAYS(why.message(), "rank 1 ");
  }
}

TEST_F(StreamLoopTest, TellsTheOthersThatARankHasDied) {
  const auto operation = own->begin({});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kBegun);
  first.close();
  const Error why = own->failure_of(*operation);
  EXPECT_EQ(why.message(), "rank 1 has died: its connection has ended; barrier, operation 1, waits for it");
  expect_failed(second, ErrorCode::kActorDied, why.message());
}

/// Messages that no rank sends which works as it should.
class SenselessMessages : public StreamLoopTest {
 protected:
  /// Expects that the other rank counts as dead, for a reason that has this text.
  void expect_dead(const StreamOperation& operation, const std::string& why) {
    const Error error = own->failure_of(operation);
    EXPECT_EQ(error.code(), ErrorCode::kActorDied);
    EXPECT_SAYS(error.message(), "rank 1 cannot be reached any more: " + why);
    expect_failed(second, ErrorCode::kActorDied, why);
  }
};

TEST_F(SenselessMessages, AreBytesThatAreNoMessage) {
  const auto operation = own->begin({});
  first.say_bytes(std::vector<std::byte>(sizeof(StreamMessage), std::byte{0xff}));
  expect_dead(*operation, "it sent an invalid message");
}

TEST_F(SenselessMessages, AreDataOfNoOperation) {
  const auto operation = own->begin({});
  first.say(data(2), bytes_of("data"));
  expect_dead(*operation, "it sent data that no operation waits for");
}

TEST_F(SenselessMessages, AreMoreDataThanTheOperationHas) {
  std::byte to[3];
  const auto operation = own->begin(broadcast(3, 1), {.to = to});
  first.say(begun(operation->operation));
  first.say(data(), bytes_of("data"));
  expect_dead(*operation, "it sent data that no operation waits for");
}

TEST_F(SenselessMessages, AreBeginningsOfAnOperationThatHasBegun) {
  const auto operation = own->begin({});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kBegun);
  first.say(begun({}));
  first.say(begun({}));
  expect_dead(*operation, "it began an operation twice");
}

TEST_F(SenselessMessages, AreBeginningsOfAMessageOfOtherRanks) {
  const auto operation = own->begin({});
  first.say({.kind = MessageKind::kBegun,
             .among = Among::kTwo,
             .number = 1,
             .operation = {.kind = Operation::Kind::kMessage, .root = 1, .to = 2}});
  expect_dead(*operation, "it began an operation in which it takes no part");
}

TEST_F(SenselessMessages, AreBeginningsFarAheadOfThisRank) {
  const auto operation = own->begin({});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kBegun);
  first.say(begun({}, std::uint64_t{1} << 40));
  expect_dead(*operation, "it began too many operations ahead of this rank");
}

TEST(StreamLoop, TellsTheOtherRanksBeforeTheOwner) {
  std::vector<Connections> connections = connections_of(2);
  PlayedRank other{std::move(connections[1][0])};
  std::promise<bool> has_told_other;
  LoopingRank rank{0, std::move(connections[0]), [&] { has_told_other.set_value(other.has_come()); }};
  ASSERT_TRUE(rank.start());
  rank.begin({});
  EXPECT_EQ(other.next()->message.kind, MessageKind::kBegun);
  const Error why{ErrorCode::kCancelled, "the loss is not a number"};
  rank.requests().fail(why);
  EXPECT_TRUE(has_told_other.get_future().get());
  const auto heard = other.next();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->message.kind, MessageKind::kFailed);
  EXPECT_EQ(heard->message.tag, static_cast<std::uint32_t>(why.code()));
  EXPECT_SAYS(heard->bytes, why.message());
  EXPECT_FALSE(other.next()) << "the connection has ended";
}

TEST_F(StreamLoopTest, DropsAllOperationsBeforeTheOwnerHearsOfAFailure) {
  const std::weak_ptr<StreamOperation> operation = own->begin({});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kBegun);
  own->requests().fail(Error{ErrorCode::kCancelled, "the loss is not a number"});
  EXPECT_TRUE(operation.expired());
  EXPECT_SAYS(own->requests().failure()->message(), "the loss is not a number");
}

TEST(StreamLoops, FailTogether) {
  std::vector<Connections> connections = connections_of(3);
  std::optional<LoopingRank> ranks[3];
  std::shared_ptr<StreamOperation> operations[3];
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks[rank].emplace(rank, std::move(connections[rank]));
    ASSERT_TRUE(ranks[rank]->start());
    if (rank != 2) operations[rank] = ranks[rank]->begin({});
  }
  ranks[2]->requests().fail(Error{ErrorCode::kCancelled, "the loss is not a number"});
  for (const std::uint32_t rank : {0U, 1U}) {
    const Error why = ranks[rank]->failure_of(*operations[rank]);
    EXPECT_EQ(why.code(), ErrorCode::kCancelled);
    EXPECT_EQ(why.message(), "the loss is not a number");
  }
}

// ---- Leaving

TEST_F(StreamLoopTest, TellsTheOtherRanksThatItLeaves) {
  const auto begin = std::chrono::steady_clock::now();
  own->close();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  for (PlayedRank* const each : {&first, &second}) {
    for (const std::uint32_t stream : {0U, 1U}) {
      const auto last = each->next(stream);
      ASSERT_TRUE(last);
      EXPECT_EQ(last->message.kind, MessageKind::kLeft);
      EXPECT_FALSE(each->next(stream));
    }
  }
}

TEST_F(StreamLoopTest, FailsIfARankLeavesThatHasNotBegunItsOperation) {
  const auto operation = own->begin({});
  EXPECT_EQ(first.next()->message.kind, MessageKind::kBegun);
  first.say({.kind = MessageKind::kLeft});
  const Error why = own->failure_of(*operation);
  EXPECT_EQ(why.code(), ErrorCode::kActorDied);
  EXPECT_EQ(why.message(), "rank 1 has left the group, and barrier, operation 1, waits for it");
  expect_failed(second, why.code(), why.message());
}

TEST_F(StreamLoopTest, FailsIfItBeginsAnOperationWithARankThatHasLeft) {
  for (const std::uint32_t stream : {0U, 1U}) first.say({.kind = MessageKind::kLeft}, {}, stream);
  first.close();
  second.say({.kind = MessageKind::kAsk});
  EXPECT_EQ(second.next()->message.kind, MessageKind::kAnswer);
  EXPECT_FALSE(own->requests().failure()) << "nothing waits for the rank that has left";
  const auto operation = own->begin({});
  const Error why = own->failure_of(*operation);
  EXPECT_EQ(why.code(), ErrorCode::kActorDied);
  EXPECT_SAYS(why.message(), "rank 1 has left the group");
}

TEST_F(StreamLoopTest, EndsAnOperationThatARankHasBegunBeforeItLeft) {
  first.say(begun({}));
  for (const std::uint32_t stream : {0U, 1U}) first.say({.kind = MessageKind::kLeft}, {}, stream);
  first.close();
  second.say({.kind = MessageKind::kAsk});
  EXPECT_EQ(second.next()->message.kind, MessageKind::kAnswer);  // so what came before has been heard
  const auto operation = own->begin({});
  second.say(begun({}));
  EXPECT_TRUE(own->wait_for(*operation));
}

// ---- Starting, and ranks that are late

TEST(StreamLoop, SaysThatItsSocketsCannotBeWatched) {
  std::vector<Connections> connections = connections_of(2);
  std::optional<LoopingRank> rank;
  {
    const NoDescriptors none;
    rank.emplace(0, std::move(connections[0]));
  }
  const auto started = rank->start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), ErrorCode::kExhausted) << started.error().to_string();
}

TEST_F(StreamLoopTest, AnswersWhichRankItsOwnerWaitsFor) {
  const auto asked = [this] {
    std::optional<PlayedRank::Heard> heard;
    second.say({.kind = MessageKind::kAsk});
    do {
      heard = second.next();
    } while (heard && heard->message.kind != MessageKind::kAnswer);
    return heard ? std::optional{heard->message.tag} : std::nullopt;
  };
  const auto operation = own->begin({});
  EXPECT_EQ(asked(), 0U) << "the owner waits for nothing";
  second.say(begun({}));
  own->requests().waits_for(operation->order);
  EXPECT_EQ(asked(), 1U + 1U);
  own->requests().waits_no_more();
  EXPECT_EQ(asked(), 0U);
}

}  // namespace
}  // namespace pharos::ml
