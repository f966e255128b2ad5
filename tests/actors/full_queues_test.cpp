#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pharos/async/sleep.hpp>
#include <pharos/pharos.hpp>

#include "child_program.hpp"
#include "cluster_test.hpp"

namespace pharos::cluster::full_queues {
namespace {

using namespace std::chrono_literals;

// Tests of calls whose actor does not read them.

constexpr std::size_t kCallBytes = 64 << 10;                   // too small to go through the object store
constexpr int kMoreThanAQueue = (96 << 20) / int{kCallBytes};  // a queue holds 64 MiB
const std::string kText(kCallBytes, 'x');

/// An actor at which two methods wait for each other, until both of them run.
class Meeting {
 public:
  Async<void> come() {
    ++there_;
    while (there_ < 2) {
      const auto slept = co_await async::sleep(1ms);
      if (!slept) co_return;
    }
  }

 private:
  int there_ = 0;
};

class Peer {
 public:
  void take(const std::string& text) {
    ++calls_;
    bytes_ += text.size();
  }
  int calls() const { return calls_; }

  int flood(const Actor<Peer>& other, int calls, const Actor<Meeting>& meeting) {
    meeting.call<&Meeting::come>().get();
    return call_often(other, calls);
  }
  /// Waits for a result of `other`, whose method floods this actor.
  int ask(const Actor<Peer>& other, const Actor<Meeting>& meeting) {
    meeting.call<&Meeting::come>().get();
    return other.call<&Peer::calls>().get();
  }
  int flood_itself(const Actor<Peer>& self, int calls) {
    call_often(self, calls);
    return calls_;
  }
  /// Blocks until the test opens the pipe to write.
  void hold(const std::string& pipe) { ::close(::open(pipe.c_str(), O_RDONLY | O_CLOEXEC)); }
  void take_slowly(const std::string&) { std::this_thread::sleep_for(20ms); }
  /// Calls an actor that reads its calls, but more slowly than they are made.
  int flood_until_cancelled(const Actor<Peer>& slow) {
    std::vector<Ref<void>> made;
    while (!cancelled()) made.push_back(slow.call<&Peer::take_slowly>(kText));
    return static_cast<int>(made.size());
  }
  int process() { return ::getpid(); }

 private:
  /// Makes `calls` calls and waits for no result.
  static int call_often(const Actor<Peer>& other, int calls) {
    std::vector<Ref<void>> made;
    for (int i = 0; i < calls; ++i) made.push_back(other.call<&Peer::take>(kText));
    return calls;
  }

  int calls_ = 0;
  std::size_t bytes_ = 0;
};

/// Its constructor ends when the test opens the pipe to write.
class Late {
 public:
  explicit Late(const std::string& pipe) { ::close(::open(pipe.c_str(), O_RDONLY | O_CLOEXEC)); }
  /// Returns how many calls have arrived, including this one.
  int take(const std::string&) { return ++calls_; }

 private:
  int calls_ = 0;
};

class FullQueuesTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    must_end_within(120s);
  }
  std::string pipe() const { return census().folder() / "pipe"; }
  std::string make_pipe() const {
    EXPECT_EQ(::mkfifo(pipe().c_str(), 0600), 0);
    return pipe();
  }
  /// Opens the pipe to write, which ends hold() or the constructor of Late, and removes it.
  void release() const {
    ::close(::open(pipe().c_str(), O_WRONLY | O_CLOEXEC));
    std::filesystem::remove(pipe());
  }

