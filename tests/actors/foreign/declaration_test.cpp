#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <pharos/pharos.hpp>
#include <pharos/wire/frame.hpp>

#include "worker/method_search.hpp"

namespace drawn {

struct Point {
  double x;
  double y;
};
enum class Colour : std::uint8_t { kRed };
struct Line {
  Point from;
  Point to;
  Colour colour;
};
struct Chain {
  int link;
  std::unique_ptr<Chain> next;
};
class Title {
 public:
  auto pharos_fields() { return std::tie(text_, sizes_); }

 private:
  std::string text_;
  int sizes_[2] = {};
};
class Version {
 public:
  int number = 0;
  Version() = default;
  explicit Version(int from) : number{from} {}
};

class Board {
 public:
  int add(int count) { return count; }
  int add(const Point&) { return 1; }
  std::optional<double> size() const noexcept { return 1; }
  pharos::Async<pharos::Bytes> image() { co_return pharos::Bytes{}; }
  void hidden(pharos::Ref<int>) {}

  // NOLINTNEXTLINE(readability-identifier-naming): Pharos's
  static constexpr auto pharos_methods =
      pharos::methods<pharos::overload<int(int)>(&Board::add), pharos::overload<int(const Point&)>(&Board::add),
                      &Board::size, &Board::image>;
};

}  // namespace drawn

template <>
struct pharos::Codec<drawn::Version> : pharos::PlainCodec<drawn::Version> {
  static constexpr std::string_view kFormat = "drawn.Version/1";
};

