#include "results/pieces.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "seed.hpp"

namespace pharos::actors {
namespace {

class PiecesTest : public SeededTest {
 protected:
  std::vector<std::byte> written(const std::vector<Piece>& pieces, std::span<const std::byte> bytes) {
    Encoder encoder;
    write_pieces(pieces, bytes, encoder);
    return encoder.flattened();
  }
  Piece piece(std::uint64_t offset, std::uint64_t size = 1) {
    return {offset, {{CallerId{random_()}, random_()}, {static_cast<std::uint32_t>(random_()), 7}}, random_(), size};
  }
};

TEST_F(PiecesTest, AreReadAsTheyWereWritten) {
  const auto own = bytes(100);
  const std::vector<Piece> pieces{piece(0), piece(0), piece(50), piece(100)};
  const auto payload = written(pieces, own);
  const auto read = read_pieces(payload);
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->pieces.size(), pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(read->pieces[i].offset, pieces[i].offset);
    EXPECT_EQ(read->pieces[i].location, pieces[i].location);
    EXPECT_EQ(read->pieces[i].begin, pieces[i].begin);
    EXPECT_EQ(read->pieces[i].size, pieces[i].size);
  }
  EXPECT_TRUE(std::equal(read->bytes.begin(), read->bytes.end(), own.begin(), own.end()));
}

TEST_F(PiecesTest, ThatLieNowhereAreRefused) {
  const auto own = bytes(10);
  EXPECT_FALSE(read_pieces(written({piece(11)}, own)).ok());
  EXPECT_FALSE(read_pieces(written({piece(5), piece(4)}, own)).ok());
  EXPECT_FALSE(read_pieces(written({piece(5, 0)}, own)).ok());
  auto payload = written({piece(5)}, own);
  const std::uint64_t count = ~std::uint64_t{0} / sizeof(Piece) + 2;
  std::memcpy(payload.data(), &count, sizeof count);
  EXPECT_FALSE(read_pieces(payload).ok());
  EXPECT_FALSE(read_pieces(std::span{payload}.first(7)).ok());
  EXPECT_FALSE(read_pieces({}).ok());
}

TEST_F(PiecesTest, OfRandomBytesLieInsideOfThemOrAreRefused) {
  for (int i = 0; i < 5000; ++i) {
    auto payload = bytes(between(0, 300));
    if (payload.size() >= 8) std::memset(payload.data() + 1, 0, 7);
    const auto read = read_pieces(payload);
    if (!read) continue;
    for (const Piece& each : read->pieces) ASSERT_LE(each.offset, read->bytes.size());
    ASSERT_LE(read->bytes.size() + read->pieces.size() * sizeof(Piece) + 8, payload.size());
  }
}

}  // namespace
}  // namespace pharos::actors
