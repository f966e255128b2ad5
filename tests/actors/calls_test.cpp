#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::calls {
namespace {

using namespace std::chrono_literals;

// Every kind of function that a call can name, and every way in which arguments and results can travel.

int twice(int value) {
  return 2 * value;
}
std::string twice(const std::string& text) {
  return text + text;
}
int with_default(int value, int factor = 10) {
  return value * factor;
}
template <class T>
std::vector<T> three_times(const T& value) {
  return {value, value, value};
}
template <int by>
int multiplied(int value) {
  return by * value;
}

struct Scale {
  int by = 1;
  int operator()(int value) const { return by * value; }
};

class Shape {
 public:
  int sides() const { return sides_; }
  virtual int area() const { return 0; }
  virtual ~Shape() = default;

 protected:
  int sides_ = 0;
};

class Square final : public Shape {
 public:
  explicit Square(int length) : length_{length} { sides_ = 4; }
  int area() const override { return length_ * length_; }

  int grow(int by) { return length_ += by; }
  double grow(double by) { return length_ * by; }
  int length() const noexcept { return length_; }
  int length_of_lvalue() & { return length_; }
  int length_of_constant() const& noexcept { return length_; }
  int size() const { return length_; }
  int size(int unit) const { return length_ * unit; }
  template <class T>
  T length_as() const {
    return static_cast<T>(length_);
  }
  static int corners(int squares) { return 4 * squares; }
  void nothing() {}

 private:
  int length_;
};

int grow_twice(Square& square, int by) {
  square.grow(by);
  return square.grow(by);
}

struct Weights {
  std::unique_ptr<std::vector<int>> values;
};

int sum(std::unique_ptr<std::vector<int>> values) {
  int total = 0;
  for (const int value : *values) total += value;
  return total;
}
int sum_of_weights(const Weights& weights) {
  return sum(std::make_unique<std::vector<int>>(*weights.values));
}
std::unique_ptr<int> boxed(int value) {
  return std::make_unique<int>(value);
}
int unboxed(std::optional<std::unique_ptr<int>> box) {
  return **box;
}

class Holder {
 public:
  explicit Holder(std::unique_ptr<std::vector<int>> held) : held_{std::move(held)} {}
  int sum() const { return calls::sum(std::make_unique<std::vector<int>>(*held_)); }
  int replace(std::unique_ptr<std::vector<int>>&& held) {
    held_ = std::move(held);
    return sum();
  }
  std::unique_ptr<std::vector<int>> take() { return std::move(held_); }

 private:
  std::unique_ptr<std::vector<int>> held_;
};

/// Counts how often it was copied in this process.
struct Counted {
  static inline int copies = 0;
  Counted() = default;
  explicit Counted(int v) : value{v} {}
  Counted(const Counted& other) : value{other.value} { ++copies; }
  Counted(Counted&&) = default;
  Counted& operator=(const Counted&) = delete;
  Counted& operator=(Counted&&) = default;
  int value = 0;
  auto pharos_fields() { return std::tie(value); }
};
struct Wrapped {
  Wrapped() = default;
  explicit Wrapped(Counted from) : counted{std::move(from)} {}
  Counted counted;
  auto pharos_fields() { return std::tie(counted); }
};
int value_of(Counted counted) {
  return counted.value;
}
int value_of_wrapped(const Wrapped& wrapped) {
  return wrapped.counted.value;
}

std::tuple<int, std::string, std::unique_ptr<int>> three_results(int value) {
  return {value, std::to_string(value), std::make_unique<int>(value)};
}
std::pair<int, std::vector<int>> quotient(int a, int b) {
  if (b == 0) throw std::domain_error{"divided by zero"};
  return {a / b, std::vector<int>(static_cast<std::size_t>(a % b), b)};
}
std::size_t count(const std::vector<int>& values) {
  return values.size();
}
std::pair<bool, int> wait_until_cancelled() {
  while (!cancelled()) std::this_thread::sleep_for(1ms);
  return {true, 1};
}

Deadline soon() {
  return Deadline::in(20s);
}

using CallsTest = ClusterTest;

TEST_F(CallsTest, AnOverloadedFunctionIsNamedByItsSignature) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<overload<int(int)>(&twice)>(21).get(), 42);
  EXPECT_EQ(runtime.submit<overload<std::string(const std::string&)>(&twice)>("ab").get(), "abab");
  const auto square = runtime.spawn<Square>(3);
  EXPECT_EQ(square.call<overload<int(int)>(&Square::grow)>(1).get(), 4);
  EXPECT_EQ(square.call<overload<double(double)>(&Square::grow)>(0.5).get(), 2.0);
  EXPECT_EQ(square.call<overload<int() const>(&Square::size)>().get(), 4);
  EXPECT_EQ(square.call<overload<int(int) const>(&Square::size)>(2).get(), 8);
}

