#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "store/store_work.hpp"
#include "store_fixture.hpp"

namespace pharos::node {
namespace {

class StoreWorkTest : public StoreTest {};

TEST_F(StoreWorkTest, TheResultOfTheWorkComesBackOnTheStrand) {
  std::optional<std::uint64_t> capacity;
  work_.run([](const NodeStore& store) { return store.book.capacity().bytes(); },
            [&capacity](std::uint64_t bytes) { capacity = bytes; });
  EXPECT_FALSE(capacity);
  executor_.run_until_idle();
  EXPECT_EQ(capacity, kCapacity);
}

TEST_F(StoreWorkTest, WorkThatOutlivesItIsDoneAndReportsNothing) {
  auto work = std::make_unique<StoreWork>(
      store_, [this](auto job, auto done) { host_.run_blocking(std::move(job), std::move(done)); });
  bool ran = false;
  bool reported = false;
  work->run(
      [&ran](NodeStore&) {
        ran = true;
        return true;
      },
      [&reported](bool) { reported = true; });
  work.reset();
  executor_.run_until_idle();
  EXPECT_TRUE(ran);
  EXPECT_FALSE(reported);
}

TEST_F(StoreWorkTest, ThePartsOfAnObjectHaveEachPieceOnceAndTheFirstErrorIsTheResult) {
  std::multiset<std::size_t> pieces;
  std::set<std::size_t> firsts;
  std::optional<Result<void>> result;
  const std::uint64_t size = std::uint64_t{100} << 20;
  work_.run_in_parts(
      size,
      [&pieces, &firsts](NodeStore&, std::size_t first, std::size_t count) -> Result<void> {
        for (std::size_t piece = first; piece < first + count; ++piece) pieces.insert(piece);
        firsts.insert(first);
        if (first == 0) return {};
        return Error{ErrorCode::kCorrupt, "piece " + std::to_string(first)};
      },
      [&result](Result<void> all) { result = std::move(all); });
  executor_.run_until_idle();
  const std::size_t count = object_store::pieces_of(size);
  EXPECT_EQ(pieces.size(), count);
  EXPECT_EQ(std::set<std::size_t>(pieces.begin(), pieces.end()).size(), count);
  ASSERT_TRUE(result && !result->ok());
  ASSERT_GT(firsts.size(), 2u);
  EXPECT_EQ(result->error().message(), "piece " + std::to_string(*std::next(firsts.begin())));
}

}  // namespace
}  // namespace pharos::node
