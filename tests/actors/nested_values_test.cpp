// Tests of Refs and actor handles inside values.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/async/completion.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::nested_values {
namespace {

using namespace std::chrono_literals;

int twice(int value) {
  return 2 * value;
}
int twice_late(int value) {
  std::this_thread::sleep_for(50ms);
  return 2 * value;
}
int fail_late() {
  std::this_thread::sleep_for(50ms);
  throw std::runtime_error{"no number, late"};
}
int fail() {
  throw std::runtime_error{"no number today"};
}
Bytes block(int size) {
  return Bytes{std::string(static_cast<std::size_t>(size), 'b')};
}

int put_and_measure() {
  return static_cast<int>(Runtime{}.put(std::string(300, 'x')).get().size());
}
// If there is no free CPU for the inner task, the thread of this task runs it while it waits.
int put_what_is_pending() {
  Runtime runtime;
  const auto put = runtime.put(std::vector<Ref<int>>{runtime.submit<&put_and_measure>()});
  return put.get()[0].get();
}

int sum(const std::vector<Ref<int>>& refs) {
  int total = 0;
  for (const Ref<int>& ref : refs) total += ref.ready() ? ref.get() : -1'000'000;
  return total;
}
int value_of(const Ref<int>& ref) {
  return ref.get();
}
std::string outcomes(const std::vector<Ref<int>>& refs) {
  std::string all;
  for (const Ref<int>& ref : refs) {
    const auto outcome = ref.try_get();
    all += outcome ? std::to_string(*outcome) + ' ' : outcome.error().message() + ' ';
  }
  return all;
}

struct Everything {
  std::map<std::string, Ref<int>> by_name;
  std::optional<Ref<std::string>> text;
  std::variant<int, Ref<int>> either;
  std::unique_ptr<std::pair<Ref<int>, Ref<void>>> pair;
};
std::string greet() {
  return "hello";
}
void nothing() {}
std::string describe(const Everything& everything) {
  everything.pair->second.get();
  return std::to_string(everything.by_name.at("four").get()) + everything.text->get() +
         std::to_string(std::get<1>(everything.either).get()) + std::to_string(everything.pair->first.get());
}

Ref<int> submit_twice(int value) {
  return Runtime{}.submit<&twice_late>(value);
}
std::vector<Ref<int>> submit_all(int count) {
  Runtime runtime;
  std::vector<Ref<int>> refs;
  for (int i = 0; i < count; ++i) refs.push_back(runtime.submit<&twice_late>(i));
  refs.push_back(runtime.submit<&fail>());
  return refs;
}

class Counter {
 public:
  explicit Counter(int from) : count_{from} {}
  int add(int n) { return count_ += n; }
  int process() { return ::getpid(); }

 private:
  int count_;
};

int add_to_all(const std::vector<Actor<Counter>>& counters, int n) {
  int total = 0;
  for (const auto& counter : counters) total += counter.call<&Counter::add>(n).get();
  return total;
}
int add_to_each(const std::vector<Ref<Actor<Counter>>>& counters, int n) {
  std::vector<Actor<Counter>> all;
  for (const auto& counter : counters) all.push_back(counter.get());
  return add_to_all(all, n);
}
int add_to(const Actor<Counter>& counter, int n) {
  return counter.call<&Counter::add>(n).get();
}

/// Calls of pass() wait until open().
class Gate {
 public:
  Async<int> pass(int value) {
    async::Completion<void> opened;
    waiting_.push_back(opened);
    const auto waited = co_await opened.wait(Deadline::never());
    co_return waited ? value : -1;
  }
  void open() {
    for (auto& each : std::exchange(waiting_, {})) each.complete();
  }

