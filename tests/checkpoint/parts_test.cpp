// The description of a part is checked when it is read, and bytes that the disk has lost since are an error.

#include <signal.h>
#include <sys/resource.h>

#include <cstdint>

#include "checkpoint_folder.hpp"
#include "manifest.hpp"
#include "part_file.hpp"
#include "saved_tensors.hpp"

namespace pharos::ml {
namespace {

PartEntry entry_at(const char* name, std::uint64_t place, std::int64_t bytes) {
  return {.name = name,
          .dtype = DType::kU8,
          .shape = {bytes},
          .count = static_cast<std::uint64_t>(bytes),
          .place = place,
          .checksums = {1}};
}

TEST(RankPart, OfEntriesOneBehindTheOtherIsRead) {
  const RankPart part{
      .file = "x", .bytes = 30, .head_checksum = 7, .entries = {entry_at("b", 20, 10), entry_at("a", 8, 12)}};
  const auto read = parse_part(to_text(part));
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->head_bytes(), 8U);
  EXPECT_EQ(read->head_checksum, 7U);
}

TEST(RankPart, OfEntriesThatLieOnEachOtherIsRefused) {
  for (const std::uint64_t place : {8U, 9U, 19U, 21U}) {
    const RankPart part{.file = "x", .bytes = 31, .entries = {entry_at("a", 8, 12), entry_at("b", place, 10)}};
    const auto read = parse_part(to_text(part));
    ASSERT_FALSE(read) << place;
    EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
    EXPECT_SAYS(read.error().message(), "its entry for x is invalid");
  }
}

TEST(RankPart, OfMoreBytesThanCanBeIsRefused) {
  PartEntry entry = entry_at("a", 0, INT64_MAX);
  entry.shape = {INT64_MAX, 2};
  entry.count = UINT64_MAX - 1;
  entry.checksums.clear();
  const auto read = parse_part(to_text(RankPart{.file = "x", .bytes = UINT64_MAX - 1, .entries = {entry}}));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
}

TEST_F(CheckpointFolder, PartThatBecomesShorterWhileItIsReadIsAnError) {
  save(2, {1});
  auto opened = SavedTensors::open(saved().at(0).path);
  ASSERT_TRUE(opened);
  const SavedTensors::Tensor* const weight = opened->find("model.weight");
  ASSERT_NE(weight, nullptr);
  std::vector<std::byte> values(weight->elements * sizeof(float));
  ASSERT_TRUE(opened->read(*weight, 0, DType::kF32, values));
  fs::resize_file(part(0, 1), 0);
  const auto read = opened->read(*weight, 0, DType::kF32, values);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
  EXPECT_SAYS(read.error().message(), part(0, 1).string() + " ends at ");
}

TEST_F(CheckpointFolder, TextThatDoesNotFitLeavesNothing) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto written = write_text(folder_.path() / "x", std::string(100, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(written);
  EXPECT_SAYS(written.error().message(), "File too large");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

}  // namespace
}  // namespace pharos::ml
