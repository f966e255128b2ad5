#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include <pharos/net/spin_turns.hpp>

namespace pharos::net {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow = TimePoint{} + std::chrono::hours{1};

TEST(SpinTurns, OtherThreadsStayOutForAMillisecondAfterASpinThatFoundAnEvent) {
  SpinTurns turns;
  EXPECT_FALSE(turns.keeps_others_out(kNow));
  ASSERT_TRUE(turns.begin());
  turns.found(kNow);
  EXPECT_TRUE(turns.keeps_others_out(kNow));
  EXPECT_TRUE(turns.keeps_others_out(kNow + 1ms));
  EXPECT_FALSE(turns.keeps_others_out(kNow + 1001us));
}

TEST(SpinTurns, TheThreadThatSpunLastIsHotAndNoOtherOne) {
  SpinTurns turns;
  EXPECT_FALSE(turns.is_hot());
  ASSERT_TRUE(turns.begin());
  EXPECT_TRUE(turns.is_hot());
  bool other_is_hot = true;
  std::thread{[&] { other_is_hot = turns.is_hot(); }}.join();
  EXPECT_FALSE(other_is_hot);
}

TEST(SpinTurns, OtherThreadsTakeOverWhenACallbackHoldsTheHotThreadUp) {
  SpinTurns turns;
  ASSERT_TRUE(turns.begin());
  turns.found(kNow);
  turns.begin_callback(kNow);
  EXPECT_TRUE(turns.keeps_others_out(kNow + 50us));
  EXPECT_FALSE(turns.keeps_others_out(kNow + 51us));
  turns.end_callback();
  EXPECT_TRUE(turns.keeps_others_out(kNow + 51us));
}

TEST(SpinTurns, AfterSpinsWithoutAnEventMoreAndMoreSpinsAreSkipped) {
  SpinTurns turns;
  const auto skipped = [&turns] {
    int count = 0;
    while (!turns.begin()) ++count;
    return count;
  };
  EXPECT_EQ(skipped(), 0);
  for (const int skips : {1, 3, 7, 15, 31, 63, 127, 127}) {
    turns.found_nothing();
    EXPECT_EQ(skipped(), skips);
  }
  turns.found(kNow);
  EXPECT_EQ(skipped(), 0);
  turns.found_nothing();
  EXPECT_EQ(skipped(), 1) << "an event makes the earlier failures count no more";
}

}  // namespace
}  // namespace pharos::net