TEST_F(CallsTest, EveryKindOfMethodIsCalled) {
  Runtime runtime;
  const auto square = runtime.spawn<Square>(3);
  EXPECT_EQ(square.call<&Square::length>().get(), 3);
  EXPECT_EQ(square.call<&Square::length_of_lvalue>().get(), 3);
  EXPECT_EQ(square.call<&Square::length_of_constant>().get(), 3);
  EXPECT_EQ(square.call<&Square::length_as<double>>().get(), 3.0);
  EXPECT_EQ(square.call<&Square::sides>().get(), 4);  // inherited
  EXPECT_EQ(square.call<&Shape::area>().get(), 9);    // virtual
  EXPECT_EQ(square.call<&Square::corners>(2).get(), 8);
  square.call<&Square::nothing>().get();
}

TEST_F(CallsTest, OneWayCallsRunInTheirOrderAmongTheOthers) {
  Runtime runtime;
  const auto square = runtime.spawn<Square>(1);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < round % 7; ++i) square.send<pharos::overload<int(int)>(&Square::grow)>(1);
    square.send<[](Square& object) { object.grow(1); }>();
    ASSERT_EQ(square.call<&Square::length>().get(), 1 + (round / 7) * 28 + (round % 7 + 1) * (round % 7 + 2) / 2);
  }
  square.send<pharos::overload<int(int)>(&Square::grow)>({.deadline = Deadline::in(20s)},
                                                         runtime.submit<[](int value) { return value; }>(5));
  square.send<pharos::overload<int(int)>(&Square::grow)>(7);
  EXPECT_EQ(square.call<&Square::length>().get(), 1 + 28 * 28 + (1 + 2 + 3 + 4) + 5 + 7);
}

TEST_F(CallsTest, AnActorLivesUntilItsOneWayCallsHaveRun) {
  Runtime runtime;
  const auto log = runtime.spawn<Square>(0);
  constexpr int kCalls = 500;
  for (int i = 0; i < 3; ++i) {
    const auto other = runtime.spawn<Square>(0);
    for (int call = 0; call < kCalls; ++call) {
      other.send<[](Square&, const Actor<Square>& to) { to.send<pharos::overload<int(int)>(&Square::grow)>(1); }>(log);
    }
  }
  while (log.call<&Square::length>().get() < 3 * kCalls) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(log.call<&Square::length>().get(), 3 * kCalls);
}

TEST_F(CallsTest, AFunctionWhoseFirstParameterIsTheObjectGetsIt) {
  Runtime runtime;
  const auto square = runtime.spawn<Square>(3);
  EXPECT_EQ(square.call<&grow_twice>(2).get(), 7);
  const auto area = square.call<[](Square& self, int more) {
    self.grow(more);
    return self.area();
  }>(1);
  EXPECT_EQ(area.get(), 64);
  EXPECT_EQ(square.call<[](Shape& base) { return base.sides(); }>().get(), 4);
  EXPECT_EQ(square.call<[](int value) { return value + 1; }>(1).get(), 2);
}

TEST_F(CallsTest, AStaticMethodIsATask) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&Square::corners>(5).get(), 20);
}

TEST_F(CallsTest, InstancesOfTemplatesAreFunctions) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&three_times<int>>(7).get(), (std::vector<int>{7, 7, 7}));
  EXPECT_EQ(runtime.submit<&three_times<std::string>>("a").get(), (std::vector<std::string>{"a", "a", "a"}));
  EXPECT_EQ(runtime.submit<&multiplied<2>>(4).get(), 8);
  EXPECT_EQ(runtime.submit<&multiplied<3>>(4).get(), 12);
}

TEST_F(CallsTest, LambdasAndConstantObjectsAreFunctions) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<[](int value) { return 2 * value; }>(21).get(), 42);
  EXPECT_EQ(runtime.submit<[](const std::string& text) noexcept { return text.size(); }>("four").get(), 4u);
  EXPECT_EQ(runtime.submit<[] {}>().try_get().ok(), true);
  EXPECT_EQ(runtime.submit<Scale{3}>(5).get(), 15);
  EXPECT_EQ(runtime.submit<Scale{4}>(5).get(), 20);
  static constexpr auto kNext = [](int value) { return value + 1; };
  EXPECT_EQ(runtime.submit<kNext>(1).get(), 2);
  EXPECT_EQ(runtime.submit<[](int value) { return with_default(value); }>(3).get(), 30);  // has a default argument
}

TEST_F(CallsTest, AMoveOnlyArgumentIsMovedOrNamed) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&sum>(std::make_unique<std::vector<int>>(3, 7)).get(), 21);
  const auto named = std::make_unique<std::vector<int>>(2, 7);
  EXPECT_EQ(runtime.submit<&sum>(named).get(), 14);  // a named argument is encoded, not moved from
  EXPECT_EQ(runtime.submit<&sum_of_weights>(Weights{std::make_unique<std::vector<int>>(1, 5)}).get(), 5);
  EXPECT_EQ(*runtime.submit<&boxed>(9).get(), 9);
  EXPECT_EQ(runtime.submit<&unboxed>(std::make_unique<int>(8)).get(), 8);  // the argument is moved into the parameter
  EXPECT_EQ(runtime.submit<&unboxed>(runtime.submit<&boxed>(9)).get(), 9);
}

