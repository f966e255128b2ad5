#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/wire/codec.hpp>

#include "coding.hpp"
#include "seed.hpp"

namespace pharos {
namespace {

struct Leaf {
  std::uint8_t small = 0;
  std::int64_t large = 0;
  char name[4] = {};
  bool flag = false;
  bool operator==(const Leaf&) const = default;
};
struct Tree;
using Value = std::variant<std::monostate, bool, double, std::string, Leaf, std::vector<Tree>>;
struct Tree {
  Value value;
  std::map<std::string, Tree> named;
  std::optional<std::pair<Leaf, std::deque<std::string>>> extra;
  std::tuple<std::set<int>, std::list<std::vector<bool>>, std::array<std::u16string, 2>> parts;
  std::unordered_map<std::int16_t, std::vector<double>> numbers;
  Bytes bytes;
  bool operator==(const Tree&) const = default;
};

/// Draws random values. Trees do not nest below depth 4.
class RandomCodec : public SeededTest {
 protected:
  std::string text(std::size_t most = 20) {
    std::string text(between(0, most), ' ');
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }
  double number() { return static_cast<double>(random_()) / static_cast<double>(between(1, 1000)); }
  Leaf leaf() {
    Leaf leaf{static_cast<std::uint8_t>(random_()), static_cast<std::int64_t>(random_()), {}, chance(2)};
    for (char& c : leaf.name) c = static_cast<char>(random_());
    return leaf;
  }
  Value value(std::size_t depth) {
    switch (between(0, depth < 4 ? 5 : 4)) {
      case 0: return {};
      case 1: return chance(2);
      case 2: return number();
      case 3: return text();
      case 4: return leaf();
      default: {
        std::vector<Tree> trees(between(0, 2));
        for (Tree& inner : trees) inner = tree(depth + 1);
        return trees;
      }
    }
  }
  Tree tree(std::size_t depth) {
    Tree tree{.value = value(depth), .named = {}, .extra = {}, .parts = {}, .numbers = {}, .bytes = {}};
    if (depth < 4 && chance(3)) tree.named.emplace(text(), this->tree(depth + 1));
    if (chance(2)) tree.extra.emplace(leaf(), std::deque<std::string>(between(0, 3), text()));
    auto& [set, bits, strings] = tree.parts;
    for (std::size_t i = between(0, 5); i > 0; --i) set.insert(static_cast<int>(random_()));
    for (std::size_t i = between(0, 2); i > 0; --i) bits.emplace_back(between(0, 20), chance(2));
    strings[0].assign(between(0, 5), static_cast<char16_t>(random_()));
    for (std::size_t i = between(0, 3); i > 0; --i) {
      tree.numbers[static_cast<std::int16_t>(random_())].assign(between(0, 5), number());
    }
    if (chance(3)) tree.bytes = Bytes{bytes(between(0, chance(10) ? 10'000 : 10))};
    return tree;
  }
};

TEST_F(RandomCodec, WhatIsEncodedComesBack) {
  for (int round = 0; round < 500; ++round) {
    const Tree drawn = tree(0);
    const auto flat = encoded(drawn);
    Decoder decoder{flat};
    ASSERT_EQ(Codec<Tree>::decode(decoder), drawn);
    ASSERT_FALSE(decoder.failed());
    ASSERT_EQ(decoder.left(), 0u);
  }
}

TEST_F(RandomCodec, EveryTruncationOfAValueFails) {
  for (int round = 0; round < 20; ++round) {
    const Tree drawn = tree(2);
    EXPECT_EQ(round_trip(drawn), drawn);
  }
}

TEST_F(RandomCodec, BytesThatWereChangedDecodeToSomethingThatComesBackOrFail) {
  std::size_t decoded = 0;
  for (int round = 0; round < 5'000; ++round) {
    auto flat = encoded(tree(1));
    for (std::size_t i = between(1, 3); i > 0; --i)
      flat[between(0, flat.size() - 1)] = static_cast<std::byte>(random_());
    Decoder decoder{flat};
    const Tree found = Codec<Tree>::decode(decoder);
    if (decoder.failed()) continue;
    ++decoded;
    auto once = encoded(found);
    Decoder again{once};
    auto twice = encoded(Codec<Tree>::decode(again));
    ASSERT_FALSE(again.failed());
    // The test compares bytes, because a NaN is not equal to itself. It sorts them, because unordered containers may
    // change the order of their elements.
    std::sort(once.begin(), once.end());
    std::sort(twice.begin(), twice.end());
    ASSERT_EQ(once, twice);
  }
  EXPECT_GT(decoded, 0u);
}

TEST_F(RandomCodec, AnyBytesDecodeOrFail) {
  for (int round = 0; round < 20'000; ++round) {
    auto garbage = bytes(between(0, 200));
    for (std::byte& byte : garbage) {
      if (chance(2)) byte = std::byte{0};  // so that some counts are small enough
    }
    Decoder decoder{garbage};
    static_cast<void>(Codec<Tree>::decode(decoder));
    ASSERT_LE(decoder.left(), garbage.size());
  }
}

}  // namespace
}  // namespace pharos
