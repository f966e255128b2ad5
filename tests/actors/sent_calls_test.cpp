#include "caller/sent_calls.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "caller/held_calls.hpp"
#include "program/reactor_platform.hpp"
#include "results/result_cell.hpp"
#include "results/waiting_room.hpp"

namespace pharos::actors {
namespace {

using detail::CellHandle;
using detail::ResultCell;

/// Makes calls. The tests tell them apart by their cells.
class CallsTest : public testing::Test {
 protected:
  ~CallsTest() override { room_->close(); }

  CellHandle call(bool unordered = false) {
    CellHandle cell = ResultCell::make(room_);
    ResultCell::Call call;
    call.unordered = unordered;
    Encoder arguments;
    arguments.write("four", 4);
    cell->set_call(call, arguments);
    return cell;
  }
  /// A call whose arguments are not complete.
  CellHandle incomplete_call(bool unordered = false) {
    CellHandle cell = ResultCell::make(room_);
    ResultCell::Call call;
    call.unordered = unordered;
    cell->set_call(call);
    return cell;
  }
  std::vector<CellHandle> calls(std::size_t count) {
    std::vector<CellHandle> all;
    while (all.size() < count) all.push_back(call());
    return all;
  }
  static std::vector<const ResultCell*> cells_of(const std::vector<CellHandle>& calls) {
    std::vector<const ResultCell*> cells;
    for (const CellHandle& each : calls) cells.push_back(&*each);
    return cells;
  }

