#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::restarts {
namespace {

using namespace std::chrono_literals;

// Actors that outlive one process or one handle: restarts, names, and handles that are passed on.

class Counter {
 public:
  explicit Counter(int start) : value_{start} {}
  int add(int amount) { return value_ += amount; }
  int value() const { return value_; }
  int process() const { return ::getpid(); }
  int crash() {
    ::raise(SIGKILL);
    return 0;
  }
  /// Crashes the first time, and leaves a file by which later runs know that.
  int crash_once(const std::string& path) {
    if (std::ifstream{path}.good()) return 7;
    std::ofstream{path} << "was here";
    ::raise(SIGKILL);
    return 0;
  }

 private:
  int value_;
};
class Other {
 public:
  int nothing() { return 0; }
};

int add_in_a_task(Actor<Counter> counter, int amount) {
  return counter.call<&Counter::add>(amount).get();
}
int find_and_add(const std::string& name, const std::string& name_space, int amount) {
  Runtime runtime;
  return runtime.actor<Counter>(name, name_space).call<&Counter::add>(amount).get();
}

class Keeper {
 public:
  void take(Actor<Counter> counter) { counter_.emplace(std::move(counter)); }
  int add(int amount) { return counter_->call<&Counter::add>(amount).get(); }
  void drop() { counter_.reset(); }

 private:
  std::optional<Actor<Counter>> counter_;
};

Deadline soon() {
  return Deadline::in(20s);
}

int wait_a_while(int value) {
  std::this_thread::sleep_for(100ms);
  return value;
}
std::uint64_t get_or_create(const std::string& name) {
  return Runtime{}.spawn<Counter>({.name = name, .get_if_exists = true}, 9).id().value();
}
void kill_it(const std::string& name) {
  Runtime{}.spawn<Counter>({.name = name, .get_if_exists = true}, 9).kill();
}

using RestartsTest = ClusterTest;

TEST_F(RestartsTest, AnActorThatMayIsConstructedAnewWithItsArguments) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>({.max_restarts = 2}, 10);
  EXPECT_EQ(counter.call<&Counter::add>(1).get(soon()), 11);
  const int first = counter.call<&Counter::process>().get(soon());
  const std::string text = message_of<ActorDied>([&] { counter.call<&Counter::crash>().get(soon()); });
  EXPECT_SAYS(text, "restarted");
  EXPECT_EQ(counter.call<&Counter::add>(1).get(soon()), 11);
  EXPECT_NE(counter.call<&Counter::process>().get(soon()), first);
}

TEST_F(RestartsTest, WithoutRestartsLeftItIsDeadForGoodAndSaysHowOften) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>({.name = "mortal", .max_restarts = 1}, 0);
  message_of<ActorDied>([&] { counter.call<&Counter::crash>().get(soon()); });
  const std::string text = message_of<ActorDied>([&] { counter.call<&Counter::crash>().get(soon()); });
  EXPECT_SAYS(text, "mortal");
  EXPECT_SAYS(text, "SIGKILL");
  const std::string for_good = message_of<ActorDied>([&] { counter.call<&Counter::value>().get(soon()); });
  EXPECT_SAYS(for_good, "SIGKILL");
  EXPECT_SAYS(for_good, "; it was restarted 1 time");
}

TEST_F(RestartsTest, CallsThatMayAreSentAgainBeforeLaterOnes) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>({.max_restarts = 1, .max_task_retries = 1}, 5);
  const std::string path = census().folder().parent_path() / "crashed-once";
  counter.call<&Counter::value>().get(soon());
  const auto crashing = counter.call<&Counter::crash_once>(path);
  const auto later = counter.call<&Counter::add>(1);
  EXPECT_EQ(crashing.get(soon()), 7);
  EXPECT_EQ(later.get(soon()), 6);
  std::remove(path.c_str());
}

TEST_F(RestartsTest, OneWayCallsThatMayAreSentAgainToo) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>({.max_restarts = 1, .max_task_retries = 1}, 5);
  const std::string path = census().folder().parent_path() / "crashed-once";
  counter.call<&Counter::value>().get(soon());
  counter.send<&Counter::crash_once>(path);
  for (int i = 0; i < 10; ++i) counter.send<&Counter::add>(1);
  EXPECT_EQ(counter.call<&Counter::value>().get(soon()), 15);
  std::remove(path.c_str());
}