 private:
  std::vector<async::Completion<void>> waiting_;
};

/// Makes actors and returns their handles.
class Maker {
 public:
  Actor<Counter> make(int from) { return Runtime{}.spawn<Counter>(from); }
  std::tuple<int, Actor<Counter>> make_and_say(int from) { return {from, make(from)}; }
  Async<std::vector<Actor<Counter>>> make_two(int from) {
    std::vector<Actor<Counter>> made{make(from), make(from + 1)};
    co_return made;
  }
  std::pair<Bytes, Actor<Counter>> make_with_block(int size) { return {block(size), make(size)}; }
  Ref<Actor<Counter>> later(int from) {
    return Runtime{}.submit<[](int n) { return Runtime{}.spawn<Counter>(n); }>(from);
  }
  Async<std::vector<Ref<int>>> pass_all(Actor<Gate> gate, int count) {
    std::vector<Ref<int>> refs;
    for (int i = 0; i < count; ++i) refs.push_back(gate.call<&Gate::pass>(i));
    co_return refs;
  }
  Actor<Counter> promise(const Actor<Gate>& gate) { return Runtime{}.spawn<Counter>(gate.call<&Gate::pass>(1)); }
  int process() { return ::getpid(); }
};

Deadline soon() {
  return Deadline::in(10s);
}

class NestedValuesTest : public ClusterTest {
 protected:
  static bool is_gone(int process) {
    return eventually([&] { return ::kill(process, 0) != 0; }, 5s);
  }
};

// ---- Refs

TEST_F(NestedValuesTest, AValueTravelsOnceItsRefsAreThere) {
  Runtime runtime;
  std::vector<Ref<int>> refs;
  for (int i = 0; i < 20; ++i) refs.push_back(runtime.submit<&twice_late>(i));
  EXPECT_EQ(runtime.submit<&sum>(refs).get(soon()), 380);
  EXPECT_EQ(runtime.submit<&sum>(std::vector<Ref<int>>{}).get(soon()), 0);
  // The parameter itself is a Ref.
  EXPECT_EQ(runtime.submit<&value_of>(refs[3]).get(soon()), 6);
}

TEST_F(NestedValuesTest, ARefInsideThatFailedFailsWhereItIsAskedAndNotTheCall) {
  Runtime runtime;
  const std::vector<Ref<int>> refs{runtime.submit<&twice>(1), runtime.submit<&fail>()};
  const std::string all = runtime.submit<&outcomes>(refs).get(soon());
  EXPECT_EQ(all.substr(0, 2), "2 ");
  EXPECT_SAYS(all, "no number today");
}

TEST_F(NestedValuesTest, RefsAreAnywhereInAValue) {
  Runtime runtime;
  Everything everything{
      .by_name = {},
      .text = runtime.submit<&greet>(),
      .either = runtime.submit<&twice>(3),
      .pair = std::make_unique<std::pair<Ref<int>, Ref<void>>>(runtime.submit<&twice>(4), runtime.submit<&nothing>())};
  everything.by_name.emplace("four", runtime.submit<&twice>(2));
  EXPECT_EQ(runtime.submit<&describe>(std::move(everything)).get(soon()), "4hello68");
}

TEST_F(NestedValuesTest, ResultsHoldRefsThatWereNotThereWhenTheFunctionReturned) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&submit_twice>(4).get(soon()).get(soon()), 8);
  const auto refs = runtime.submit<&submit_all>(5).get(soon());
  ASSERT_EQ(refs.size(), 6u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(refs[static_cast<std::size_t>(i)].get(), 2 * i);
  EXPECT_SAYS(message_of<UserError>([&] { refs[5].get(); }), "no number today");
  // The result of a result is an argument like any other.
  EXPECT_EQ(runtime.submit<&value_of>(runtime.submit<&submit_twice>(5)).get(soon()), 10);
}

TEST_F(NestedValuesTest, ACoroutineWhoseResultWaitsForRefsLetsOtherCallsRun) {
  Runtime runtime;
  const auto maker = runtime.spawn<Maker>();
  const auto gate = runtime.spawn<Gate>();
  const auto refs = maker.call<&Maker::pass_all>(gate, 3);
  EXPECT_GT(maker.call<&Maker::process>().get(soon()), 0);
  EXPECT_FALSE(refs.ready());
  // The test opens the gate repeatedly, because the maker's calls may arrive after the first time.
  EXPECT_TRUE(eventually([&] {
    gate.call<&Gate::open>().get(soon());
    return refs.ready();
  }));
  EXPECT_EQ(refs.get(soon())[2].get(soon()), 2);
}

