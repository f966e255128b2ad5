#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::refs {
namespace {

using namespace std::chrono_literals;

int add(int a, int b) {
  return a + b;
}
int add_slowly(int a, int b) {
  std::this_thread::sleep_for(100us);
  return a + b;
}
int twice(int value) {
  return 2 * value;
}
long negative(long value) {
  return -value;
}
int late(int value, int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
  return value;
}
int fail() {
  throw std::runtime_error{"no result"};
}
int work_until_cancelled(int ms_max) {
  for (int ms = 0; ms < ms_max; ++ms) {
    if (cancelled()) return -ms;
    std::this_thread::sleep_for(1ms);
  }
  return ms_max;
}
int wait_for_what_takes_long() {
  Runtime runtime;
  return runtime.submit<&work_until_cancelled>(20'000).get();
}
/// A type to which not every int can be converted.
struct Even {
  Even() = default;
  Even(int of) : value{of} {  // NOLINT(google-explicit-constructor)
    if (of % 2 != 0) throw std::invalid_argument{std::to_string(of) + " is odd"};
  }
  auto pharos_fields() { return std::tie(value); }

  int value = 0;
};
int half(const Even& even) {
  return even.value / 2;
}
struct Sleeper {
  int sleep(int ms_max) { return work_until_cancelled(ms_max); }
};
/// A loop that asks for the next result until all have come, in a call that is cancelled before that.
int take_all_results() {
  Runtime runtime;
  const auto sleeper = runtime.spawn<Sleeper>();
  RefSet<int> results{{runtime.submit<&late>(1, 1), sleeper.call<&Sleeper::sleep>(60'000)}};
  int taken = 0;
  while (!results.empty()) taken += static_cast<int>(results.wait().size());
  return taken;
}
int get_a_list() {
  Runtime runtime;
  const auto sleeper = runtime.spawn<Sleeper>();
  return get(std::vector{sleeper.call<&Sleeper::sleep>(60'000), runtime.submit<&late>(1, 1)}).front();
}
int wait_for_a_list() {
  Runtime runtime;
  const auto sleeper = runtime.spawn<Sleeper>();
  return static_cast<int>(wait(std::vector{sleeper.call<&Sleeper::sleep>(60'000)}).ready.size());
}
std::map<std::string, std::vector<double>> group(std::vector<std::string> names, std::unique_ptr<double> value) {
  std::map<std::string, std::vector<double>> result;
  for (const auto& name : names) result[name].push_back(*value);
  return result;
}
std::size_t size_of(const Bytes& bytes) {
  return bytes.size();
}
std::vector<double> many_numbers(std::size_t count) {
  std::vector<double> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return numbers;
}
Bytes bytes_of(std::size_t size, char with) {
  return Bytes{std::string(size, with)};
}

struct Step {
  int number = 0;
  std::optional<std::string> note{};
};
class Diary {
 public:
  explicit Diary(int start) { steps_.push_back({start}); }
  void write(Step step) { steps_.push_back(std::move(step)); }
  void note(int number) { steps_.push_back({number}); }
  std::vector<Step> read() const { return steps_; }
  std::vector<int> numbers() const {
    std::vector<int> result;
    for (const Step& step : steps_) result.push_back(step.number);
    return result;
  }
  int stay(int ms) { return late(1, ms); }

 private:
  std::vector<Step> steps_;
};

Deadline soon() {
  return Deadline::in(20s);
}

using RefsTest = ClusterTest;

TEST_F(RefsTest, ValuesOfManyTypesTravel) {
  Runtime runtime;
  const auto grouped =
      runtime.submit<&group>(std::vector<std::string>{"a", "b", "a"}, std::make_unique<double>(0.5)).get(soon());
  EXPECT_EQ(grouped.at("a").size(), 2u);
  const auto diary = runtime.spawn<Diary>(1);
  diary.call<&Diary::write>(Step{2, "second"}).get(soon());
  const auto steps = diary.call<&Diary::read>().get(soon());
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[1].note, "second");
  EXPECT_EQ(runtime.submit<&size_of>(Bytes{std::string(3 << 20, 'x')}).get(soon()), 3u << 20);
  EXPECT_EQ(static_cast<char>(runtime.submit<&bytes_of>(std::size_t{1} << 20, 'y').get(soon()).span().back()), 'y');
}

TEST_F(RefsTest, ARefStandsForAnArgumentWhetherItIsThereOrNot) {
  Runtime runtime;
  const auto there = runtime.submit<&twice>(1);
  there.get(soon());
  const auto later = runtime.submit<&late>(3, 50);
  EXPECT_EQ(runtime.submit<&add>(there, later).get(soon()), 5);
  EXPECT_EQ(runtime.submit<&add>(there, 4).get(soon()), 6);
  EXPECT_EQ(runtime.submit<&negative>(later).get(soon()), -3) << "an int for a long";
}

TEST_F(RefsTest, AConstructorTakesRefsToo) {
  Runtime runtime;
  const auto diary = runtime.spawn<Diary>(runtime.submit<&late>(7, 50));
  EXPECT_EQ(diary.call<&Diary::numbers>().get(soon()), std::vector<int>{7});
}

TEST_F(RefsTest, CallsToOneActorKeepTheirOrderBehindOneThatWaitsForAnArgument) {
  Runtime runtime;
  const auto diary = runtime.spawn<Diary>(0);
  diary.call<&Diary::numbers>().get(soon());
  std::vector<Ref<void>> written;
  written.push_back(diary.call<&Diary::note>(1));
  written.push_back(diary.call<&Diary::note>(runtime.submit<&late>(2, 100)));
  written.push_back(diary.call<&Diary::note>(3));
  written.push_back(diary.call<&Diary::note>(runtime.submit<&late>(4, 10)));
  written.push_back(diary.call<&Diary::note>(5));
  EXPECT_EQ(diary.call<&Diary::numbers>().get(soon()), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

// Private memory of a process, in kilobytes.
long own_kilobytes(pid_t process) {
  std::ifstream status{"/proc/" + std::to_string(process) + "/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stol(line.substr(8));
  }
  return 0;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr long kChainGrowthMax = 256 << 10;  // the sanitizer keeps freed memory
#else
constexpr long kChainGrowthMax = 512;
#endif

TEST_F(RefsTest, TenThousandTasksInAChainRunWithFewProcessesAndNoMoreMemoryAtTheirEnd) {
  constexpr int kTasks = 10'000;
  constexpr int kBetweenLooks = 100;
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  std::vector<Ref<int>> looked_at;
  Ref<int> last = runtime.submit<&add_slowly>(0, 0);
  for (int i = 1; i <= kTasks; ++i) {
    last = runtime.submit<&add_slowly>(last, 1);
    if (i % kBetweenLooks == 0) looked_at.push_back(last);
  }
  std::vector<long> programs;
  std::vector<long> workers;
  for (std::size_t i = 0; i < looked_at.size(); ++i) {
    ASSERT_EQ(looked_at[i].get(soon()), static_cast<int>(i + 1) * kBetweenLooks);
    const auto processes = census().processes(Part::kWorker);
    EXPECT_LE(processes.size(), 2u);
    EXPECT_TRUE(i >= looked_at.size() * 3 / 4 || !last.ready()) << "it is not looked at while it runs";
    programs.push_back(own_kilobytes(::getpid()));
    workers.push_back(0);
    for (const auto& each : processes) workers.back() += own_kilobytes(each.pid);
  }
  const auto growth = [quarter = looked_at.size() / 4](const std::vector<long>& kilobytes) {
    const auto first = std::max_element(kilobytes.begin(), kilobytes.begin() + static_cast<std::ptrdiff_t>(quarter));
    const auto end = std::max_element(kilobytes.end() - static_cast<std::ptrdiff_t>(quarter), kilobytes.end());
    return *end - *first;
  };
  EXPECT_GT(workers.front(), 0);
  EXPECT_LT(growth(programs), kChainGrowthMax) << programs.front() << " to " << programs.back();
  EXPECT_LT(growth(workers), kChainGrowthMax) << workers.front() << " to " << workers.back();
}

TEST_F(RefsTest, AnArgumentThatFailedFailsTheCallAndNotThoseBehindIt) {
  Runtime runtime;
  const auto diary = runtime.spawn<Diary>(0);
  const auto failed = runtime.submit<&fail>();
  const auto unwritten = diary.call<&Diary::note>(failed);
  const auto written = diary.call<&Diary::note>(2);
  const std::string text = message_of<UserError>([&] { unwritten.get(soon()); });
  EXPECT_SAYS(text, "no result");
  EXPECT_SAYS(text, "argument");
  EXPECT_EQ(unwritten.try_get().error().outcome(), Outcome::kNotStarted);
  written.get(soon());
  EXPECT_EQ(diary.call<&Diary::numbers>().get(soon()), (std::vector<int>{0, 2}));
  message_of<UserError>([&] { runtime.submit<&twice>(failed).get(soon()); });
  EXPECT_EQ(runtime.submit<&twice>(4).get(soon()), 8);
}

TEST_F(RefsTest, CallsThatWaitForArgumentsEndWithTheRuntime) {
  std::vector<Ref<int>> waiting;
  {
    Runtime runtime;
    const auto never = runtime.submit<&late>(1, 100'000);
    waiting.push_back(runtime.submit<&twice>(never));
    const auto diary = runtime.spawn<Diary>(0);
    waiting.push_back(diary.call<&Diary::stay>(never));
    waiting.push_back(runtime.submit<&twice>(waiting[0]));
  }
  for (const auto& ref : waiting) message_of<RuntimeStopped>([&] { ref.get(soon()); });
}

TEST_F(RefsTest, WaitComesBackWithThoseThatAreThere) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  std::vector<Ref<int>> refs{runtime.submit<&late>(1, 2'000), runtime.submit<&late>(2, 10)};
  const auto first = wait(refs, {.deadline = soon()});
  ASSERT_EQ(first.ready.size(), 1u);
  EXPECT_EQ(first.ready[0].get(), 2);
  ASSERT_EQ(first.pending.size(), 1u);
  const auto none = wait(first.pending, {.deadline = Deadline::in(10ms)});
  EXPECT_TRUE(none.ready.empty());
  EXPECT_EQ(wait(refs, {.count = 2, .deadline = soon()}).ready.size(), 2u);
  EXPECT_EQ(wait(std::vector<Ref<int>>{}).ready.size(), 0u);
}

TEST_F(RefsTest, PollingLeavesNothingBehindInWhatIsPending) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const std::vector<Ref<int>> refs{runtime.submit<&late>(1, 60'000)};
  const auto poll = [&](int times) {
    for (int i = 0; i < times; ++i) EXPECT_TRUE(wait(refs, {.deadline = Deadline::in(0ms)}).ready.empty());
    return mallinfo2().uordblks;
  };
  const std::size_t before = poll(100);
  // Each entry that a poll left behind would take some tens of bytes.
  EXPECT_LT(poll(10'000), before + 100'000);
}

TEST_F(RefsTest, ARefSetGivesEachOnce) {
  Runtime runtime;
  RefSet<int> refs;
  for (int i = 0; i < 2000; ++i) refs.add(runtime.submit<&twice>(i));
  long sum = 0;
  std::size_t taken = 0;
  while (!refs.empty()) {
    for (const auto& ref : wait(refs, {.deadline = soon()})) {
      sum += ref.get();
      ++taken;
    }
  }
  EXPECT_EQ(taken, 2000u);
  EXPECT_EQ(sum, 2000L * 1999);
}

TEST_F(RefsTest, ThenMakesSomethingOfAResultAndAnErrorPassesBy) {
  Runtime runtime;
  const auto text = runtime.submit<&late>(5, 20).then([](int value) { return std::to_string(value) + "!"; });
  EXPECT_EQ(text.get(soon()), "5!");
  EXPECT_EQ(text.then([](const std::string& value) { return value.size(); }).get(soon()), 2u);
  bool called = false;
  const auto failed = runtime.submit<&fail>().then([&](int value) {
    called = true;
    return value;
  });
  EXPECT_SAYS(message_of<UserError>([&] { failed.get(soon()); }), "no result");
  EXPECT_FALSE(called);
  const auto threw = runtime.submit<&twice>(1).then([](int) -> int { throw std::logic_error{"in then"}; });
  EXPECT_SAYS(message_of<UserError>([&] { threw.get(soon()); }), "in then");
}

TEST_F(RefsTest, WhenAllBringsAllInOneAndTheFirstErrorOnceAllHaveEnded) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  std::vector<Ref<int>> refs;
  for (int i = 0; i < 50; ++i) refs.push_back(runtime.submit<&twice>(i));
  const auto all = when_all(refs).get(soon());
  ASSERT_EQ(all.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], 2 * i);
  const auto [number, text] =
      when_all(refs[3], refs[4].then([](int value) { return std::to_string(value); })).get(soon());
  EXPECT_EQ(number, 6);
  EXPECT_EQ(text, "8");
  refs.push_back(runtime.submit<&fail>());
  refs.push_back(runtime.submit<&late>(1, 200));
  const auto failed = when_all(refs);
  EXPECT_SAYS(message_of<UserError>([&] { failed.get(soon()); }), "no result");
  EXPECT_TRUE(refs.back().ready());
  message_of<InvalidArgument>([] { static_cast<void>(when_all(std::vector<Ref<int>>{})); });
}

TEST_F(RefsTest, GetBringsAListInItsOrder) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  std::vector<Ref<int>> refs{runtime.submit<&late>(7, 50)};
  for (int i = 0; i < 1000; ++i) refs.push_back(runtime.submit<&twice>(i));
  for (int round = 0; round < 2; ++round) {  // the second time all of them are ready
    const std::vector<int> all = get(refs, soon());
    ASSERT_EQ(all.size(), 1001u);
    EXPECT_EQ(all[0], 7);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i) + 1], 2 * i);
  }
  EXPECT_TRUE(get(std::vector<Ref<int>>{}).empty());
  const auto diary = runtime.spawn<Diary>(0);
  get(std::vector{diary.call<&Diary::note>(1), diary.call<&Diary::note>(2)}, soon());
  EXPECT_EQ(diary.call<&Diary::numbers>().get(soon()), (std::vector{0, 1, 2}));
}

TEST_F(RefsTest, GetOfAListEndsWithTheFirstErrorOrAtTheDeadline) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const auto pending = runtime.submit<&late>(1, 60'000);
  EXPECT_SAYS(message_of<UserError>([&] { get(std::vector{pending, runtime.submit<&fail>()}, soon()); }), "no result");
  const auto failed = runtime.submit<&fail>();
  EXPECT_FALSE(failed.try_get(soon()).ok());
  EXPECT_SAYS(message_of<UserError>([&] { get(std::vector{failed, pending}, soon()); }), "no result");
  EXPECT_SAYS(message_of<UserError>([&] { get(std::vector{pending, failed}, soon()); }), "no result");
  message_of<DeadlineExceeded>([&] { get(std::vector{runtime.submit<&twice>(1), pending}, Deadline::in(100ms)); });
  Ref<int> moved = runtime.submit<&twice>(1);
  const Ref<int> to = std::move(moved);
  message_of<InvalidArgument>([&] { get(std::vector{pending, moved}, soon()); });
  EXPECT_FALSE(pending.ready());
}

TEST_F(RefsTest, AViewOfAVectorCopiesNothing) {
  Runtime runtime;
  const auto numbers = runtime.submit<&many_numbers>(100'000);
  const SharedSpan<double> view = numbers.view(soon());
  ASSERT_EQ(view.size(), 100'000u);
  EXPECT_EQ(view.span()[99'999], 99'999);
  EXPECT_EQ(numbers.view().span().data(), view.span().data());
  EXPECT_EQ(runtime.submit<&many_numbers>(3).view(soon()).size(), 3u);
  EXPECT_EQ(runtime.submit<&bytes_of>(std::size_t{5}, 'x').view(soon()).size(), 5u);
}

TEST_F(RefsTest, WhenAnySaysWhichWasFirst) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const std::vector<Ref<int>> refs{runtime.submit<&late>(1, 1000), runtime.submit<&late>(2, 10)};
  EXPECT_EQ(when_any(refs).get(soon()), 1u);
  EXPECT_EQ(runtime.submit<&twice>(when_all(refs).then([](const std::vector<int>& all) { return all[0] + all[1]; }))
                .get(soon()),
            6);
}

TEST_F(RefsTest, ACallbackMayWaitForWhatAnotherCallbackMakes) {
  Runtime runtime;
  const auto source = runtime.submit<&late>(5, 20);
  std::vector<int> order;
  const auto outer = source.then([&](int value) {
    order.push_back(0);
    const auto inner = source.then([&](int same) {
      order.push_back(1);
      return same;
    });
    const auto innermost =
        inner.then([&](int same) { return source.then([](int it) { return it; }).get(soon()) + same; });
    return value + innermost.get(soon());
  });
  const auto behind = source.then([&](int value) {
    order.push_back(2);
    return value;
  });
  EXPECT_EQ(outer.get(soon()), 15);
  EXPECT_EQ(behind.get(soon()), 5);
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0], 0);
}

TEST_F(RefsTest, WhenAnyLeavesNothingInWhatIsStillPending) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer keeps what was freed";
#endif
  Runtime runtime;
  const std::vector<Ref<int>> refs{runtime.submit<&work_until_cancelled>(20'000)};
  const auto resident = [] {
    std::size_t pages = 0;
    std::ifstream{"/proc/self/statm"} >> pages >> pages;
    return ByteCount{pages * 4096};
  };
  EXPECT_FALSE(when_any(refs).ready());
  const auto before = resident();
  for (int i = 0; i < 200'000; ++i) ASSERT_FALSE(when_any(refs).ready());
  EXPECT_LT(resident().bytes(), before.bytes() + (8 << 20));
  const auto first = when_any(refs);
  refs.front().cancel();
  EXPECT_EQ(first.get(soon()), 0u);
}

TEST_F(RefsTest, WhatIsMadeOfAResultIsCancelledAtOnceAndTheResultIsNot) {
  Runtime runtime;
  const auto source = runtime.submit<&late>(5, 200);
  bool called = false;
  const auto made = source.then([&](int value) {
    called = true;
    return value;
  });
  const auto all = when_all(source, source);
  const auto any = when_any(std::vector{source});
  EXPECT_LT(time_of([&] {
              made.cancel();
              message_of<Cancelled>([&] { made.get(soon()); });
              all.cancel();
              message_of<Cancelled>([&] { all.get(soon()); });
              any.cancel();
              message_of<Cancelled>([&] { any.get(soon()); });
            }),
            150ms);
  // The callbacks of one result run in turn, so a cancelled earlier one would have run before this one.
  EXPECT_EQ(source.then([](int value) { return value; }).get(soon()), 5);
  EXPECT_FALSE(called);
}

TEST_F(RefsTest, WhatIsPutIsAnArgumentAgainAndAgain) {
  Runtime runtime;
  const auto bytes = runtime.put(Bytes{std::string(1 << 20, 'b')});
  EXPECT_TRUE(bytes.ready());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runtime.submit<&size_of>(bytes).get(soon()), 1u << 20);
  EXPECT_EQ(runtime.put(21).get(), 21);
  EXPECT_EQ(runtime.submit<&twice>(runtime.put(21)).get(soon()), 42);
}

TEST_F(RefsTest, ACallThatHasNotBegunIsCancelledAtOnce) {
  Runtime runtime{RuntimeOptions{.cpus = 1}};
  const auto busy = runtime.submit<&late>(1, 1500);
  const auto waiting = runtime.submit<&twice>(1);
  const auto for_argument = runtime.submit<&twice>(waiting);
  waiting.cancel();
  EXPECT_LT(time_of([&] { message_of<Cancelled>([&] { waiting.get(soon()); }); }), 1200ms);
  message_of<Cancelled>([&] { for_argument.get(soon()); });
  EXPECT_EQ(busy.get(soon()), 1);

  const auto diary = runtime.spawn<Diary>(0);
  const auto running = diary.call<&Diary::stay>(300);
  const auto behind = diary.call<&Diary::note>(1);
  behind.cancel();
  message_of<Cancelled>([&] { behind.get(soon()); });
  EXPECT_EQ(behind.try_get().error().outcome(), Outcome::kNotStarted);
  EXPECT_EQ(running.get(soon()), 1);
  EXPECT_EQ(diary.call<&Diary::numbers>().get(soon()), std::vector<int>{0});
}

TEST_F(RefsTest, ACallThatRunsSeesThatItIsCancelledAndSoDoesWhatItWaitsFor) {
  Runtime runtime;
  const auto asks = runtime.submit<&work_until_cancelled>(20'000);
  EXPECT_FALSE(asks.try_get(Deadline::in(50ms)).ok());
  asks.cancel();
  EXPECT_LT(asks.get(soon()), 0);
  const auto waits = runtime.submit<&wait_for_what_takes_long>();
  EXPECT_FALSE(waits.try_get(Deadline::in(50ms)).ok());
  waits.cancel();
  EXPECT_LT(time_of([&] {
              // If no other worker was free, the outer task's thread ran the inner task, which returned when it saw the
              // cancellation.
              const auto result = waits.try_get(soon());
              if (result.ok()) {
                EXPECT_LT(*result, 0);
              } else {
                EXPECT_EQ(result.error().code(), ErrorCode::kCancelled) << result.error().message();
              }
            }),
            1s);
  EXPECT_EQ(runtime.submit<&twice>(2).get(soon()), 4);
}

TEST_F(RefsTest, AnArgumentThatCannotBeConvertedIsTheErrorOfItsCallAlone) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&half>(runtime.submit<&late>(4, 1)).get(soon()), 2);
  const auto odd = runtime.submit<&late>(3, 100);
  const auto before = runtime.submit<&half>(odd);  // converted when the result is there
  EXPECT_SAYS(before.try_get(soon()).error().to_string(), "3 is odd");
  EXPECT_EQ(odd.get(soon()), 3);
  const auto after = runtime.submit<&half>(odd);  // converted at once
  EXPECT_SAYS(after.try_get(soon()).error().to_string(), "3 is odd");
  EXPECT_EQ(after.try_get(soon()).error().outcome(), Outcome::kNotStarted);
}

TEST_F(RefsTest, ARefThatWasMovedFromIsNoArgument) {
  Runtime runtime;
  Ref<int> from = runtime.submit<&late>(4, 1);
  const Ref<int> to = std::move(from);
  const auto half_of_nothing = runtime.submit<&half>(from);
  EXPECT_EQ(half_of_nothing.try_get(soon()).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(runtime.submit<&half>(to).get(soon()), 2);
}

TEST_F(RefsTest, AWaitForSeveralResultsThrowsInACallThatIsCancelled) {
  Runtime runtime;
  for (const auto& waits :
       {runtime.submit<&take_all_results>(), runtime.submit<&wait_for_a_list>(), runtime.submit<&get_a_list>()}) {
    EXPECT_FALSE(waits.try_get(Deadline::in(200ms)).ok());
    waits.cancel();
    EXPECT_EQ(waits.try_get(soon()).error().code(), ErrorCode::kCancelled);
  }
}

TEST_F(RefsTest, CancellingWhatIsThereDoesNothing) {
  Runtime runtime;
  const auto there = runtime.submit<&twice>(2);
  EXPECT_EQ(there.get(soon()), 4);
  there.cancel();
  EXPECT_EQ(there.get(soon()), 4);
  EXPECT_FALSE(cancelled());
}

}  // namespace
}  // namespace pharos::cluster::refs
