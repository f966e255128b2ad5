#include "head/value_table.hpp"

#include "head_parts.hpp"

namespace pharos::node::head {
namespace {

class ValueTableTest : public HeadParts {
 protected:
  ValueTableTest() { add_node(1); }

  static wire::KeptValue value(const std::string& text, const std::string& type = "text") {
    wire::KeptValue kept{type};
    for (const char each : text) kept.bytes.push_back(static_cast<std::byte>(each));
    return kept;
  }
  bool write(wire::WriteValue asked) {
    asked.asker = asker(++number_);
    values_.write(NodeId{1}, asked);
    return last_told<wire::ValueWritten>(1).written;
  }
  Error refusal(wire::WriteValue asked) {
    asked.asker = asker(++number_);
    values_.write(NodeId{1}, asked);
    return last_told<wire::Refused>(1).why;
  }
  std::optional<wire::KeptValue> read(const std::string& key, const std::string& name_space = "") {
    values_.read(NodeId{1}, {name_space, key, asker(++number_)});
    const auto read = last_told<wire::ValueRead>(1);
    EXPECT_EQ(read.number, number_);
    return read.value;
  }
  wire::KeysListed keys(const std::string& prefix = "", const std::string& after = "") {
    values_.list(NodeId{1}, {"", prefix, after, asker(++number_)});
    return last_told<wire::KeysListed>(1);
  }

  std::uint64_t number_ = 0;
  ValueTable values_{events_};
};

TEST_F(ValueTableTest, AKeyHasTheValueThatWasPutLastInItsNameSpace) {
  EXPECT_EQ(read("a"), std::nullopt);
  EXPECT_TRUE(write({"", "a", value("one")}));
  EXPECT_TRUE(write({"", "a", value("two")}));
  EXPECT_TRUE(write({"other", "a", value("three")}));
  EXPECT_EQ(read("a"), value("two"));
  EXPECT_EQ(read("a", "other"), value("three"));
  EXPECT_TRUE(write({"", "a", std::nullopt}));
  EXPECT_EQ(read("a"), std::nullopt);
  EXPECT_EQ(read("a", "other"), value("three"));
}

TEST_F(ValueTableTest, AConditionalWriteIsDoneOnlyIfTheValueIsTheExpectedOne) {
  const auto only_if = [](std::optional<wire::KeptValue> expected) {
    return std::optional{wire::WriteCondition{std::move(expected)}};
  };
  EXPECT_FALSE(write({"", "a", value("one"), only_if(value("zero"))}));
  EXPECT_TRUE(write({"", "a", value("one"), only_if(std::nullopt)}));
  EXPECT_FALSE(write({"", "a", value("two"), only_if(std::nullopt)}));
  EXPECT_FALSE(write({"", "a", value("two"), only_if(value("one", "another type"))}));
  EXPECT_EQ(read("a"), value("one"));
  EXPECT_TRUE(write({"", "a", value("two"), only_if(value("one"))}));
  EXPECT_FALSE(write({"", "a", std::nullopt, only_if(value("one"))}));
  EXPECT_TRUE(write({"", "a", std::nullopt, only_if(value("two"))}));
  EXPECT_EQ(read("a"), std::nullopt);
}

TEST_F(ValueTableTest, KeysAreListedByPrefixAndInParts) {
  for (std::size_t i = 0; i < ValueTable::kKeysInAnswer + 2; ++i) {
    write({"", "key" + std::to_string(10'000 + i), value("x")});
  }
  write({"", "kez", value("x")});
  write({"other", "key0", value("x")});
  const auto first = keys("key");
  ASSERT_EQ(first.keys.size(), ValueTable::kKeysInAnswer);
  EXPECT_EQ(first.keys.front(), "key10000");
  EXPECT_TRUE(first.more);
  const auto rest = keys("key", first.keys.back());
  EXPECT_EQ(rest.keys, (std::vector<std::string>{"key14096", "key14097"}));
  EXPECT_FALSE(rest.more);
  EXPECT_EQ(keys("kez").keys, std::vector<std::string>{"kez"});
  EXPECT_EQ(keys("nothing").keys, std::vector<std::string>{});
}

TEST_F(ValueTableTest, WhatMakesNoSenseOrHasNoRoomIsRefusedAndChangesNothing) {
  EXPECT_EQ(refusal({"", "", value("x")}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({"", std::string(513, 'k'), value("x")}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({std::string(513, 's'), "k", value("x")}).code(), ErrorCode::kInvalidArgument);
  const std::string most(std::size_t{1} << 20, 'v');
  EXPECT_EQ(refusal({"", "k", value(most + 'v')}).code(), ErrorCode::kInvalidArgument);
  int written = 0;
  Error why{ErrorCode::kInternal, "the store is never full"};
  while (written < 300) {
    values_.write(NodeId{1}, {"", "k" + std::to_string(written), value(most), std::nullopt, asker(++number_)});
    events_.end();
    if (const auto* const refused = std::get_if<wire::Refused>(&told_[1].back())) {
      why = refused->why;
      break;
    }
    ++written;
  }
  EXPECT_EQ(why.code(), ErrorCode::kExhausted);
  EXPECT_EQ(written, 255);  // 256 MiB, less what the entries cost
  EXPECT_TRUE(write({"", "k0", std::nullopt}));
  EXPECT_TRUE(write({"", "small", value("x")}));
  EXPECT_EQ(read("k1")->bytes.size(), most.size());
}

// An earlier head has done the write, and its answer was lost with it.
TEST_F(ValueTableTest, AWriteThatAnEarlierHeadHasDoneIsNotDoneOnceMore) {
  ASSERT_TRUE(values_.restore(wire::StoredValue{"", "a", "text", value("two").bytes}));
  values_.restore(wire::WriteOutcome{asker(40), true});
  values_.restore(wire::WriteOutcome{asker(41), false});
  const auto again = [&](std::uint64_t number) {
    values_.write(NodeId{1}, {"", "a", value("one"), std::nullopt, asker(number)});
    return last_told<wire::ValueWritten>(1).written;
  };
  EXPECT_TRUE(again(40));
  EXPECT_FALSE(again(41));
  EXPECT_EQ(read("a"), value("two"));
  EXPECT_TRUE(again(42));
  EXPECT_EQ(read("a"), value("one"));
}

TEST_F(ValueTableTest, ARecordThatMakesNoSenseIsNotRestored) {
  EXPECT_FALSE(values_.restore(wire::StoredValue{"", "", "text", {}}));
  EXPECT_TRUE(values_.restore(wire::StoredValue{"", "a", "text", {}}));
  EXPECT_FALSE(values_.restore(wire::StoredValue{"", "a", "text", {}}));
}

}  // namespace
}  // namespace pharos::node::head