namespace pharos::actors {
namespace {

using detail::declaration_of;
using detail::Types;

TEST(Declaration, HasTheNamesOfTheResultTheMethodAndTheParameters) {
  EXPECT_EQ(declaration_of<void>("go", Types<>{}), "void go()");
  EXPECT_EQ((declaration_of<int>("add", Types<int, std::string, std::vector<double>>{})),
            "int add(int, std::string, std::vector<double>)");
  EXPECT_EQ(declaration_of<Bytes>("read", Types<SharedSpan<float>>{}), "pharos::Bytes read(pharos::SharedSpan<float>)");
}

TEST(Declaration, SaysOnceOfWhatEachTypeConsists) {
  EXPECT_EQ(
      (declaration_of<drawn::Line>("move", Types<drawn::Line, std::vector<drawn::Point>>{})),
      "drawn::Line move(drawn::Line, std::vector<drawn::Point>), where drawn::Line is {drawn::Point, drawn::Point, "
      "drawn::Colour}, drawn::Point is {double, double}, drawn::Colour is {unsigned char}");
  EXPECT_EQ(declaration_of<void>("set", Types<drawn::Title>{}),
            "void set(drawn::Title), where drawn::Title is {std::string, int [2]}");
  EXPECT_EQ(declaration_of<void>("set", Types<drawn::Version>{}),
            "void set(drawn::Version), where drawn::Version is drawn.Version/1");
  EXPECT_EQ(declaration_of<void>("set", Types<SharedSpan<drawn::Point>>{}),
            "void set(pharos::SharedSpan<drawn::Point>), where drawn::Point is {double, double}");
}

TEST(Declaration, EndsForATypeThatContainsItself) {
  EXPECT_EQ(declaration_of<void>("pull", Types<drawn::Chain>{}),
            "void pull(drawn::Chain), where drawn::Chain is {int, std::unique_ptr<drawn::Chain, "
            "std::default_delete<drawn::Chain> >}");
}

TEST(MethodSearch, TakesTheNameOutOfThatOfTheFunction) {
  EXPECT_EQ(name_of_method("Counter::add"), "add");
  EXPECT_EQ(name_of_method("space::Counter::add(int, void (*)(int)) const"), "add");
  EXPECT_EQ(name_of_method("int Counter::get<std::vector<int> >()"), "get<std::vector<int> >");
  EXPECT_EQ(name_of_method("made(int)::Counter::add"), "add");
  EXPECT_EQ(name_of_method("made(int)::Counter::add(int) const"), "add");
  EXPECT_EQ(name_of_method("Box<std::string>::open"), "open");
  EXPECT_EQ(name_of_method(""), "");
  EXPECT_EQ(name_of_method(")"), "");
}

class MethodSearchTest : public testing::Test {
 protected:
  std::optional<Error> search(const std::string& name, const std::string& declaration,
                              const detail::Function& constructor = board()) {
    Encoder question;
    Codec<SoughtMethod>::encode({name, declaration}, question);
    return search_method(constructor, wire::kNoFlags, question.bytes(), found_);
  }
  static detail::Function board() { return detail::constructor_function<drawn::Board>(typeid(drawn::Board), nullptr); }
  Encoder found_;
};

TEST_F(MethodSearchTest, FindsEachMethodThatTheClassOffersByItsDeclaration) {
  for (const char* const declaration : {"int add(int)", "int add(drawn::Point), where drawn::Point is {double, double}",
                                        "std::optional<double> size()", "pharos::Bytes image()"}) {
    found_.clear();
    EXPECT_EQ(search("any", declaration), std::nullopt) << declaration;
    EXPECT_EQ(found_.size(), sizeof(std::uint32_t));
  }
}

TEST_F(MethodSearchTest, AMismatchShowsBothDeclarations) {
  const auto error = search("size", "std::optional<float> size()");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kFunctionNotFound);
  EXPECT_EQ(error->outcome(), Outcome::kNotStarted);
  EXPECT_EQ(error->message(),
            "it offers no method \"std::optional<float> size()\"; it offers \"std::optional<double> size()\"");
  const auto overloaded = search("add", "int add(drawn::Point), where drawn::Point is {float, float}");
  EXPECT_EQ(overloaded->message(),
            "it offers no method \"int add(drawn::Point), where drawn::Point is {float, float}\"; it offers "
            "\"int add(int)\", \"int add(drawn::Point), where drawn::Point is {double, double}\"");
}

TEST_F(MethodSearchTest, ANameThatNoMethodHasListsThemAll) {
  EXPECT_EQ(search("hidden", "void hidden()")->message(),
            "it offers no method \"void hidden()\"; it offers \"int add(int)\", \"int add(drawn::Point), where "
            "drawn::Point is {double, double}\", \"std::optional<double> size()\", \"pharos::Bytes image()\"");
}

TEST_F(MethodSearchTest, AClassThatListsNoMethodsSaysHowTo) {
  const auto error =
      search("link", "int link()", detail::constructor_function<drawn::Point>(typeid(drawn::Point), nullptr));
  EXPECT_EQ(error->message(), "it offers no methods to programs of other builds; \"int link()\" was asked for");
  EXPECT_NE(error->remedy().find("pharos_methods"), std::string::npos);
}

TEST_F(MethodSearchTest, BytesThatAreNoQuestionAreRefused) {
  const auto refused = [&](std::span<const std::byte> bytes, std::uint8_t flags = wire::kNoFlags) {
    const auto error = search_method(board(), flags, bytes, found_);
    return error && error->code() == ErrorCode::kInvalidArgument && found_.size() == 0;
  };
  EXPECT_TRUE(refused({}));
  Encoder question;
  Codec<SoughtMethod>::encode({"add", "int add(int)"}, question);
  const std::vector<std::byte> bytes = question.flattened();
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_TRUE(refused(std::span{bytes}.first(size))) << size;
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_TRUE(refused(longer));
  auto endless = bytes;
  endless[7] = std::byte{0x7f};  // the count of the first text
  EXPECT_TRUE(refused(endless));
  EXPECT_TRUE(refused(bytes, wire::kInPieces));
  Encoder large;
  Codec<SoughtMethod>::encode({"add", std::string(65 << 10, 'x')}, large);
  EXPECT_TRUE(refused(large.bytes()));
}

}  // namespace
}  // namespace pharos::actors