  /// An actor that runs, and reads nothing until release().
  struct Held {
    Actor<Peer> actor;
    Ref<void> holding;
  };
  Held hold(Runtime& runtime) const {
    const auto actor = runtime.spawn<Peer>();
    actor.call<&Peer::process>().get(Deadline::in(30s));
    return {actor, actor.call<&Peer::hold>(make_pipe())};
  }
  /// Calls the actor until its queue is full.
  static std::vector<Ref<void>> fill(const Actor<Peer>& actor) {
    std::vector<Ref<void>> made;
    for (;;) {
      auto ref = actor.try_call<&Peer::take>(kText);
      if (!ref) {
        EXPECT_EQ(ref.error().code(), ErrorCode::kOverloaded);
        EXPECT_EQ(ref.error().outcome(), Outcome::kNotStarted);
        return made;
      }
      made.push_back(*ref);
    }
  }
  static void expect_calls(const Actor<Peer>& actor, int calls) {
    eventually([&] { return actor.call<&Peer::calls>().get() == calls; }, 60s);
    EXPECT_EQ(actor.call<&Peer::calls>().get(), calls);
  }
  /// Returns whether a thread of this process is asleep at every look during `time`.
  static bool sleeps_for(std::chrono::milliseconds time, int thread) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {
      std::ifstream file{"/proc/self/task/" + std::to_string(thread) + "/stat"};
      std::string stat;
      std::getline(file, stat);
      if (stat.find(") S ") == std::string::npos) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  /// Expects that the calls have run in the order in which they were made.
  static void expect_in_order(const std::vector<Ref<int>>& made) {
    int ordinal = 0;
    for (const auto& each : made) ASSERT_EQ(each.get(Deadline::in(30s)), ++ordinal);
  }
};

TEST_F(FullQueuesTest, TwoActorsThatFloodEachOtherBothFinish) {
  Runtime runtime;
  const auto meeting = runtime.spawn<Meeting>();
  const auto a = runtime.spawn<Peer>();
  const auto b = runtime.spawn<Peer>();
  const auto of_a = a.call<&Peer::flood>(b, kMoreThanAQueue, meeting);
  const auto of_b = b.call<&Peer::flood>(a, kMoreThanAQueue, meeting);
  EXPECT_EQ(of_a.get(Deadline::in(60s)), kMoreThanAQueue);
  EXPECT_EQ(of_b.get(Deadline::in(60s)), kMoreThanAQueue);
  for (const auto& each : {a, b}) expect_calls(each, kMoreThanAQueue);
}

TEST_F(FullQueuesTest, OneThatWaitsForTheActorThatFloodsItIsAnswered) {
  Runtime runtime;
  const auto meeting = runtime.spawn<Meeting>();
  const auto a = runtime.spawn<Peer>();
  const auto b = runtime.spawn<Peer>();
  const auto of_a = a.call<&Peer::flood>(b, kMoreThanAQueue, meeting);
  const auto of_b = b.call<&Peer::ask>(a, meeting);
  EXPECT_EQ(of_b.get(Deadline::in(60s)), 0);
  EXPECT_EQ(of_a.get(Deadline::in(60s)), kMoreThanAQueue);
}

TEST_F(FullQueuesTest, AnActorThatFloodsItselfGoesOn) {
  Runtime runtime;
  const auto actor = runtime.spawn<Peer>();
  EXPECT_EQ(actor.call<&Peer::flood_itself>(actor, kMoreThanAQueue).get(Deadline::in(60s)), 0);
  expect_calls(actor, kMoreThanAQueue);
}

TEST_F(FullQueuesTest, ADeadlineBoundsACallThatWaitsForRoom) {
  Runtime runtime;
  const Held held = hold(runtime);
  const auto made = fill(held.actor);
  std::optional<Ref<void>> late;
  std::chrono::milliseconds took{};
  // The worker reads some calls ahead of the one that it runs, so a few more are accepted before a call has to wait.
  int accepted = -1;  // calls of this loop; the last one is not accepted
  for (; accepted < 1000 && took < 200ms; ++accepted) {
    took = time_of([&] { late = held.actor.call<&Peer::take>({.deadline = Deadline::in(200ms)}, kText); });
  }
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, 2s);
  ASSERT_TRUE(late->ready());
  const auto ended = late->try_get();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(ended.error().outcome(), Outcome::kNotStarted);
  release();
  held.holding.get(Deadline::in(30s));
  // The time left to a call counts again from when its worker reads it, so accepted calls may still have begun.
  const int calls = held.actor.call<&Peer::calls>().get(Deadline::in(30s));
  EXPECT_GE(calls, static_cast<int>(made.size()));
  EXPECT_LE(calls, static_cast<int>(made.size()) + accepted);
}