TEST_F(RestartsTest, AOneWayCallThatFailsIsWrittenToTheLogAndSoManyInOneLine) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>({.name = "mortal"}, 0);
  counter.call<&Counter::value>().get(soon());
  testing::internal::CaptureStderr();
  counter.send<&Counter::crash>();
  for (int i = 0; i < 100; ++i) counter.send<&Counter::add>(1);
  message_of<ActorDied>([&] { counter.call<&Counter::value>().get(soon()); });
  std::this_thread::sleep_for(1100ms);  // a line tells of failures that came within a second of the last one
  counter.send<&Counter::add>(1);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_SAYS(log, "a one-way call failed");
  EXPECT_SAYS(log, "Counter::crash");
  EXPECT_SAYS(log, "mortal");
  EXPECT_SAYS(log, "more=100");
}

TEST_F(RestartsTest, AKilledActorIsNotRestarted) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>({.max_restarts = -1}, 0);
  const int process = counter.call<&Counter::process>().get(soon());
  counter.kill();
  message_of<ActorDied>([&] { counter.call<&Counter::value>().get(soon()); });
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 2s));
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).empty(); }, 2s));
}

TEST_F(RestartsTest, ANameFindsItsActorInTasksToo) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>({.name = "shared"}, 1);
  EXPECT_EQ(runtime.actor<Counter>("shared").call<&Counter::add>(1).get(soon()), 2);
  EXPECT_EQ(runtime.submit<&find_and_add>("shared", "", 1).get(soon()), 3);
  EXPECT_EQ(counter.call<&Counter::value>().get(soon()), 3);
  message_of<NotFound>([&] { runtime.actor<Counter>("nobody"); });
  const std::string text = message_of<InvalidArgument>([&] { runtime.actor<Other>("shared"); });
  EXPECT_SAYS(text, "shared");
}

TEST_F(RestartsTest, ANameIsTakenOnceAndFreeAgainAfterItsActor) {
  Runtime runtime;
  std::optional<Actor<Counter>> first{runtime.spawn<Counter>({.name = "one"}, 1)};
  first->call<&Counter::value>().get(soon());
  const auto second = runtime.spawn<Counter>({.name = "one"}, 2);
  EXPECT_SAYS(message_of<AlreadyExists>([&] { second.call<&Counter::value>().get(soon()); }), "one");
  const auto same = runtime.spawn<Counter>({.name = "one", .get_if_exists = true}, 3);
  EXPECT_EQ(same.call<&Counter::value>().get(soon()), 1);
  EXPECT_EQ(same.id(), first->id());
  first->kill();
  EXPECT_EQ(runtime.spawn<Counter>({.name = "one"}, 4).call<&Counter::value>().get(soon()), 4);
}

TEST_F(RestartsTest, NamesThatNobodyCanReadAreRefusedAndTakeNothing) {
  Runtime runtime;
  for (const std::string& name :
       {std::string(1 << 20, 'n'), std::string(257, 'n'), std::string{"a\0b", 3}, std::string{"a\nb"}}) {
    for (const std::string& text :
         {message_of<InvalidArgument>([&] { runtime.spawn<Counter>({.name = name}, 1); }),
          message_of<InvalidArgument>([&] { runtime.spawn<Counter>({.name = "one", .name_space = name}, 1); }),
          message_of<InvalidArgument>([&] { runtime.actor<Counter>(name); }),
          message_of<InvalidArgument>([&] { runtime.actor<Counter>("one", name); }),
          message_of<InvalidArgument>([&] { runtime.reserve({.name = name}); })}) {
      EXPECT_LT(text.size(), 300u);
      EXPECT_SAYS(text, "is invalid: it has ");
    }
  }
  message_of<NotFound>([&] { runtime.actor<Counter>(""); });
  message_of<NotFound>([&] { runtime.actor<Counter>("one"); });
  const std::string longest(256, 'n');
  const auto named = runtime.spawn<Counter>({.name = longest, .name_space = longest}, 3);
  EXPECT_EQ(runtime.actor<Counter>(longest, longest).call<&Counter::value>().get(soon()), 3);
}

