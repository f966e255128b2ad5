#include <gtest/gtest.h>

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include <pharos/wire/id_codec.hpp>
#include <pharos/wire/shared_span.hpp>
#include <pharos/wire/stored_codec.hpp>

namespace pharos {
namespace {

struct Settings {
  std::string name;
  std::map<std::string, double> rates;
  bool operator==(const Settings&) const = default;
};
struct OtherNames {
  std::string title;
  std::unordered_map<std::string, double> factors;
};
struct MoreFields {
  std::string name;
  std::map<std::string, double> rates;
  int extra;
};
struct StoredTree {
  int value = 0;
  std::vector<StoredTree> children;
};
struct Ring {
  int value = 0;
  std::vector<std::vector<Ring>> children;
};
class Hidden {
 public:
  auto pharos_fields() { return std::tie(name_, rates_); }

 private:
  std::string name_;
  std::map<std::string, double> rates_;
};

struct Samples {
  int rate = 0;
  SharedSpan<float> values;
};
struct SamplesInVector {
  int rate = 0;
  std::vector<float> values;
};

const Settings kSettings{"fast", {{"a", 1.5}}};

template <class T>
Error error_from(const std::vector<std::byte>& bytes) {
  return from_bytes<T>(bytes).error();
}

TEST(StoredValues, ComeBack) {
  const auto bytes = *to_bytes(kSettings);
  EXPECT_EQ(*from_bytes<Settings>(bytes), kSettings);
  EXPECT_EQ(*from_bytes<ActorId>(*to_bytes(ActorId{4})), ActorId{4});
  EXPECT_EQ(**from_bytes<std::unique_ptr<int>>(*to_bytes(std::make_unique<int>(3))), 3);
  EXPECT_EQ(*from_bytes<Bytes>(*to_bytes(Bytes{std::string(10'000, 'x')})), Bytes{std::string(10'000, 'x')});
}

TEST(StoredValues, ASharedSpanIsStoredAsAVectorIs) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{100'000}}) {
    const std::vector<float> values(count, 1.5F);
    const auto bytes = *to_bytes(Samples{8, SharedSpan<float>{values}});
    EXPECT_EQ(bytes, *to_bytes(SamplesInVector{8, values}));
    EXPECT_EQ(from_bytes<SamplesInVector>(bytes)->values, values);
    const Samples back = *from_bytes<Samples>(bytes);
    EXPECT_EQ(back.rate, 8);
    EXPECT_EQ((std::vector<float>{back.values.begin(), back.values.end()}), values);
    EXPECT_EQ(error_from<SharedSpan<int>>(*to_bytes(SharedSpan<float>{values})).code(), ErrorCode::kInvalidArgument);
  }
}

TEST(StoredValues, OfAnotherTypeAreRefused) {
  const auto bytes = *to_bytes(kSettings);
  EXPECT_EQ(error_from<MoreFields>(bytes).code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(error_from<MoreFields>(bytes).message().find("another type"), std::string::npos);
  EXPECT_EQ(error_from<std::string>(bytes).code(), ErrorCode::kInvalidArgument);
}

TEST(StoredValues, OfAnotherVersionAreRefused) {
  auto bytes = *to_bytes(kSettings);
  bytes[4] = std::byte{kCodecVersion + 1};
  EXPECT_EQ(error_from<Settings>(bytes).code(), ErrorCode::kUnsupported);
  EXPECT_NE(error_from<Settings>(bytes).message().find("version 2"), std::string::npos);
}

TEST(StoredValues, ThatAreCutShortOrTooLongOrSomethingElseAreRefused) {
  auto bytes = *to_bytes(kSettings);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> cut{bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
    EXPECT_EQ(error_from<Settings>(cut).code(), ErrorCode::kCorrupt) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_EQ(error_from<Settings>(bytes).code(), ErrorCode::kCorrupt);
  EXPECT_EQ(error_from<Settings>(std::vector<std::byte>(100, std::byte{'x'})).code(), ErrorCode::kCorrupt);
}

TEST(StoredValues, ThatCannotBeEncodedAreRefused) {
  StoredTree tree;
  for (int i = 0; i < kNestingMax + 1; ++i) {
    StoredTree outer;
    outer.children.push_back(std::move(tree));
    tree = std::move(outer);
  }
  EXPECT_EQ(to_bytes(tree).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Shapes, AreThoseOfTheFieldsNotOfTheirNames) {
  using detail::shape_of;
  EXPECT_EQ(shape_of<Settings>(), shape_of<OtherNames>());
  EXPECT_EQ(shape_of<Settings>(), shape_of<Hidden>());
  EXPECT_EQ(shape_of<std::vector<int>>(), shape_of<std::list<int>>());
  EXPECT_EQ(shape_of<Bytes>(), shape_of<std::vector<std::byte>>());
}

TEST(Shapes, DifferWhereTheBytesWould) {
  using detail::shape_of;
  const std::vector<std::uint64_t> shapes{
      shape_of<int>(),
      shape_of<unsigned>(),
      shape_of<float>(),
      shape_of<double>(),
      shape_of<long>(),
      shape_of<bool>(),
      shape_of<std::string>(),
      shape_of<std::vector<int>>(),
      shape_of<std::optional<int>>(),
      shape_of<std::tuple<int>>(),
      shape_of<std::tuple<int, int>>(),
      shape_of<std::tuple<std::tuple<int>, int>>(),
      shape_of<std::tuple<std::tuple<int, int>>>(),
      shape_of<std::tuple<>>(),
      shape_of<std::variant<int, double>>(),
      shape_of<std::variant<double, int>>(),
      shape_of<std::array<int, 2>>(),
      shape_of<std::array<int, 3>>(),
      shape_of<std::map<int, int>>(),
      shape_of<std::multimap<int, int>>(),
      shape_of<std::chrono::seconds>(),
      shape_of<std::chrono::milliseconds>(),
      shape_of<Settings>(),
      shape_of<MoreFields>(),
      shape_of<StoredTree>(),
      shape_of<Ring>(),
      shape_of<ActorId>(),
  };
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(shapes[i], shapes[j]) << i << " and " << j;
  }
}

TEST(Shapes, StayWhatTheyAreFromBuildToBuild) {
  EXPECT_EQ(detail::shape_of<Settings>(), 630920982197753815u)
      << "a file written yesterday could not be read: raise kCodecVersion";
}

}  // namespace
}  // namespace pharos
