#include "worker/reply_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "seed.hpp"

namespace pharos::actors {
namespace {

using Arrival = ReplyCache::Arrival;

wire::FrameHeader call_of(std::uint64_t number) {
  wire::FrameHeader header;
  header.kind = wire::FrameKind::kCall;
  header.number = number;
  return header;
}
void answer(ReplyCache& cache, std::uint64_t number, const std::string& text) {
  wire::FrameHeader header = call_of(number);
  header.kind = wire::FrameKind::kReply;
  cache.answer(header, std::as_bytes(std::span{text}));
}
std::string text_of(const ReplyCache& cache, std::uint64_t number) {
  const auto& payload = cache.reply_to(number).payload;
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

TEST(ReplyCache, ACallThatComesAgainIsAnsweredAndNotRun) {
  ReplyCache cache;
  EXPECT_EQ(cache.arrive(call_of(0)), Arrival::kFirst);
  EXPECT_EQ(cache.arrive(call_of(0)), Arrival::kUnderWay);
  answer(cache, 0, "zero");
  EXPECT_EQ(cache.arrive(call_of(0)), Arrival::kAnswered);
  EXPECT_EQ(text_of(cache, 0), "zero");
  EXPECT_EQ(cache.reply_to(0).header.kind, wire::FrameKind::kReply);
  EXPECT_EQ(cache.arrive(call_of(1)), Arrival::kFirst);
}

TEST(ReplyCache, AnAcknowledgedReplyIsForgottenAndOneThatRunsIsNot) {
  ReplyCache cache;
  for (std::uint64_t number = 0; number < 4; ++number) cache.arrive(call_of(number));
  answer(cache, 0, "0");
  answer(cache, 1, "1");
  answer(cache, 3, "three");
  EXPECT_EQ(cache.bytes(), 7u);
  cache.acknowledge_below(3);
  EXPECT_EQ(cache.bytes(), 5u);
  EXPECT_EQ(cache.arrive(call_of(2)), Arrival::kUnderWay);
  EXPECT_EQ(cache.arrive(call_of(1)), Arrival::kForgotten);
  cache.acknowledge(3);
  cache.acknowledge(3);
  cache.acknowledge(17);
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_EQ(cache.size(), 1u);
  answer(cache, 2, "late");
  EXPECT_EQ(cache.arrive(call_of(2)), Arrival::kAnswered);
}

TEST(ReplyCache, AfterForgettingNothingRunsTwice) {
  ReplyCache cache;
  cache.arrive(call_of(0));
  cache.arrive(call_of(1));
  answer(cache, 0, "0");
  cache.forget();
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_EQ(cache.arrive(call_of(0)), Arrival::kForgotten);
  EXPECT_EQ(cache.arrive(call_of(1)), Arrival::kForgotten);
  answer(cache, 1, "of one that ran while its caller was forgotten");
  EXPECT_EQ(cache.arrive(call_of(1)), Arrival::kForgotten);
  EXPECT_EQ(cache.arrive(call_of(2)), Arrival::kFirst);
}

TEST(ReplyCache, ItsSuccessorKnowsWhatHasCome) {
  ReplyCache cache;
  cache.arrive(call_of(0));
  cache.arrive(call_of(1));
  ReplyCache successor{cache.next()};
  EXPECT_EQ(successor.arrive(call_of(1)), Arrival::kForgotten);
  EXPECT_EQ(successor.arrive(call_of(2)), Arrival::kFirst);
}

// Simulates a caller whose connection is cut at random, and which sends its unanswered calls again.
class RandomReplyCache : public SeededTest {};

TEST_F(RandomReplyCache, EachCallRunsOnceAndItsReplyComesWhateverIsLost) {
  for (int round = 0; round < 200; ++round) {
    ReplyCache cache;
    std::map<std::uint64_t, std::string> replies;
    std::set<std::uint64_t> under_way;
    std::map<std::uint64_t, int> runs;
    std::set<std::uint64_t> unanswered;
    std::uint64_t next = 0;
    const auto finish = [&](std::uint64_t number, bool reply_arrives) {
      under_way.erase(number);
      answer(cache, number, std::to_string(number));
      if (reply_arrives) {
        replies[number] = std::to_string(number);
        unanswered.erase(number);
      }
    };
    const auto send = [&](std::uint64_t number, bool replies_arrive) {
      switch (cache.arrive(call_of(number))) {
        case Arrival::kFirst:
          ++runs[number];
          under_way.insert(number);
          if (chance(2)) finish(number, replies_arrive);
          break;
        case Arrival::kUnderWay: EXPECT_TRUE(under_way.contains(number)); break;
        case Arrival::kAnswered:
          if (replies_arrive) {
            replies[number] = text_of(cache, number);
            unanswered.erase(number);
          }
          break;
        case Arrival::kForgotten: ADD_FAILURE() << number << " was forgotten"; break;
      }
    };
    for (int step = 0; step < 100; ++step) {
      const bool replies_arrive = !chance(3);
      switch (between(0, 3)) {
        case 0:
        case 1:
          unanswered.insert(next);
          send(next++, replies_arrive);
          break;
        case 2:
          if (!under_way.empty()) {
            const auto which = static_cast<std::ptrdiff_t>(between(0, under_way.size() - 1));
            finish(*std::next(under_way.begin(), which), replies_arrive);
          }
          break;
        default: {  // the connection is cut
          const auto again = unanswered;
          for (const std::uint64_t number : again) send(number, replies_arrive);
        }
      }
      cache.acknowledge_below(unanswered.empty() ? next : *unanswered.begin());
      for (const auto& [number, reply] : replies) {
        if (chance(8)) cache.acknowledge(number);
      }
    }
    const auto again = unanswered;
    for (const std::uint64_t number : again) send(number, true);
    while (!under_way.empty()) finish(*under_way.begin(), true);
    EXPECT_EQ(replies.size(), next);
    for (const auto& [number, times] : runs) EXPECT_EQ(times, 1) << number;
    cache.acknowledge_below(next);
    EXPECT_EQ(cache.size(), 0u);
  }
}

}  // namespace
}  // namespace pharos::actors
