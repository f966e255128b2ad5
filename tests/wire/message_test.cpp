#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/wire/codec_fields.hpp>
#include <pharos/wire/message.hpp>

#include "seed.hpp"

namespace pharos::wire {
namespace {

using namespace std::string_literals;
using namespace std::chrono_literals;

/// Makes values whose fields all differ from their defaults and from each other, so that the tests notice a field that
/// is not encoded, or is decoded into another one. Texts have zero bytes and bytes that are not UTF-8.
class Maker {
 public:
  template <class T>
  T make() {
    if constexpr (std::is_same_v<T, Error>) {
      return Error{ErrorCode::kExhausted, text(), text()}
          .with(text())
          .with(text())
          .with_outcome(Outcome::kNotStarted)
          .with_thrown({text(), {std::byte{0}, std::byte{255}}});
    } else if constexpr (std::is_same_v<T, std::string>) {
      return text();
    } else if constexpr (std::is_same_v<T, bool>) {
      return true;
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(1);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<T>(++last_);
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      return TimePoint{Duration{++last_}};
    } else if constexpr (requires(T value) { value.has_value(); }) {
      return make<typename T::value_type>();
    } else if constexpr (requires(T id) { T{id.value()}; }) {
      return T{static_cast<std::uint64_t>(++last_) | std::uint64_t{1} << 63};
    } else if constexpr (requires { typename T::mapped_type; }) {
      return {{text(), make<typename T::mapped_type>()}, {text(), make<typename T::mapped_type>()}};
    } else if constexpr (requires(T list) { list.emplace_back(); }) {
      return {make<typename T::value_type>(), make<typename T::value_type>()};
    } else if constexpr (requires {
                           typename T::value_type;
                           std::tuple_size<T>::value;
                         }) {
      T array;
      for (auto& each : array) each = make<typename T::value_type>();
      return array;
    } else {
      return fields<T>(detail::FieldTypes<T>{});
    }
  }

 private:
  template <class T, class... Fields>
  T fields(detail::Types<Fields...>) {
    return T{make<Fields>()...};
  }
  std::string text() { return "\xff text\0"s + std::to_string(++last_); }

  std::int64_t last_ = 0;
};

template <>
std::byte Maker::make<std::byte>() {
  return static_cast<std::byte>(++last_);
}
/// `argument_of` must be the index of an earlier entry of the list, or -1.
template <>
std::vector<PendingResult> Maker::make<std::vector<PendingResult>>() {
  std::vector<PendingResult> waits{make<PendingResult>(), make<PendingResult>()};
  waits[0].argument_of = -1;
  waits[1].argument_of = 0;
  return waits;
}

template <std::size_t... indexes>
std::vector<Message> make_each(std::index_sequence<indexes...>) {
  Maker maker;
  return {Message{maker.make<std::variant_alternative_t<indexes, MessageKinds>>()}...};
}

const std::vector<Message>& one_of_each() {
  static const std::vector<Message> messages = make_each(std::make_index_sequence<std::variant_size_v<MessageKinds>>{});
  return messages;
}

template <class T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Error>) {
    const auto thrown = [](const Error& error) {
      return error.thrown() ? std::tuple{true, error.thrown()->type, error.thrown()->value}
                            : std::tuple<bool, std::string, std::vector<std::byte>>{};
    };
    return std::tuple{a.code(), a.outcome(), a.message(), a.remedy(), a.context(), thrown(a)} ==
           std::tuple{b.code(), b.outcome(), b.message(), b.remedy(), b.context(), thrown(b)};
  } else if constexpr (requires(T value) { value.has_value(); }) {
    return a.has_value() == b.has_value() && (!a || same(*a, *b));
  } else if constexpr (requires(T value) { value.push_back(value.front()); }) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return same(x, y); });
  } else if constexpr (std::is_aggregate_v<T> && !std::is_same_v<T, BuildId>) {
    return detail::visit_fields(a, [&](const auto&... of_a) {
      return detail::visit_fields(b, [&](const auto&... of_b) { return (same(of_a, of_b) && ...); });
    });
  } else {
    return a == b;
  }
}
bool are_same(const Message& a, const Message& b) {
  return a.index() == b.index() &&
         std::visit([&](const auto& left) { return same(left, std::get<std::remove_cvref_t<decltype(left)>>(b)); }, a);
}

TEST(Message, EachComesBackWhole) {
  for (const Message& message : one_of_each()) {
    const auto back = decode(encode(message));
    ASSERT_TRUE(back.ok()) << name_of(message) << ": " << back.error().to_string();
    EXPECT_TRUE(are_same(message, *back)) << name_of(message);
  }
}

TEST(Message, AnErrorThatIsNotThereStaysAway) {
  const auto back = decode(encode(ActorConstructed{ActorId{29}, 30, std::nullopt}));
  ASSERT_TRUE(back.ok());
  EXPECT_FALSE(std::get<ActorConstructed>(*back).failure);
}

TEST(Message, EachComesBackFromAnUnalignedPlace) {
  for (const Message& message : one_of_each()) {
    const auto bytes = encode(message);
    std::vector<std::byte> shifted(bytes.size() + 1);
    std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
    const auto back = decode(std::span{shifted}.subspan(1));
    ASSERT_TRUE(back.ok()) << name_of(message);
    EXPECT_TRUE(are_same(message, *back)) << name_of(message);
  }
}