TEST_F(RestartsTest, WhoGetsAnActorThatIsStillToBeMadeHasThatOne) {
  Runtime runtime;
  const auto first = runtime.spawn<Counter>({.name = "one", .get_if_exists = true}, runtime.submit<&wait_a_while>(7));
  const auto second = runtime.spawn<Counter>({.name = "one", .get_if_exists = true}, 8);
  EXPECT_EQ(second.id(), first.id());
  const std::uint64_t in_a_task = runtime.submit<&get_or_create>("one").get(soon());
  EXPECT_EQ(in_a_task, first.id().value());
  EXPECT_EQ(second.call<&Counter::value>().get(soon()), 7);
  runtime.submit<&kill_it>("one").get(soon());
  message_of<ActorDied>([&] {
    for (;;) first.call<&Counter::value>().get(soon());
  });
}

TEST_F(RestartsTest, OtherNameSpacesHaveNamesOfTheirOwn) {
  Runtime runtime;
  const auto here = runtime.spawn<Counter>({.name = "c"}, 1);
  const auto there = runtime.spawn<Counter>({.name = "c", .name_space = "there"}, 2);
  EXPECT_EQ(runtime.actor<Counter>("c").call<&Counter::value>().get(soon()), 1);
  EXPECT_EQ(runtime.actor<Counter>("c", "there").call<&Counter::value>().get(soon()), 2);
  EXPECT_EQ(runtime.submit<&find_and_add>("c", "there", 3).get(soon()), 5);
}

TEST_F(RestartsTest, AHandleIsAnArgumentOfTasksAndActors) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>(0);
  std::vector<Ref<int>> added;
  for (int i = 0; i < 20; ++i) added.push_back(runtime.submit<&add_in_a_task>(counter, 1));
  for (const auto& ref : added) ref.get(soon());
  EXPECT_EQ(counter.call<&Counter::value>().get(soon()), 20);
  const auto keeper = runtime.spawn<Keeper>();
  keeper.call<&Keeper::take>(counter).get(soon());
  EXPECT_EQ(keeper.call<&Keeper::add>(1).get(soon()), 21);
}

TEST_F(RestartsTest, AnActorLivesAsLongAsAnyProcessHasAHandle) {
  Runtime runtime;
  const auto keeper = runtime.spawn<Keeper>();
  int process = 0;
  {
    const auto counter = runtime.spawn<Counter>(0);
    process = counter.call<&Counter::process>().get(soon());
    keeper.call<&Keeper::take>(counter).get(soon());
  }
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(keeper.call<&Keeper::add>(1).get(soon()), i);
  EXPECT_EQ(::kill(process, 0), 0);
  keeper.call<&Keeper::drop>().get(soon());
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 2s));
}

TEST_F(RestartsTest, ADetachedActorLivesWithoutHandlesUntilItIsKilled) {
  Runtime runtime;
  int process = 0;
  int other = 0;
  {
    const auto counter = runtime.spawn<Counter>({.name = "alone", .detached = true}, 3);
    const auto attached = runtime.spawn<Counter>(3);
    process = counter.call<&Counter::process>().get(soon());
    other = attached.call<&Counter::process>().get(soon());
  }
  ASSERT_TRUE(eventually([&] { return ::kill(other, 0) != 0; })) << "an actor without handles ends";
  EXPECT_EQ(::kill(process, 0), 0);
  const auto again = runtime.actor<Counter>("alone");
  EXPECT_EQ(again.call<&Counter::value>().get(soon()), 3);
  again.kill();
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 2s));
  message_of<NotFound>([&] { runtime.actor<Counter>("alone"); });
}

/// Is stopped, or ends by itself. It writes to a file how it ended.
class Leaver {
 public:
  explicit Leaver(std::string path) : path_{std::move(path)} {}
  ~Leaver() {
    std::ofstream{path_, std::ios::app} << "destroyed\n";
    if (!slowly_) return;
    std::this_thread::sleep_for(50ms);
    std::ofstream{path_, std::ios::app} << "wholly\n";
  }
  void leave_slowly() { slowly_ = true; }
  /// Works until the actor is asked to stop.
  int work(int steps_max) {
    std::ofstream{path_, std::ios::app} << "works\n";
    for (int step = 0; step < steps_max; ++step) {
      if (pharos::stopping()) return step;
      ::usleep(1000);
    }
    return steps_max;
  }
  /// Like work(), but other calls may run meanwhile.
  pharos::Async<int> work_aside(int steps_max) {
    std::ofstream{path_, std::ios::app} << "works\n";
    for (int step = 0; step < steps_max; ++step) {
      if (pharos::stopping()) co_return step;
      static_cast<void>(co_await pharos::async::sleep(1ms));
    }
    co_return steps_max;
  }
  int leave() {
    pharos::exit_actor();
    return 42;
  }
  int more() {
    std::ofstream{path_, std::ios::app} << "more\n";
    return 1;
  }

