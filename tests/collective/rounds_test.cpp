// The rounds of two ranks of one process that take turns in one thread.

#include "shared/rounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "says.hpp"
#include "shared/shared_memory.hpp"

namespace pharos::ml {
namespace {

using Way = RoundOperation::Way;

/// A rank with the parts of a SharedBackend that its Rounds need.
struct RankInRounds {
  static constexpr std::size_t kSets = 2;

  RankInRounds(std::byte* memory, std::uint32_t rank) : meeting{memory, rank, 2} {}

  Meeting meeting;
  SharedWindows windows{meeting, nullptr};
  Rounds rounds{meeting, windows, kSets};
};

class RoundsOfTwo : public testing::Test {
 protected:
  using Begun = std::shared_ptr<RoundOperation>;

  RoundsOfTwo() { add_window(Rounds::staging_bytes(RankInRounds::kSets)); }

  /// Returns each rank's piece.
  std::vector<std::byte*> add_window(std::size_t bytes) {
    std::vector<SharedWindows::Piece> pieces;
    for (RankInRounds& each : ranks) {
      pieces.push_back(*each.windows.make_piece(bytes));
      each.meeting.publish_memory(pieces.back().handle());
    }
    for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(ranks[rank].windows.add_window(pieces[rank]));
    return {pieces[0].memory, pieces[1].memory};
  }

  static Operation all_reduce(std::uint64_t elements) {
    return {.kind = Operation::Kind::kAllReduce, .dtype = DType::kF32, .count = elements};
  }
  Begun begin(std::uint32_t rank, const Operation& operation, const detail::Places& places, bool is_held = false) {
    return ranks[rank].rounds.begin({operation, operation}, places, is_held);
  }
  Begun begin(std::uint32_t rank, std::vector<float>& data, bool is_held = false) {
    auto* const bytes = reinterpret_cast<std::byte*>(data.data());
    return begin(rank, all_reduce(data.size()), {bytes, bytes}, is_held);
  }
  Begun begin_barrier(std::uint32_t rank) { return begin(rank, Operation{}, {}); }
  void advance(std::uint32_t rank) {
    const auto advanced = ranks[rank].rounds.advance();
    EXPECT_TRUE(advanced) << advanced.error().to_string();
  }
  /// Lets the ranks take turns until none of their operations can continue.
  void advance_both() {
    for (int turn = 0; turn < 100; ++turn) {
      advance(0);
      advance(1);
    }
  }
  /// Returns the number of the staging buffer in which the operation is.
  std::size_t staging_of(std::uint32_t rank, const Begun& operation) const {
    const std::byte* const all = ranks[rank].windows.places(Rounds::kStagingWindow)[rank];
    const auto offset = static_cast<std::size_t>(operation->staging - all);
    EXPECT_EQ(offset % (1 << 20), 0U);
    return offset / (1 << 20);
  }
  std::vector<Meeting::Awaited> awaited_by_all(std::uint32_t rank) const {
    std::vector<Meeting::Awaited> all;
    ranks[rank].rounds.add_awaited(all);
    return all;
  }

  static constexpr std::size_t kStagings = 4;  // in a set
  static constexpr std::size_t kStaged = 100;  // so many floats go in one shot, through a staging buffer

  const Mapping memory{*Mapping::of(-1, Meeting::bytes_for(2))};
  RankInRounds ranks[2]{{memory.memory(), 0}, {memory.memory(), 1}};
};

// ---- Beginning and ending

TEST_F(RoundsOfTwo, ReduceDataOfAllSizesInItsRounds) {
  struct Case {
    std::size_t elements;
    Way way;
    std::uint64_t rounds;
  };
  std::uint64_t before = 0;
  for (const auto& [elements, way, rounds] : {Case{4, Way::kOneShot, 1}, Case{2048, Way::kOneShot, 1},
                                              Case{100'000, Way::kTwoShot, 1}, Case{700'000, Way::kTwoShot, 3}}) {
    std::vector<float> data[2];
    Begun begun[2];
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      for (std::size_t i = 0; i < elements; ++i) data[rank].push_back(static_cast<float>(rank + i % 1000));
      begun[rank] = begin(rank, data[rank]);
      EXPECT_EQ(begun[rank]->way(), way);
      EXPECT_EQ(begun[rank]->first_round, before + 1);
    }
    advance_both();
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(begun[rank]->ended);
      for (std::size_t i = 0; i < elements; ++i) ASSERT_EQ(data[rank][i], static_cast<float>(2 * (i % 1000) + 1)) << i;
    }
    before += rounds;
  }
}