 private:
  ReactorPlatform platform_;
  const std::shared_ptr<WaitingRoom> room_ = std::make_shared<WaitingRoom>(
      platform_, [] {}, [](ResultCell&) {}, nullptr);
};

using SentCallsTest = CallsTest;
using HeldCallsTest = CallsTest;

constexpr std::uint64_t kFirst = 7;

TEST_F(SentCallsTest, ACallIsThereUntilItsReplyIsTaken) {
  SentCalls sent{kFirst};
  const auto all = calls(3);
  for (const CellHandle& each : all) sent.add(each);
  for (const std::uint64_t number : {kFirst, kFirst + 1, kFirst + 2}) EXPECT_TRUE(sent.has(number));
  EXPECT_FALSE(sent.has(kFirst - 1));
  EXPECT_FALSE(sent.has(kFirst + 3));
  static_cast<void>(sent.take(kFirst + 1));
  EXPECT_FALSE(sent.has(kFirst + 1));
  static_cast<void>(sent.by_number());  // sets the others aside
  EXPECT_TRUE(sent.has(kFirst));
  static_cast<void>(sent.take(kFirst));
  EXPECT_FALSE(sent.has(kFirst));
  EXPECT_TRUE(sent.has(kFirst + 2));
  static_cast<void>(sent.take_all());
}

TEST_F(SentCallsTest, ARangeIsTakenWhateverItsEndsAre) {
  SentCalls sent{10};
  const auto all = calls(6);
  for (const CellHandle& each : all) sent.add(each);
  static_cast<void>(sent.take(11));
  std::vector<CellHandle> taken;
  EXPECT_EQ(sent.take_range(11, 12, taken), 1u);
  EXPECT_EQ(cells_of(taken), (std::vector<const ResultCell*>{&*all[2]}));
  EXPECT_EQ(sent.take_range(14, 13, taken), 0u);
  EXPECT_EQ(sent.take_range(16, ~std::uint64_t{0}, taken), 0u);
  EXPECT_EQ(sent.take_range(0, 1000, taken), 4u);
  EXPECT_EQ(sent.all_answered_below(), 16u);
  EXPECT_EQ(sent.take_range(0, ~std::uint64_t{0} - 1, taken), 0u);
}

TEST_F(SentCallsTest, AReplyFindsItsCallByNumberOnce) {
  SentCalls sent{kFirst};
  const auto made = calls(3);
  for (const CellHandle& each : made) sent.add(each);
  EXPECT_EQ(sent.next(), kFirst + 3);
  EXPECT_EQ(sent.number_of(*made[1]), kFirst + 1);
  EXPECT_EQ(&*sent.take(kFirst + 1), &*made[1]);
  EXPECT_FALSE(sent.take(kFirst + 1)) << "it was answered before";
  EXPECT_FALSE(sent.take(kFirst + 3)) << "no such call was sent";
  EXPECT_FALSE(sent.number_of(*made[1]));
}

TEST_F(SentCallsTest, CallsAreAcknowledgedUpToTheFirstOneWithoutAReply) {
  SentCalls sent{kFirst};
  for (const CellHandle& each : calls(3)) sent.add(each);
  sent.take(kFirst + 1);
  EXPECT_EQ(sent.all_answered_below(), kFirst);
  sent.take(kFirst);
  EXPECT_EQ(sent.all_answered_below(), kFirst + 2);
}

TEST_F(SentCallsTest, ASlowCallThatIsSetAsideIsFoundAndHoldsBackTheAcknowledgement) {
  constexpr std::uint64_t kCalls = 2000;
  SentCalls sent{kFirst};
  const CellHandle slow = call();
  sent.add(slow);
  for (const CellHandle& each : calls(kCalls)) sent.add(each);
  for (std::uint64_t number = kFirst + 1; number <= kFirst + kCalls; ++number) ASSERT_TRUE(sent.take(number));
  sent.set_slow_aside(1);
  EXPECT_EQ(sent.next(), kFirst + 1 + kCalls) << "numbers go on";
  EXPECT_EQ(sent.number_of(*slow), kFirst);
  EXPECT_EQ(sent.all_answered_below(), kFirst);
  EXPECT_EQ(&*sent.take(kFirst), &*slow);
  EXPECT_EQ(sent.all_answered_below(), kFirst + 1 + kCalls);
}

TEST_F(SentCallsTest, AllCallsAreTakenInTheirOrder) {
  SentCalls sent{kFirst};
  const auto made = calls(4);
  sent.add(made[0]);
  sent.add(made[1]);
  EXPECT_EQ(sent.by_number().size(), 2U);
  sent.add(made[2]);
  sent.add(made[3]);
  sent.take(kFirst + 1);
  EXPECT_EQ(cells_of(sent.take_all()), cells_of({made[0], made[2], made[3]}));
  EXPECT_TRUE(sent.by_number().empty());
}

/// Sends what may go, and returns it.
std::vector<CellHandle> send(HeldCalls& held, std::size_t room = 100) {
  std::vector<CellHandle> sent;
  held.send_ready([&] { return sent.size() < room; }, [&](CellHandle cell) { sent.push_back(std::move(cell)); });
  return sent;
}

TEST_F(HeldCallsTest, ACallWaitsBehindAnEarlierOneWhoseArgumentsAreNotComplete) {
  HeldCalls held;
  const CellHandle first = call();
  const CellHandle waits = incomplete_call();
  const CellHandle last = call();
  for (const CellHandle& each : {first, waits, last}) held.add(each);
  EXPECT_EQ(cells_of(send(held)), cells_of({first}));
  EXPECT_TRUE(held.contains(*last));
  waits->complete_arguments(Encoder{});
  EXPECT_EQ(cells_of(send(held)), cells_of({waits, last}));
  EXPECT_TRUE(held.empty());
}

TEST_F(HeldCallsTest, AnUnorderedCallOvertakesIt) {
  HeldCalls held;
  const CellHandle waits = incomplete_call();
  const CellHandle ordered = call();
  const CellHandle unordered = call(true);
  const CellHandle unordered_waits = incomplete_call(true);
  for (const CellHandle& each : {waits, ordered, unordered, unordered_waits}) held.add(each);
  EXPECT_EQ(cells_of(send(held)), cells_of({unordered}));
  EXPECT_EQ(held.bytes(), 4U) << "the ordered call is left; the others have no arguments yet";
}

TEST_F(HeldCallsTest, ItSaysThatACallHasHadNoRoom) {
  HeldCalls held;
  for (const CellHandle& each : calls(3)) held.add(each);
  std::size_t sent = 0;
  EXPECT_FALSE(held.send_ready([&] { return sent < 2; }, [&](const CellHandle&) { ++sent; }));
  EXPECT_EQ(held.bytes(), 4U);
  EXPECT_TRUE(held.send_ready([] { return true; }, [&](const CellHandle&) { ++sent; }));
  EXPECT_EQ(sent, 3U);
}

TEST_F(HeldCallsTest, ReturnedCallsComeFirstInTheirOrderAndRetriesBeforeThem) {
  HeldCalls held;
  const auto made = calls(5);
  held.add(made[4]);
  held.add_returned(made[2]);
  held.add_returned(made[3]);
  EXPECT_TRUE(held.wait_for_next());
  held.note_next();
  EXPECT_FALSE(held.wait_for_next());
  held.add_in_front({made[0], made[1]});
  EXPECT_EQ(cells_of(send(held)), cells_of(made));
}

TEST_F(HeldCallsTest, WhenTheLastReturnedCallIsGivenUpNobodyWaitsForTheNextWorker) {
  HeldCalls held;
  const CellHandle returned = call();
  held.add(call());
  held.add_returned(returned);
  EXPECT_TRUE(held.remove(*returned));
  EXPECT_FALSE(held.remove(*returned));
  EXPECT_FALSE(held.wait_for_next());
  EXPECT_EQ(held.take_all().size(), 1U);
  EXPECT_EQ(held.bytes(), 0U);
}

}  // namespace
}  // namespace pharos::actors