TEST_F(NestedValuesTest, WhatIsPutAndWhatThenMakesHoldRefsToo) {
  Runtime runtime;
  const auto put = runtime.put(std::vector<Ref<int>>{runtime.submit<&twice_late>(1), runtime.submit<&twice>(2)});
  EXPECT_EQ(runtime.submit<&sum>(put).get(soon()), 6);
  EXPECT_EQ(put.get()[0].get(), 2);
  const auto made = runtime.submit<&twice>(1).then([&](int two) { return runtime.submit<&twice_late>(two); });
  EXPECT_EQ(made.get(soon()).get(soon()), 4);
  EXPECT_EQ(made.then([](const Ref<int>& four) { return four.get(); }).get(soon()), 4);
}

TEST_F(NestedValuesTest, WhatIsPutIsWholeThoughItsThreadPutsOtherThingsWhileItWaits) {
  Runtime runtime;
  std::vector<Ref<int>> all;
  for (int i = 0; i < 20; ++i) all.push_back(runtime.submit<&put_what_is_pending>());
  for (const auto& each : all) EXPECT_EQ(each.get(soon()), 300);
}

TEST_F(NestedValuesTest, LargeValuesAreSharedWhereverTheirRefsTravel) {
  Runtime runtime;
  constexpr int kSize = 3 << 20;
  const auto large = runtime.put(block(kSize));
  const auto total = [](const std::vector<Ref<Bytes>>& blocks) {
    std::size_t bytes = 0;
    for (const auto& each : blocks) bytes += each.get().size();
    return bytes;
  };
  const std::vector<Ref<Bytes>> blocks{large, runtime.submit<&block>(10), runtime.submit<&block>(kSize), large};
  EXPECT_EQ(runtime.submit<total>(blocks).get(soon()), 3u * kSize + 10);
  // The values come back in one object.
  const auto same = [](const std::vector<Ref<Bytes>>& all) { return all; };
  const auto back = runtime.submit<same>(blocks).get(soon());
  ASSERT_EQ(back.size(), 4u);
  EXPECT_TRUE(back[0].get() == large.get());
  EXPECT_EQ(back[1].get().size(), 10u);
  // The values are views of that object; get() does not copy it.
  EXPECT_EQ(back[2].get().data(), back[2].get().data());
  EXPECT_EQ(runtime.submit<total>(back).get(soon()), 3u * kSize + 10);
}

TEST_F(NestedValuesTest, ManyRefsOfLargeValuesTravelInOneValue) {
  Runtime runtime;
  constexpr int kSize = 200 << 10;
  std::vector<Ref<Bytes>> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(runtime.put(block(kSize + i)));
  const auto total = [](const std::vector<Ref<Bytes>>& all) {
    std::size_t bytes = 0;
    for (const auto& each : all) bytes += each.get().size();
    return bytes;
  };
  EXPECT_EQ(runtime.submit<total>(blocks).get(soon()), 100u * kSize + 4950);
}

TEST_F(NestedValuesTest, ARefInsideOutlivesTheRuntimeThatBroughtIt) {
  std::optional<Ref<int>> inside;
  {
    Runtime runtime;
    inside = runtime.submit<&submit_twice>(7).get(soon());
  }
  EXPECT_EQ(inside->get(), 14);
}

// ---- Handles of actors

TEST_F(NestedValuesTest, ArgumentsHoldHandles) {
  Runtime runtime;
  const std::vector<Actor<Counter>> counters{runtime.spawn<Counter>(1), runtime.spawn<Counter>(2)};
  EXPECT_EQ(runtime.submit<&add_to_all>(counters, 10).get(soon()), 23);
  const auto maker = runtime.spawn<Maker>();
  const std::vector<Ref<Actor<Counter>>> made{maker.call<&Maker::make>(3), maker.call<&Maker::make>(4)};
  EXPECT_EQ(runtime.submit<&add_to_each>(made, 10).get(soon()), 27);
  EXPECT_EQ(runtime.submit<&add_to>(made[0], 1).get(soon()), 14);
}