TEST_F(CallsTest, AnActorTakesAndGivesWhatIsMoveOnly) {
  Runtime runtime;
  const auto holder = runtime.spawn<Holder>(std::make_unique<std::vector<int>>(2, 3));
  EXPECT_EQ(holder.call<&Holder::sum>().get(), 6);
  EXPECT_EQ(holder.call<&Holder::replace>(std::make_unique<std::vector<int>>(1, 4)).get(), 4);
  EXPECT_EQ(*holder.call<&Holder::take>().get(), std::vector<int>{4});
}

TEST_F(CallsTest, ArgumentsAreNotCopiedOnTheirWay) {
  Runtime runtime;
  const Counted counted{5};
  Counted::copies = 0;
  EXPECT_EQ(runtime.submit<&value_of>(counted).get(), 5);
  EXPECT_EQ(runtime.submit<&value_of_wrapped>(Counted{6}).get(), 6);  // the argument is moved into the wrapper
  EXPECT_EQ(Counted::copies, 0);
}

TEST_F(CallsTest, OptionsMayBeVariables) {
  Runtime runtime;
  TaskOptions options{.max_retries = 1};
  EXPECT_EQ(runtime.submit<overload<int(int)>(&twice)>(options, 4).get(), 8);
  ActorOptions of_actor{.name = "square"};
  const auto square = runtime.spawn<Square>(of_actor, 3);
  CallOptions of_call{.unordered = true};
  EXPECT_EQ(square.call<&Square::length>(of_call).get(), 3);
}

TEST_F(CallsTest, ATupleIsSplitIntoARefForEachOfItsParts) {
  Runtime runtime;
  const auto [number, text, box] = runtime.submit<&three_results>(7).split();
  EXPECT_EQ(text.get(soon()), "7");
  EXPECT_EQ(number.get(soon()), 7);
  EXPECT_EQ(*box.get(soon()), 7);
  EXPECT_EQ(number.get(soon()), 7);  // a second get()
}

TEST_F(CallsTest, APartIsAnArgument) {
  Runtime runtime;
  const auto [whole, rest] = runtime.submit<&quotient>(17, 5).split();
  const auto doubled = runtime.submit<overload<int(int)>(&twice)>(whole);
  EXPECT_EQ(runtime.submit<&count>(rest).get(soon()), 2u);
  EXPECT_EQ(doubled.get(soon()), 6);
}

TEST_F(CallsTest, AnErrorGoesToAllParts) {
  Runtime runtime;
  const auto [whole, rest] = runtime.submit<&quotient>(1, 0).split();
  EXPECT_SAYS(message_of<UserError>([&, &part = whole] { part.get(soon()); }), "divided by zero");
  EXPECT_SAYS(message_of<UserError>([&, &part = rest] { part.get(soon()); }), "divided by zero");
}

TEST_F(CallsTest, TheCallIsCancelledWhenAllPartsAre) {
  Runtime runtime;
  const auto whole = runtime.submit<&wait_until_cancelled>();
  const auto [first, second] = whole.split();
  first.cancel();
  first.cancel();  // counts as one part, however often it is cancelled
  EXPECT_EQ(whole.try_get(Deadline::in(50ms)).error().code(), ErrorCode::kDeadlineExceeded);
  second.cancel();
  EXPECT_TRUE(whole.get(soon()).first);
  EXPECT_TRUE(first.get(soon()));
  EXPECT_EQ(second.get(soon()), 1);
}

TEST_F(CallsTest, ErrorsNameWhatWasCalledAsPeopleWriteIt) {
  Runtime runtime;
  const auto says = [](const auto& ref, const char* part) {
    EXPECT_SAYS(message_of<UserError>([&] { ref.get(soon()); }), part);
  };
  says(runtime.submit<&quotient>(1, 0), "calls::quotient threw std::domain_error: divided by zero");
  says(runtime.submit<[](const std::vector<std::string>&) -> int { throw 1; }>(std::vector<std::string>{}),
       "{lambda(std::vector<std::string> const&)#");
  const auto square = runtime.spawn<Square>(3);
  says(square.call<[](Square&) -> int { throw std::runtime_error{"no"}; }>(), "threw std::runtime_error: no");
}

TEST_F(CallsTest, TheFramesThatLibtorchListsAreNoPartOfAnError) {
  Runtime runtime;
  const auto fails = runtime.submit<[]() -> int {
    throw std::runtime_error{
        "size mismatch\nException raised from mul at mul.cpp:3 (most recent call first):\nframe #0: mul (0x7f)\n"};
  }>();
  const std::string text = message_of<UserError>([&] { fails.get(soon()); });
  EXPECT_SAYS(text, "threw std::runtime_error: size mismatch; thrown in ");
  EXPECT_EQ(text.find("frame #0"), std::string::npos) << text;
}

}  // namespace
}  // namespace pharos::cluster::calls