TEST(Message, AnArgumentOfWhatComesLaterIsRefused) {
  auto worker = Maker{}.make<InspectedWorker>();
  worker.waits[0].argument_of = 1;
  EXPECT_FALSE(decode(encode(Inspected{.workers = {worker}})).ok());
  worker.waits[0].argument_of = -2;
  EXPECT_FALSE(decode(encode(Inspected{.workers = {worker}})).ok());
}

TEST(Message, EachHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Message& message : one_of_each()) names.insert(name_of(message));
  EXPECT_EQ(names.size(), std::variant_size_v<MessageKinds>);
  EXPECT_EQ(name_of(Message{Failure{Error{ErrorCode::kInternal, ""}}}), "Failure");
  EXPECT_EQ(name_of(Message{WorkerReaped{}}), "WorkerReaped");
  EXPECT_EQ(name_of(Message{EndWorker{}}), "EndWorker");
}

TEST(Message, DescriptorsTravelWithSixOfThem) {
  for (const Message& message : one_of_each()) {
    std::size_t expected = 0;
    if (std::holds_alternative<RegisterJob>(message) || std::holds_alternative<WorkerReady>(message) ||
        std::holds_alternative<WorkerForked>(message) || std::holds_alternative<ServeCaller>(message)) {
      expected = 1;
    }
    if (std::holds_alternative<ForkWorker>(message) || std::holds_alternative<StoreOpened>(message)) expected = 3;
    EXPECT_EQ(descriptors_of(message), expected) << name_of(message);
  }
}

TEST(Message, EveryTruncationIsRefused) {
  for (const Message& message : one_of_each()) {
    const auto whole = encode(message);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto cut = decode(std::span{whole}.first(size));
      EXPECT_FALSE(cut.ok()) << name_of(message) << " of " << size << " bytes";
      if (!cut.ok()) {
        EXPECT_EQ(cut.error().code(), ErrorCode::kCorrupt);
      }
    }
  }
}

TEST(Message, AFailureOfACodeThatDoesNotExistIsRefused) {
  const Failure failure{Error{static_cast<ErrorCode>(200), "x"}};
  EXPECT_EQ(decode(encode(failure)).error().code(), ErrorCode::kCorrupt);
  const Failure outcome{Error{ErrorCode::kInternal, "x"}.with_outcome(static_cast<Outcome>(3))};
  EXPECT_EQ(decode(encode(outcome)).error().code(), ErrorCode::kCorrupt);
}

/// The header has a magic number, the version of the codec, and a hash of the structure of all messages.
constexpr std::size_t kHeaderBytes = 4 + 4 + 8;

using RandomMessage = SeededTest;

TEST_F(RandomMessage, MutatedAndTruncatedMessagesDecodeOrAreCorrupt) {
  std::vector<std::vector<std::byte>> valid;
  for (const Message& message : one_of_each()) valid.push_back(encode(message));
  std::size_t decoded = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto bad = valid[between(0, valid.size() - 1)];
    for (std::size_t i = between(1, 8); i > 0; --i) {
      bad[between(kHeaderBytes, bad.size() - 1)] = static_cast<std::byte>(random_());
    }
    if (chance(3)) bad.resize(between(0, bad.size()));
    const auto result = decode(bad);
    if (!result) {
      ASSERT_EQ(result.error().code(), ErrorCode::kCorrupt);
    } else {
      ++decoded;
      ASSERT_TRUE(decode(encode(*result)).ok()) << "what was accepted can be sent on";
    }
  }
  EXPECT_GT(decoded, 0u) << "no mutation was harmless: the test shows nothing";
}

/// Returns the offset of the given element count in the encoded bytes.
std::size_t place_of_count(const std::vector<std::byte>& bytes, std::uint64_t count) {
  std::vector<std::byte> wanted(sizeof count);
  std::memcpy(wanted.data(), &count, sizeof count);
  const auto found = std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end());
  EXPECT_NE(found, bytes.end());
  return static_cast<std::size_t>(found - bytes.begin());
}

TEST(Message, AListThatClaimsMoreThanThereIsIsRefusedFast) {
  RegisterJob job;
  job.arguments = std::vector<std::string>(1000, "argument");
  const auto whole = encode(job);
  const std::size_t at = place_of_count(whole, 1000);
  const auto begin = std::chrono::steady_clock::now();
  for (const std::uint64_t claimed : {std::uint64_t{20'000}, std::uint64_t{1} << 28, ~std::uint64_t{0}}) {
    auto absurd = whole;
    std::memcpy(absurd.data() + at, &claimed, sizeof claimed);
    EXPECT_EQ(decode(absurd).error().code(), ErrorCode::kCorrupt) << claimed;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST(Message, BytesOfAnotherVersionAreRefused) {
  const auto whole = encode(WorkerReaped{});
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    auto other = whole;
    other[i] ^= std::byte{1};
    EXPECT_EQ(decode(other).error().code(), i < 4 ? ErrorCode::kCorrupt : ErrorCode::kUnsupported) << i;
  }
}

TEST(Message, ANumberThatNamesNothingIsRefused) {
  PlaceGroup group;
  group.strategy = static_cast<Strategy>(4);
  EXPECT_EQ(decode(encode(group)).error().code(), ErrorCode::kCorrupt);
  Inspected inspected;
  inspected.workers.resize(1);
  inspected.workers[0].waits.push_back({.stage = static_cast<PendingResult::Stage>(4)});
  EXPECT_EQ(decode(encode(inspected)).error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace pharos::wire