TEST_F(FullQueuesTest, TryCallIntoAFullQueueSendsNothing) {
  Runtime runtime;
  const Held held = hold(runtime);
  auto made = fill(held.actor);
  EXPECT_GT(made.size(), (std::size_t{64} << 20) / kCallBytes - 1);
  int refused = 0;
  for (int i = 0; i < 200; ++i) {  // the worker reads a few more ahead of what it runs
    if (auto more = held.actor.try_call<&Peer::take>(kText)) {
      made.push_back(*more);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  release();
  held.holding.get(Deadline::in(30s));
  for (const auto& each : made) each.get(Deadline::in(30s));
  const auto ref = held.actor.try_call<&Peer::calls>();
  ASSERT_TRUE(ref.ok()) << "the queue is empty again";
  EXPECT_EQ(ref->get(Deadline::in(30s)), static_cast<int>(made.size()));
}

TEST_F(FullQueuesTest, TryCallIsRefusedByAnActorThatIsNotThereYetWhenAsMuchIsKept) {
  Runtime runtime;
  const auto actor = runtime.spawn<Late>(make_pipe());
  std::vector<Ref<int>> made;
  while (const auto each = actor.try_call<&Late::take>(kText)) made.push_back(*each);
  EXPECT_EQ(made.size(), (std::size_t{64} << 20) / kCallBytes);
  release();
  expect_in_order(made);
}

TEST_F(FullQueuesTest, MoreThanALinkBearsWaitsForAnActorThatIsNotThereYet) {
  Runtime runtime;
  const auto actor = runtime.spawn<Late>(make_pipe());
  std::vector<Ref<int>> made;
  for (int i = 0; i < 2 * kMoreThanAQueue; ++i) made.push_back(actor.call<&Late::take>(kText));
  release();
  expect_in_order(made);
}

TEST_F(FullQueuesTest, ACallerThatIsHeldBackGoesOnWhenTheActorReads) {
  Runtime runtime;
  const Held held = hold(runtime);
  fill(held.actor);
  std::atomic<int> thread = 0;  // the id of the calling thread
  std::atomic<int> calls = 0;
  std::atomic<bool> ends = false;
  std::thread caller{[&] {
    thread = ::gettid();
    std::vector<Ref<void>> made;
    while (!ends) {  // the worker reads a few more ahead of what it runs
      made.push_back(held.actor.call<&Peer::take>(kText));
      ++calls;
    }
    for (const auto& each : made) each.get(Deadline::in(60s));
  }};
  const auto is_held_back = [&] {
    const int before = calls;
    return thread != 0 && sleeps_for(200ms, thread) && calls == before;
  };
  EXPECT_TRUE(eventually(is_held_back));
  ends = true;
  const int before = calls;
  release();
  caller.join();
  EXPECT_EQ(calls, before + 1) << "the call that waited";
}

TEST_F(FullQueuesTest, AWorkerWhoseMethodFloodsAnotherIsReachedMeanwhile) {
  Runtime runtime;
  const auto slow = runtime.spawn<Peer>({.name = "slow"});
  const auto flooder = runtime.spawn<Peer>({.name = "flooder"});
  const int process = flooder.call<&Peer::process>().get(Deadline::in(30s));
  const auto flooding = flooder.call<&Peer::flood_until_cancelled>(slow);
  std::string said;
  eventually(
      [&] {
        said = ChildProgram{PHAROS_EXECUTABLE, {"stack", "flooder"}}.wait().output;
        return said.find("Peer::take_slowly of actor \"slow\"\n    queued in") != std::string::npos;
      },
      60s);
  EXPECT_SAYS(said, "pid " + std::to_string(process));
  EXPECT_SAYS(said, "Peer::flood_until_cancelled for ");
  flooding.cancel();
  EXPECT_GT(flooding.get(Deadline::in(10s)), kMoreThanAQueue / 2);
  const auto again = flooder.call<&Peer::flood_until_cancelled>(slow);
  flooder.kill();
  const auto ended = again.try_get(Deadline::in(10s));
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code(), ErrorCode::kActorDied);
}

}  // namespace
}  // namespace pharos::cluster::full_queues
