#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <complex>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/wire/codec.hpp>

#include "coding.hpp"

namespace pharos {
namespace {

using namespace std::string_literals;

template <class T>
void expect_same(const T& value) {
  EXPECT_TRUE(round_trip(value) == value);
}

TEST(CodecOfStrings, EveryKindOfCharacterComesBack) {
  expect_same(std::u8string{u8"grüße"});
  expect_same(std::u16string{u"grüße"});
  expect_same(std::u32string{U"grüße"});
  expect_same(std::wstring{L"grüße"});
  expect_same(std::u32string{});
}

TEST(CodecOfSequences, VectorsDequesAndListsComeBack) {
  expect_same(std::vector<int>{});
  expect_same(std::vector<double>{1, 2, 3});
  expect_same(std::vector<std::string>{"", "one", std::string(5000, 'x')});
  expect_same(std::vector<std::vector<int>>{{}, {1}, {2, 3}});
  expect_same(std::vector<bool>{true, false, true});
  expect_same(std::deque<int>{1, 2, 3});
  expect_same(std::deque<std::string>{"a", "b"});
  expect_same(std::list<std::string>{"a", "b"});
  expect_same(std::list<std::uint8_t>{1, 2});
  expect_same(std::array<std::string, 3>{"a", "", "c"});
  expect_same(std::array<std::array<bool, 2>, 2>{{{true, false}, {false, true}}});
  expect_same(std::array<std::string, 0>{});
}

TEST(CodecOfSequences, NumbersLieSideBySide) {
  EXPECT_EQ(encoded(std::vector<double>(100)).size(), 8 + 100 * sizeof(double));
  EXPECT_EQ(encoded(std::array<std::uint16_t, 7>{}).size(), 14u);
}

TEST(CodecOfMapsAndSets, OrderedAndHashedOfOneAndOfManyComeBack) {
  expect_same(std::map<std::string, int>{{"a", 1}, {"b", 2}});
  expect_same(std::map<int, std::map<int, std::string>>{{1, {{2, "x"}}}, {3, {}}});
  expect_same(std::multimap<int, std::string>{{1, "a"}, {1, "b"}, {2, "c"}, {1, "d"}});
  expect_same(std::unordered_map<std::string, double>{{"a", 1}, {"b", 2}});
  expect_same(std::unordered_multimap<int, int>{{1, 1}, {1, 2}, {1, 1}});
  expect_same(std::set<std::string>{"b", "a"});
  expect_same(std::set<int, std::greater<>>{1, 2, 3});
  expect_same(std::multiset<int>{1, 1, 2});
  expect_same(std::unordered_set<std::string>{"a", "b"});
  expect_same(std::unordered_multiset<int>{1, 1, 2});
}

TEST(CodecOfMapsAndSets, AKeyThatComesTwiceFails) {
  EXPECT_EQ(failure_of<std::set<int>>(encoded(std::vector<int>{1, 2})), CodecFailure::kNone);
  EXPECT_EQ(failure_of<std::set<int>>(encoded(std::vector<int>{1, 2, 1})), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of<std::unordered_set<int>>(encoded(std::vector<int>{1, 1})), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of<std::multiset<int>>(encoded(std::vector<int>{1, 1})), CodecFailure::kNone);
  const auto pairs = encoded(std::vector<std::pair<int, int>>{{1, 1}, {1, 2}});
  EXPECT_EQ((failure_of<std::map<int, int>>(pairs)), CodecFailure::kInvalid);
  EXPECT_EQ((failure_of<std::unordered_map<int, int>>(pairs)), CodecFailure::kInvalid);
  EXPECT_EQ((failure_of<std::multimap<int, int>>(pairs)), CodecFailure::kNone);
}

TEST(CodecOfOptionals, NothingAndSomethingComeBack) {
  expect_same(std::optional<int>{});
  expect_same(std::optional<int>{5});
  expect_same(std::optional<std::string>{"text"});
  expect_same(std::optional<std::optional<int>>{std::optional<int>{}});
  EXPECT_EQ(failure_of<std::optional<bool>>({std::byte{2}, std::byte{1}}), CodecFailure::kInvalid);
}

struct Place {
  double x = 0;
  std::int32_t y = 0;
  bool operator==(const Place&) const = default;
};

TEST(CodecOfVariants, EachAlternativeComesBack) {
  using Value = std::variant<std::monostate, int, std::string, std::vector<Place>>;
  expect_same(Value{});
  expect_same(Value{7});
  expect_same(Value{"text"s});
  expect_same(Value{std::vector<Place>{{1, 2}}});
  expect_same(std::variant<int, int>{std::in_place_index<1>, 3});
}

TEST(CodecOfVariants, AnIndexBeyondTheLastFails) {
  using Value = std::variant<int, bool>;
  EXPECT_EQ(failure_of<Value>({std::byte{2}, std::byte{0}, std::byte{0}}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of<Value>(std::vector<std::byte>(6, std::byte{0xff})), CodecFailure::kInvalid);
}

struct ThrowsWhenMade {
  std::string text;
  ThrowsWhenMade() = default;
  explicit ThrowsWhenMade(int) { throw 1; }
  auto pharos_fields() { return std::tie(text); }
};

TEST(CodecOfVariants, OneWithoutAValueIsNotEncoded) {
  std::variant<int, ThrowsWhenMade> value;
  EXPECT_ANY_THROW(value.emplace<1>(1));
  ASSERT_TRUE(value.valueless_by_exception());
  Encoder encoder;
  Codec<decltype(value)>::encode(value, encoder);
  EXPECT_EQ(encoder.failure(), CodecFailure::kInvalid);
  encoder.clear();
  EXPECT_FALSE(encoder.failed());
}

TEST(CodecOfTuples, TuplesAndPairsComeBack) {
  expect_same(std::tuple<>{});
  expect_same(std::tuple<std::tuple<int>>{3});
  expect_same(std::tuple{1, "text"s, 2.5, true});
  expect_same(std::pair{std::vector<int>{1}, 'c'});
  expect_same(std::pair<const int, std::string>{1, "a"});
}

TEST(CodecOfTimes, DurationsAndTimePointsComeBack) {
  using namespace std::chrono;
  expect_same(seconds{5});
  expect_same(nanoseconds::min());
  expect_same(duration<double, std::milli>{1.5});
  expect_same(system_clock::now());
  expect_same(steady_clock::now());
  expect_same(time_point<system_clock, hours>{hours{3}});
  expect_same(std::vector<milliseconds>{1ms, 2ms});
  expect_same(sys_days{2024y / March / 1});
}

TEST(CodecOfPaths, PathsComeBack) {
  expect_same(std::filesystem::path{"/some/where.txt"});
  expect_same(std::filesystem::path{});
  expect_same(std::vector<std::filesystem::path>{"a", "b/c"});
}

TEST(CodecOfComplex, ComplexNumbersComeBack) {
  expect_same(std::complex<double>{1, -2});
  expect_same(std::vector<std::complex<float>>{{1, 2}, {3, 4}});
  EXPECT_EQ(encoded(std::complex<float>{}).size(), 8u);
}

enum class Weekday : std::uint8_t { kMonday = 1, kTuesday };
constexpr bool pharos_valid(Weekday day) {
  return day >= Weekday::kMonday && day <= Weekday::kTuesday;
}
enum class Switch : bool { kOff, kOn };
enum Plain : short { kPlainOne = 1 };

TEST(CodecOfEnums, ValuesAreCheckedWhereTheEnumSaysWhichThereAre) {
  expect_same(Weekday::kTuesday);
  expect_same(std::vector<Weekday>{Weekday::kMonday, Weekday::kTuesday});
  expect_same(Plain::kPlainOne);
  expect_same(Switch::kOn);
  EXPECT_EQ(failure_of<Weekday>({std::byte{0}}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of<Weekday>({std::byte{3}}), CodecFailure::kInvalid);
  EXPECT_EQ(failure_of<Switch>({std::byte{2}}), CodecFailure::kInvalid);
}

struct Empty {
  bool operator==(const Empty&) const = default;
};
struct Grid {
  char name[5] = {};
  std::string labels[2];
  double cells[2][3] = {};
  bool operator==(const Grid&) const = default;
};
struct Employee {
  std::string name;
  std::optional<int> age;
  Grid grid;
  Empty nothing;
  const double salary = 0;
  std::vector<Place> places;
  bool operator==(const Employee&) const = default;
};
struct Padded {
  std::uint8_t small = 0;
  std::uint32_t large = 0;
  bool operator==(const Padded&) const = default;
};
struct Bits {
  unsigned low : 3;
  int high : 5;
  bool operator==(const Bits&) const = default;
};

TEST(CodecOfAggregates, TheirFieldsComeBack) {
  expect_same(Empty{});
  const Grid grid{"grid", {"x", "y"}, {{1, 2, 3}, {4, 5, 6}}};
  expect_same(grid);
  expect_same(Employee{"Ann", 30, grid, {}, 1e5, {{1, 2}, {3, 4}}});
  expect_same(Padded{1, 2});
  expect_same(std::vector<Padded>{{1, 2}, {3, 4}});
  expect_same(Bits{5, -3});
  expect_same(std::map<std::string, Employee>{{"Ann", Employee{"Ann", {}, grid, {}, 2, {}}}});
}

TEST(CodecOfAggregates, PaddingDoesNotTravel) {
  EXPECT_EQ(encoded(Padded{1, 2}).size(), 5u);
  EXPECT_EQ(encoded(std::vector<Padded>(3)).size(), 8 + 3 * 5u);
  EXPECT_EQ(encoded(Place{1, 2}).size(), sizeof(double) + sizeof(int));
  struct OneBitField {
    unsigned low : 3;
  };
  OneBitField all;
  std::memset(&all, 0xff, sizeof all);
  EXPECT_EQ(encoded(all)[0], std::byte{7}) << "the other 29 bits are no value";
}

#define EIGHT_FIELDS(row) \
  int row##1 = 1, row##2 = 2, row##3 = 3, row##4 = 4, row##5 = 5, row##6 = 6, row##7 = 7, row##8;
struct SixtyFour {
  EIGHT_FIELDS(a) EIGHT_FIELDS(b) EIGHT_FIELDS(c) EIGHT_FIELDS(d);
  EIGHT_FIELDS(e) EIGHT_FIELDS(f) EIGHT_FIELDS(g) int h1, h2, h3, h4, h5, h6, h7;
  std::string last;
  bool operator==(const SixtyFour&) const = default;
};
#undef EIGHT_FIELDS

TEST(CodecOfAggregates, ThereMayBeSixtyFourFields) {
  SixtyFour value{};
  value.a8 = 3;
  value.d5 = 7;
  value.h7 = 6;
  value.last = "last";
  expect_same(value);
  EXPECT_EQ(encoded(value).size(), 63 * sizeof(int) + 8 + 4);
}

struct Node {
  int value = 0;
  std::unique_ptr<Node> next;
};
struct Branch {
  std::string name;
  std::vector<Branch> children;
  bool operator==(const Branch&) const = default;
};
struct Json {
  std::variant<std::monostate, bool, double, std::string, std::vector<Json>, std::map<std::string, Json>> value;
  bool operator==(const Json&) const = default;
};

TEST(CodecOfUniquePtrs, NullAndOwnedComeBack) {
  EXPECT_EQ(round_trip(std::unique_ptr<int>{}), nullptr);
  EXPECT_EQ(*round_trip(std::make_unique<int>(4)), 4);
  EXPECT_EQ(*round_trip(std::make_unique<const std::string>("text")), "text");
  EXPECT_EQ(**round_trip(std::make_unique<std::unique_ptr<int>>(std::make_unique<int>(3))), 3);
  const auto list = round_trip(std::vector<std::unique_ptr<int>>(3));
  EXPECT_EQ(list.size(), 3u);
}

TEST(CodecOfRecursiveTypes, ListsTreesAndDocumentsComeBack) {
  Node list{1, std::make_unique<Node>(Node{2, std::make_unique<Node>(Node{3, nullptr})})};
  const Node back = round_trip(list);
  EXPECT_EQ(back.next->next->value, 3);
  EXPECT_EQ(back.next->next->next, nullptr);
  expect_same(Branch{"root", {{"left", {}}, {"right", {{"leaf", {}}}}}});
  expect_same(Json{std::map<std::string, Json>{{"list", {std::vector<Json>{{1.5}, {true}, {}}}}, {"text", {"x"s}}}});
}

Node list_of(int nodes) {
  Node first{nodes, nullptr};
  for (int i = 1; i < nodes; ++i) first = Node{nodes - i, std::make_unique<Node>(std::move(first))};
  return first;
}
Branch tree_of(int levels) {
  Branch tree{"leaf", {}};
  for (int i = 1; i < levels; ++i) tree = Branch{"", {tree}};
  return tree;
}
template <class T>
CodecFailure encoding_failure(const T& value) {
  Encoder encoder;
  Codec<T>::encode(value, encoder);
  return encoder.failure();
}

TEST(CodecOfRecursiveTypes, NestingIsBoundedBothWays) {
  EXPECT_EQ(encoding_failure(list_of(kNestingMax)), CodecFailure::kNone);
  EXPECT_EQ(encoding_failure(list_of(kNestingMax + 1)), CodecFailure::kTooDeep);
  EXPECT_EQ(encoding_failure(list_of(20'000)), CodecFailure::kTooDeep);
  EXPECT_EQ(encoding_failure(tree_of(kNestingMax)), CodecFailure::kNone);
  EXPECT_EQ(encoding_failure(tree_of(kNestingMax + 1)), CodecFailure::kTooDeep);
  int nodes = 0;
  const Node back = round_trip(list_of(kNestingMax));
  for (const Node* node = &back; node != nullptr; node = node->next.get()) ++nodes;
  EXPECT_EQ(nodes, kNestingMax);

  Encoder endless;
  for (int i = 0; i < 100'000; ++i) {
    Codec<int>::encode(i, endless);
    Codec<bool>::encode(true, endless);
  }
  EXPECT_EQ(failure_of<Node>(endless.flattened()), CodecFailure::kTooDeep);
}

TEST(CodecOfRecursiveTypes, DepthIsCountedAnewForTheNextValue) {
  Encoder encoder;
  const Node list = list_of(kNestingMax - 10);
  for (int i = 0; i < 5; ++i) Codec<Node>::encode(list, encoder);
  EXPECT_FALSE(encoder.failed());
  Decoder decoder{encoder.bytes()};
  for (int i = 0; i < 5; ++i) Codec<Node>::decode(decoder);
  EXPECT_FALSE(decoder.failed());
  EXPECT_EQ(decoder.left(), 0u);
}

class Account {
 public:
  Account() = default;
  Account(std::string owner, double amount) : owner_{std::move(owner)}, amount_{amount} {}
  auto pharos_fields() { return std::tie(owner_, amount_, history_); }
  bool operator==(const Account&) const = default;
  virtual ~Account() = default;
  Account(const Account&) = default;

 private:
  std::string owner_;
  double amount_ = 0;
  int history_[3] = {1, 2, 3};
};
class SavingsAccount : public Account {
 public:
  SavingsAccount() = default;
  SavingsAccount(std::string owner, double rate) : Account{std::move(owner), 5}, rate_{rate} {}
  auto pharos_fields() { return std::tuple_cat(Account::pharos_fields(), std::tie(rate_)); }
  bool operator==(const SavingsAccount&) const = default;

 private:
  double rate_ = 0;
};
class NoFields {
 public:
  auto pharos_fields() { return std::tie(); }
  bool operator==(const NoFields&) const { return true; }

 private:
  [[maybe_unused]] int scratch_ = 0;
};

TEST(CodecOfNamedFields, PrivateOnesAndThoseOfBasesComeBack) {
  expect_same(Account{"Ann", 2.5});
  expect_same(SavingsAccount{"Bob", 0.03});
  expect_same(std::vector<NoFields>(3));
  expect_same(std::map<int, SavingsAccount>{{1, SavingsAccount{"Bob", 0.03}}});
}

class MoveOnly {
 public:
  explicit MoveOnly(std::string text = {}) : text_{std::make_unique<std::string>(std::move(text))} {}
  const std::string& text() const { return *text_; }
  auto pharos_fields() { return std::tie(text_); }

 private:
  std::unique_ptr<std::string> text_;
};
struct Box {
  MoveOnly content;
  std::optional<MoveOnly> spare;
};

TEST(CodecOfMoveOnlyTypes, TheyComeBack) {
  EXPECT_EQ(round_trip(MoveOnly{"text"}).text(), "text");
  const Box box{MoveOnly{"a"}, MoveOnly{"b"}};
  EXPECT_EQ(round_trip(box).spare->text(), "b");
  std::vector<Box> boxes;
  boxes.push_back(Box{MoveOnly{"c"}, std::nullopt});
  EXPECT_EQ(round_trip(boxes)[0].content.text(), "c");
  std::map<int, MoveOnly> map;
  map.emplace(1, MoveOnly{"d"});
  EXPECT_EQ(round_trip(map).at(1).text(), "d");
  EXPECT_EQ(std::get<0>(round_trip(std::tuple<MoveOnly, int>{MoveOnly{"e"}, 1})).text(), "e");
  EXPECT_EQ(std::get<1>(round_trip(std::variant<int, MoveOnly>{MoveOnly{"f"}})).text(), "f");
}

}  // namespace

/// Has a codec outside the class, and no default constructor.
class Celsius {
 public:
  explicit Celsius(double degrees) : degrees_{degrees} {}
  double degrees() const { return degrees_; }
  bool operator==(const Celsius&) const = default;

 private:
  double degrees_;
};
template <>
struct Codec<Celsius> {
  static constexpr double kAbsoluteZero = -273.15;
  static void encode(const Celsius& value, Encoder& to) { Codec<double>::encode(value.degrees(), to); }
  static Celsius decode(Decoder& from) {
    const auto degrees = Codec<double>::decode(from);
    if (!(degrees >= kAbsoluteZero)) from.fail();
    return Celsius{degrees};
  }
};
/// A type that is encoded as its plain bytes.
class Version {
 public:
  explicit Version(std::uint16_t major, std::uint16_t minor) : major_{major}, minor_{minor} {}
  bool operator==(const Version&) const = default;

 private:
  std::uint16_t major_;
  std::uint16_t minor_;
};
template <>
struct Codec<Version> : PlainCodec<Version> {};

namespace {

struct Room {
  int number;
  Celsius temperature;
  std::optional<int> guests;
  Version version;
  bool operator==(const Room&) const = default;
};

TEST(CodecOfOnesOwn, IsUsedWhereverTheTypeIs) {
  expect_same(Celsius{20});
  expect_same(std::vector<Celsius>{Celsius{1}, Celsius{2}});
  expect_same(std::optional<Celsius>{Celsius{3}});
  expect_same(Room{7, Celsius{21}, 2, Version{1, 2}});
  expect_same(std::array<Celsius, 2>{Celsius{1}, Celsius{2}});
  expect_same(std::vector<Version>{Version{1, 2}, Version{3, 4}});
  EXPECT_EQ(encoded(std::vector<Version>(3, Version{1, 2})).size(), 8 + 3 * 4u);
  EXPECT_EQ(failure_of<std::vector<Celsius>>(encoded(std::vector<double>{1, -300})), CodecFailure::kInvalid);
}

TEST(CodecCounts, ThatCannotBeTrueAllocateNothing) {
  for (const std::uint64_t count : {std::uint64_t{100}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Encoder encoder;
    encoder.write(&count, sizeof count);
    encoder.write("some bytes", 10);
    const auto bytes = encoder.flattened();
    EXPECT_EQ(failure_of<std::vector<double>>(bytes), CodecFailure::kTruncated);
    EXPECT_EQ(failure_of<std::vector<std::string>>(bytes), CodecFailure::kTruncated);
    EXPECT_EQ(failure_of<std::vector<Empty>>(bytes), CodecFailure::kTruncated);
    EXPECT_EQ(failure_of<std::vector<std::monostate>>(bytes), CodecFailure::kTruncated);
    EXPECT_EQ((failure_of<std::vector<std::array<std::array<double, 1000>, 1000>>>(bytes)), CodecFailure::kTruncated);
    EXPECT_EQ(failure_of<std::list<Branch>>(bytes), CodecFailure::kTruncated);
    EXPECT_EQ((failure_of<std::unordered_map<int, int>>(bytes)), CodecFailure::kTruncated);
    EXPECT_EQ(failure_of<std::u32string>(bytes), CodecFailure::kTruncated);
    EXPECT_EQ(failure_of<Bytes>(bytes), CodecFailure::kTruncated);
  }
}

std::size_t allocated = 0;  // bytes, counted by CountingAllocator
template <class T>
struct CountingAllocator : std::allocator<T> {
  using value_type = T;
  CountingAllocator() = default;
  template <class U>
  explicit CountingAllocator(const CountingAllocator<U>&) {}
  T* allocate(std::size_t count) {
    allocated += count * sizeof(T);
    return std::allocator<T>::allocate(count);
  }
};

TEST(CodecCounts, ReserveNoMoreMemoryThanTheBytesAccountFor) {
  using Large = std::optional<std::array<double, 1000>>;  // 8 kB in memory, but a byte on the wire
  std::vector<std::byte> bytes(8 + 1000, std::byte{2});   // 2 is not a valid flag of an optional
  const std::uint64_t count = 1000;
  std::memcpy(bytes.data(), &count, sizeof count);
  EXPECT_EQ((failure_of<std::vector<Large, CountingAllocator<Large>>>(bytes)), CodecFailure::kInvalid);
  EXPECT_LE(allocated, 16 * bytes.size() + sizeof(Large));
}

}  // namespace
}  // namespace pharos