 private:
  std::string path_;
  bool slowly_ = false;
};

class EndsTest : public RestartsTest {
 protected:
  void TearDown() override {
    std::filesystem::remove(path());
    RestartsTest::TearDown();
  }
  std::string path() const { return census().folder() / "leaver"; }
  std::string written() const {
    std::ifstream file{path()};
    return {std::istreambuf_iterator<char>{file}, {}};
  }
};

TEST_F(EndsTest, OneThatIsStoppedIsToldAndItsCallComesBackAndItsDestructorRuns) {
  Runtime runtime;
  const auto leaver = runtime.spawn<Leaver>({.name = "leaver", .max_restarts = -1}, path());
  const auto work = leaver.call<&Leaver::work>(60'000);
  ASSERT_TRUE(eventually([&] { return written() == "works\n"; }));
  const auto behind = leaver.call<&Leaver::more>();
  leaver.stop();
  EXPECT_LT(work.get(soon()), 60'000);
  EXPECT_SAYS(message_of<ActorDied>([&] { behind.get(soon()); }), "stop");
  EXPECT_TRUE(eventually([&] { return written() == "works\ndestroyed\n"; })) << written();
  EXPECT_SAYS(message_of<ActorDied>([&] { leaver.call<&Leaver::more>().get(soon()); }), "was told to stop");
  message_of<NotFound>([&] { runtime.actor<Leaver>("leaver"); });
}

TEST_F(EndsTest, CoroutinesOfOneThatIsStoppedAreToldAndComeBack) {
  Runtime runtime;
  const auto leaver = runtime.spawn<Leaver>(path());
  const auto work = leaver.call<&Leaver::work_aside>(60'000);
  ASSERT_TRUE(eventually([&] { return written() == "works\n"; }));
  leaver.stop();
  EXPECT_LT(work.get(soon()), 60'000);
  EXPECT_TRUE(eventually([&] { return written() == "works\ndestroyed\n"; })) << written();
}

TEST_F(EndsTest, OneThatDoesNotStopInItsTimeIsKilled) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>(3);
  const int process = counter.call<&Counter::process>().get(soon());
  const auto stuck = counter.call<[](Counter&) { return static_cast<int>(::sleep(60)); }>();
  counter.stop(10ms);
  EXPECT_SAYS(message_of<ActorDied>([&] { stuck.get(soon()); }), "told to stop");
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }));
}

TEST_F(EndsTest, OneThatStopsWhenItsProgramEndsIsDestroyedOnceAndWholly) {
  {
    Runtime runtime;
    const auto leaver = runtime.spawn<Leaver>(path());
    leaver.call<&Leaver::leave_slowly>().get(soon());
    leaver.stop();
    ASSERT_TRUE(eventually([&] { return written() == "destroyed\n"; })) << written();
  }
  EXPECT_TRUE(eventually([&] { return written() == "destroyed\nwholly\n"; })) << written();
}

TEST_F(EndsTest, OneThatLeavesEndsAfterThatCallAndIsNotRestarted) {
  Runtime runtime;
  const auto leaver = runtime.spawn<Leaver>({.max_restarts = -1}, path());
  const auto left = leaver.call<&Leaver::leave>();
  const auto behind = leaver.call<&Leaver::more>();
  EXPECT_EQ(left.get(soon()), 42);
  message_of<ActorDied>([&] { behind.get(soon()); });
  EXPECT_TRUE(eventually([&] { return written() == "destroyed\n"; })) << written();
  EXPECT_SAYS(message_of<ActorDied>([&] { leaver.call<&Leaver::more>().get(soon()); }), "ended itself");
}

TEST_F(EndsTest, OnlyAnActorCanLeave) {
  Runtime runtime;
  EXPECT_SAYS(message_of<FailedPrecondition>([] { pharos::exit_actor(); }), "outside of an actor's methods");
}

}  // namespace
}  // namespace pharos::cluster::restarts