TEST_F(RoundsOfTwo, WorkInPlaceInAWindow) {
  constexpr std::size_t kFloats = 500'000;
  static_cast<void>(add_window(64));
  const std::vector<std::byte*> pieces = add_window(kFloats * sizeof(float) + 64);
  Begun begun[2];
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    std::byte* const data = pieces[rank] + 64;
    std::fill_n(reinterpret_cast<float*>(data), kFloats, static_cast<float>(rank + 1));
    begun[rank] = begin(rank, all_reduce(kFloats), {data, data});
    EXPECT_EQ(begun[rank]->way(), Way::kInPlace);
    EXPECT_EQ(begun[rank]->window(), 3U);
  }
  advance_both();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(begun[rank]->ended);
    const auto* const data = reinterpret_cast<const float*>(pieces[rank] + 64);
    EXPECT_EQ(std::count(data, data + kFloats, 3.0F), static_cast<std::ptrdiff_t>(kFloats));
  }
}

TEST_F(RoundsOfTwo, DoNothingBeforeTheyAreAdvanced) {
  begin_barrier(0);
  begin_barrier(1);
  advance(1);
  EXPECT_EQ(ranks[1].meeting.who_is_missing({.number = 1, .phase = Meeting::Phase::kEntered}), 0U);
  advance(0);
  EXPECT_FALSE(ranks[1].meeting.who_is_missing({.number = 1, .phase = Meeting::Phase::kEntered}));
}

TEST_F(RoundsOfTwo, KeepAnOperationUntilItHasEnded) {
  const std::weak_ptr<RoundOperation> first = begin_barrier(0);
  const std::weak_ptr<RoundOperation> second = begin_barrier(0);
  advance(0);
  ASSERT_FALSE(first.expired());
  EXPECT_FALSE(first.lock()->ended) << "nothing waits for the other rank";
  EXPECT_EQ(ranks[0].rounds.oldest(), first.lock());
  begin_barrier(1);
  advance_both();
  EXPECT_TRUE(first.expired());
  ASSERT_FALSE(second.expired());
  EXPECT_EQ(ranks[0].rounds.oldest(), second.lock());
  begin_barrier(1);
  advance_both();
  EXPECT_TRUE(second.expired());
  EXPECT_FALSE(ranks[0].rounds.oldest());
}

TEST_F(RoundsOfTwo, DropOperationsWhichThenNeverEnd) {
  std::vector<float> data[2]{std::vector<float>(kStaged, 1), std::vector<float>(kStaged, 2)};
  const Begun first = begin(0, data[0]);
  advance(0);
  ranks[0].rounds.drop();
  EXPECT_FALSE(ranks[0].rounds.oldest());
  EXPECT_EQ(first.use_count(), 1);
  begin(1, data[1]);
  advance_both();
  EXPECT_FALSE(first->ended);
  EXPECT_EQ(data[0], std::vector<float>(kStaged, 1));
}

TEST_F(RoundsOfTwo, LeaveARoundToAnOperationThatGoesAnotherWay) {
  std::vector<float> data[2]{std::vector<float>(kStaged, 1), std::vector<float>(kStaged, 2)};
  EXPECT_EQ(ranks[0].rounds.take_round(), 1U);
  EXPECT_EQ(ranks[1].rounds.take_round(), 1U);
  const Begun first = begin(0, data[0]);
  begin(1, data[1]);
  EXPECT_EQ(first->first_round, 2U);
  EXPECT_EQ(ranks[0].rounds.take_round(), 3U);
  advance_both();
  EXPECT_TRUE(first->ended);
}