TEST_F(NestedValuesTest, AHandleTravelsLongBeforeItsActorIsMade) {
  Runtime runtime;
  const auto gate = runtime.spawn<Gate>();
  const auto counter = runtime.spawn<Counter>(gate.call<&Gate::pass>(5));
  const auto sum = runtime.submit<&add_to>(counter, 2);
  // A message about an unknown actor waits 1 s at the head for the message of its maker. This test waits longer, so it
  // passes only if the maker has told the head that the actor will be made.
  EXPECT_FALSE(sum.try_get(Deadline::in(1200ms)).ok());
  gate.call<&Gate::open>().get(soon());
  EXPECT_EQ(sum.get(soon()), 7);
}

TEST_F(NestedValuesTest, WhoHasTheHandleOfAnActorThatIsNotMadeAfterAllIsToldWhy) {
  Runtime runtime;
  const auto sum = runtime.submit<&add_to>(runtime.spawn<Counter>(runtime.submit<&fail_late>()), 2);
  EXPECT_SAYS(message_of<ActorDied>([&] { sum.get(soon()); }), "no number, late");

  const auto gate = runtime.spawn<Gate>();
  auto maker = runtime.spawn<Maker>();
  const auto promised = maker.call<&Maker::promise>(gate).get(soon()).call<&Counter::add>(1);
  maker.kill();
  EXPECT_SAYS(message_of<ActorDied>([&] { promised.get(soon()); }),
              "its creator ended before the arguments of its constructor were ready");
}

TEST_F(NestedValuesTest, AnActorThatIsReturnedOutlivesItsMaker) {
  Runtime runtime;
  auto maker = runtime.spawn<Maker>();
  const int process = maker.call<&Maker::process>().get(soon());
  const auto counter = maker.call<&Maker::make>(1).get(soon());
  const auto two = maker.call<&Maker::make_two>(10).get(soon());
  const auto unread = maker.call<&Maker::make>(5);
  const auto inside = maker.call<&Maker::later>(20).get(soon());
  const auto [from, other] = maker.call<&Maker::make_and_say>(30).split();
  const auto with_block = maker.call<&Maker::make_with_block>(1 << 20).get(soon());
  EXPECT_EQ(other.get(soon()).call<&Counter::add>(1).get(soon()), 31);
  ASSERT_TRUE(eventually([&] { return unread.ready(); }));
  maker.kill();
  ASSERT_TRUE(is_gone(process));
  EXPECT_EQ(counter.call<&Counter::add>(1).get(soon()), 2);
  EXPECT_EQ(two[1].call<&Counter::add>(1).get(soon()), 12);
  EXPECT_EQ(unread.get(soon()).call<&Counter::add>(1).get(soon()), 6);
  EXPECT_EQ(inside.get(soon()).call<&Counter::add>(1).get(soon()), 21);
  EXPECT_EQ(from.get(), 30);
  EXPECT_EQ(with_block.second.call<&Counter::add>(0).get(soon()), 1 << 20);
  EXPECT_EQ(with_block.first.size(), std::size_t{1} << 20);
}

TEST_F(NestedValuesTest, AnActorEndsWithTheLastResultThatHoldsIt) {
  Runtime runtime;
  const auto maker = runtime.spawn<Maker>();
  int process = 0;
  {
    const auto result = maker.call<&Maker::make>(1);
    process = result.get(soon()).call<&Counter::process>().get(soon());
    // The same handle, in an object that this process puts.
    const auto put = runtime.put(std::vector{result.get()});
    EXPECT_EQ(put.get()[0].call<&Counter::process>().get(soon()), process);
    EXPECT_EQ(::kill(process, 0), 0);
  }
  EXPECT_TRUE(is_gone(process));
}

TEST_F(NestedValuesTest, AnActorWhoseResultNobodyWaitsForEnds) {
  Runtime runtime;
  const auto maker = runtime.spawn<Maker>();
  for (int i = 0; i < 3; ++i) static_cast<void>(maker.call<&Maker::make>(i));
  EXPECT_GT(maker.call<&Maker::process>().get(soon()), 0);
  // At most the maker and a worker of tasks remain.
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).size() <= 2; }, 5s));
}

}  // namespace
}  // namespace pharos::cluster::nested_values