TEST_F(RoundsOfTwo, FailOnAllRanksIfTheRanksCalledDifferentOperations) {
  begin_barrier(0);
  std::vector<float> data(4);
  begin(1, data);
  advance(0);
  for (const std::uint32_t rank : {1U, 0U}) {
    const auto advanced = ranks[rank].rounds.advance();
    ASSERT_FALSE(advanced) << rank;
    EXPECT_EQ(advanced.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_SAYS(advanced.error().message(), "rank 0 called barrier, and rank 1 called all_reduce(sum of 4 f32)");
  }
}

// ---- Staging buffers

TEST_F(RoundsOfTwo, UseTheBuffersOfASetInTurn) {
  EXPECT_EQ(Rounds::staging_bytes(1), kStagings << 20);
  EXPECT_EQ(Rounds::staging_bytes(2), 2 * kStagings << 20);
  std::vector<std::vector<float>> data(kStagings + 1, std::vector<float>(kStaged, 1));
  std::vector<Begun> begun;
  for (auto& each : data) begun.push_back(begin(0, each));
  advance(0);
  for (std::size_t i = 0; i < kStagings; ++i) EXPECT_EQ(staging_of(0, begun[i]), i);
  EXPECT_FALSE(begun[kStagings]->phase) << "all buffers are in use";
  ranks[1].meeting.enter(1, {.operation = begun[0]->of()});
  advance(0);
  EXPECT_TRUE(begun[0]->ended);
  EXPECT_FALSE(begun[kStagings]->phase) << "the other rank may still read this rank's buffer";
  ranks[1].meeting.reach(1, Meeting::Phase::kLeft);
  advance(0);
  EXPECT_TRUE(begun[kStagings]->phase);
  EXPECT_EQ(staging_of(0, begun[kStagings]), 0U);
}

TEST_F(RoundsOfTwo, GiveBuffersInTheOrderOfTheOperations) {
  std::vector<float> many(300'000, 1);  // in two rounds
  std::vector<float> few(kStaged, 1);
  const Begun first = begin(0, many);
  const Begun second = begin(0, few);
  advance(0);
  EXPECT_TRUE(first->phase);
  EXPECT_FALSE(second->phase) << "the first operation needs another buffer before";
  const auto all = awaited_by_all(0);
  ASSERT_EQ(all.size(), 1U) << "the second operation does not have its turn";
  EXPECT_EQ(all[0].number, 1U);
  std::vector<float> theirs(300'000, 2);
  begin(1, theirs);
  advance_both();
  EXPECT_TRUE(first->ended);
  EXPECT_TRUE(second->phase);
  EXPECT_EQ(staging_of(0, second), 2U);
}

TEST_F(RoundsOfTwo, NeedNoBufferForWhatALineCarries) {
  std::vector<float> many[2]{std::vector<float>(300'000, 1), std::vector<float>(300'000, 2)};
  std::vector<float> few[2]{{1, 2}, {3, 4}};
  const Begun first = begin(0, many[0]);
  const Begun second = begin(0, few[0]);
  advance(0);
  EXPECT_TRUE(second->phase) << "it waits for no operation that needs a buffer";
  begin(1, many[1]);
  begin(1, few[1]);
  advance_both();
  EXPECT_TRUE(first->ended);
  EXPECT_EQ(few[0], (std::vector<float>{4, 6}));
  EXPECT_EQ(few[1], (std::vector<float>{4, 6}));
}

// ---- Held operations

TEST_F(RoundsOfTwo, HoldAnOperationInItsPlaceWhileOthersContinue) {
  std::vector<float> held_data[2]{std::vector<float>(kStaged, 1), std::vector<float>(kStaged, 2)};
  std::vector<float> data[2]{std::vector<float>(kStaged, 3), std::vector<float>(kStaged, 4)};
  Begun held[2];
  Begun other[2];
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    held[rank] = begin(rank, held_data[rank], true);
    other[rank] = begin(rank, data[rank]);
  }
  advance_both();
  EXPECT_TRUE(other[0]->ended);
  EXPECT_EQ(data[0], std::vector<float>(kStaged, 7));
  EXPECT_FALSE(held[0]->phase);
  EXPECT_EQ(held[0]->round(), 1U);
  EXPECT_EQ(ranks[0].rounds.oldest(), held[0]);
  EXPECT_TRUE(awaited_by_all(0).empty()) << "the owner does not wait for what it holds";
  for (const Begun& each : held) each->is_held = false;
  advance(0);
  EXPECT_EQ(staging_of(0, held[0]), kStagings) << "held operations have a set of their own";
  EXPECT_EQ(awaited_by_all(0).size(), 1U);
  advance_both();
  EXPECT_TRUE(held[0]->ended);
  EXPECT_EQ(held_data[0], std::vector<float>(kStaged, 3));
  EXPECT_EQ(held_data[1], std::vector<float>(kStaged, 3));
}

// ---- Waiting

TEST_F(RoundsOfTwo, SayThatAnOperationWaitsForThePhaseOfItsRound) {
  std::vector<float> data[2]{std::vector<float>(100'000, 1), std::vector<float>(100'000, 2)};
  const Begun operation = begin(0, data[0]);
  EXPECT_EQ(ranks[0].rounds.awaited(*operation).number, 0U) << "it waits for nothing";
  advance(0);
  Meeting::Awaited awaited = ranks[0].rounds.awaited(*operation);
  EXPECT_EQ(awaited.what, Meeting::Awaited::What::kPhase);
  EXPECT_EQ(awaited.number, 1U);
  EXPECT_EQ(awaited.phase, Meeting::Phase::kEntered);
  begin(1, data[1]);
  ranks[1].meeting.enter(1, {.operation = operation->of()});
  advance(0);
  awaited = ranks[0].rounds.awaited(*operation);
  EXPECT_EQ(awaited.number, 1U);
  EXPECT_EQ(awaited.phase, Meeting::Phase::kReduced);
}

TEST_F(RoundsOfTwo, SayThatAnOperationWaitsForABuffer) {
  std::vector<std::vector<float>> data(kStagings + 1, std::vector<float>(kStaged, 1));
  begin_barrier(0);  // so that the numbers of rounds are not those of buffers
  Begun last;
  for (auto& each : data) last = begin(0, each);
  advance(0);
  const Meeting::Awaited awaited = ranks[0].rounds.awaited(*last);
  EXPECT_EQ(awaited.what, Meeting::Awaited::What::kPhase);
  EXPECT_EQ(awaited.number, 2U) << "the last round that used the buffer";
  EXPECT_EQ(awaited.phase, Meeting::Phase::kLeft);
  EXPECT_EQ(awaited_by_all(0).size(), kStagings + 2);
}

TEST_F(RoundsOfTwo, SayThatAnOperationWaitsForTheLineOfItsRound) {
  Begun last;
  for (std::size_t i = 0; i < Meeting::kSlots + 2; ++i) last = begin_barrier(0);
  advance(0);
  EXPECT_FALSE(last->phase);
  const Meeting::Awaited awaited = ranks[0].rounds.awaited(*last);
  EXPECT_EQ(awaited.number, 2U);
  EXPECT_EQ(awaited.phase, Meeting::Phase::kLeft);
  for (std::size_t i = 0; i < Meeting::kSlots + 2; ++i) begin_barrier(1);
  advance_both();
  EXPECT_TRUE(last->ended);
}

}  // namespace
}  // namespace pharos::ml
