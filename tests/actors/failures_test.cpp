#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "thread_state.hpp"

namespace pharos::cluster::failures {
namespace {

using namespace std::chrono_literals;

// Bound on the time from the event to the caller's exception, with both on one machine.
constexpr auto kSoon = 100ms;

struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int refuse(int amount) {
  throw Refusal{"not " + std::to_string(amount)};
}
void throw_a_number() {
  throw 42;
}
int abort_task() {
  ::abort();
}
int answer() {
  return 42;
}
int throw_our_own() {
  throw_error(Error{ErrorCode::kOverloaded, "too much to do", "Come back later."});
}
int task_for(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
  return ms;
}

class Fragile {
 public:
  Fragile() = default;
  explicit Fragile(const std::string& why) {
    if (!why.empty()) throw Refusal{why};
  }
  int process() const { return ::getpid(); }
  int fail(const std::string& why) { throw Refusal{why}; }
  int leave(int status) { ::exit(status); }
  int leave_now(int status) { ::_exit(status); }
  int crash() {
    ::raise(SIGSEGV);
    return 0;
  }
  int stay(int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds{ms});
    return ms;
  }
  int leave_the_thread() { ::pthread_exit(nullptr); }
};

using FailuresTest = ClusterTest;

TEST_F(FailuresTest, WhatATaskThrowsNamesTypeMessageAndFunction) {
  Runtime runtime;
  const std::string text = message_of<UserError>([&] { runtime.submit<&refuse>(7).get(); });
  EXPECT_SAYS(text, "Refusal");
  EXPECT_SAYS(text, "not 7");
  EXPECT_SAYS(text, "refuse");
  EXPECT_SAYS(message_of<UserError>([&] { runtime.submit<&throw_a_number>().get(); }), "int");
  EXPECT_EQ(runtime.submit<&answer>().get(), 42);
}

TEST_F(FailuresTest, APharosExceptionThatUserCodeThrowsKeepsItsType) {
  Runtime runtime;
  EXPECT_SAYS(message_of<Overloaded>([&] { runtime.submit<&throw_our_own>().get(); }), "too much to do");
}

TEST_F(FailuresTest, WhatAMethodThrowsNamesTypeMessageAndMethodAndTheActorGoesOn) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>();
  const std::string text = message_of<UserError>([&] { fragile.call<&Fragile::fail>("today").get(); });
  EXPECT_SAYS(text, "Refusal");
  EXPECT_SAYS(text, "today");
  EXPECT_SAYS(text, "Fragile::fail");
  EXPECT_GT(fragile.call<&Fragile::process>().get(), 0);
}

TEST_F(FailuresTest, NamesInMessagesAreThoseThatPeopleWrote) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>();
  const std::string text = message_of<UserError>([&] { fragile.call<&Fragile::fail>("today").get(); });
  EXPECT_EQ(text.find("pharos::detail"), std::string::npos) << text;
}

TEST_F(FailuresTest, AConstructorThatThrowsMakesCallsThrowActorDiedWithTheCause) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>(ActorOptions{.name = "unborn"}, "no licence");
  for (int i = 0; i < 2; ++i) {
    const std::string text = message_of<ActorDied>([&] { fragile.call<&Fragile::process>().get(); });
    EXPECT_SAYS(text, "no licence");
    EXPECT_SAYS(text, "Refusal");
  }
}

TEST_F(FailuresTest, TheProcessOfAnActorWhoseConstructorThrewEnds) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>("no licence");
  message_of<ActorDied>([&] { fragile.call<&Fragile::process>().get(); });
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).empty(); }, 3s))
      << "an actor that can never run anything keeps its process";
}

TEST_F(FailuresTest, KillMakesPendingAndLaterCallsThrowActorDiedAtOnce) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>();
  const int process = fragile.call<&Fragile::process>().get();
  const auto pending = fragile.call<&Fragile::stay>(20'000);
  const auto waited = time_of([&] {
    runtime.kill(fragile);
    message_of<ActorDied>([&] { pending.get(); });
  });
  EXPECT_LT(waited, kSoon);
  EXPECT_LT(time_of([&] { message_of<ActorDied>([&] { fragile.call<&Fragile::process>().get(); }); }), kSoon);
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 2s));
}

TEST_F(FailuresTest, KillReachesAnActorWhoseConstructorRunsStill) {
  Runtime runtime;
  std::vector<Actor<Fragile>> actors;
  for (int i = 0; i < 20; ++i) {
    actors.push_back(runtime.spawn<Fragile>());
    actors.back().kill();
  }
  for (const auto& actor : actors) message_of<ActorDied>([&] { actor.call<&Fragile::process>().get(); });
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).empty(); }, 5s));
}

TEST_F(FailuresTest, AThreadThatWaitsIsWokenByAnotherThreadsKill) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>();
  EXPECT_GT(fragile.call<&Fragile::process>().get(), 0);
  const auto pending = fragile.call<&Fragile::stay>(20'000);
  std::vector<std::thread> waiting;
  std::atomic<int> died = 0;
  std::array<std::atomic<pid_t>, 3> ids{};
  for (std::atomic<pid_t>& id : ids) {
    waiting.emplace_back([&] {
      id = ::gettid();
      message_of<ActorDied>([&] { pending.get(); });
      ++died;
    });
  }
  for (const std::atomic<pid_t>& id : ids) EXPECT_TRUE(eventually([&] { return id != 0 && thread_sleeps(id); }));
  fragile.kill();
  EXPECT_TRUE(eventually([&] { return died == 3; }, 1s));
  for (auto& thread : waiting) thread.join();
}

TEST_F(FailuresTest, AnActorWhoseProcessIsKilledFromOutsideSaysSoAtOnce) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>(ActorOptions{.name = "victim"});
  const int process = fragile.call<&Fragile::process>().get();
  const auto pending = fragile.call<&Fragile::stay>(20'000);
  std::string text;
  const auto waited = time_of([&] {
    ::kill(process, SIGKILL);
    text = message_of<ActorDied>([&] { pending.get(); });
  });
  EXPECT_LT(waited, kSoon);
  EXPECT_SAYS(text, "SIGKILL");
  EXPECT_SAYS(text, "victim");
  EXPECT_LT(time_of([&] { message_of<ActorDied>([&] { fragile.call<&Fragile::process>().get(); }); }), kSoon);
}

TEST_F(FailuresTest, AnActorsDeathIsSeenAtOnceAlsoWhenItStartedTogetherWithOthers) {
  Runtime runtime;
  std::vector<Actor<Fragile>> actors;
  for (int i = 0; i < 12; ++i) actors.push_back(runtime.spawn<Fragile>());
  for (const auto& actor : actors) EXPECT_GT(actor.call<&Fragile::process>().get(), 0);
  // The last actor is killed first, so the actors that were forked before it are still alive.
  while (!actors.empty()) {
    const int process = actors.back().call<&Fragile::process>().get();
    const auto pending = actors.back().call<&Fragile::stay>(20'000);
    const auto waited = time_of([&] {
      ::kill(process, SIGKILL);
      message_of<ActorDied>([&] { pending.get(Deadline::in(5s)); });
    });
    EXPECT_LT(waited, kSoon);
    actors.pop_back();
  }
}

TEST_F(FailuresTest, AnActorThatCrashesNamesTheSignal) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>();
  EXPECT_SAYS(message_of<ActorDied>([&] { fragile.call<&Fragile::crash>().get(); }), "SIGSEGV");
}

TEST_F(FailuresTest, AnActorThatExitsNamesItsStatus) {
  Runtime runtime;
  const auto one = runtime.spawn<Fragile>();
  EXPECT_SAYS(message_of<ActorDied>([&] { one.call<&Fragile::leave>(3).get(); }), "status 3");
  const auto two = runtime.spawn<Fragile>();
  EXPECT_SAYS(message_of<ActorDied>([&] { two.call<&Fragile::leave_now>(4).get(); }), "status 4");
}

TEST_F(FailuresTest, AMethodThatEndsItsThreadDoesNotHangItsCaller) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>();
  EXPECT_GT(fragile.call<&Fragile::process>().get(), 0);
  const auto ended = fragile.call<&Fragile::leave_the_thread>();
  const auto result = ended.try_get(Deadline::in(5s));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kActorDied) << result.error().to_string();
}

TEST_F(FailuresTest, AnOutcomeTellsWhatMayHaveRunFromWhatHasNot) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>();
  EXPECT_GT(fragile.call<&Fragile::process>().get(), 0);
  const auto pending = fragile.call<&Fragile::stay>(20'000);
  fragile.kill();
  EXPECT_EQ(pending.try_get().error().outcome(), Outcome::kUnknown);
  EXPECT_EQ(fragile.call<&Fragile::process>().try_get().error().outcome(), Outcome::kNotStarted);
}

TEST_F(FailuresTest, ATaskThatEndsItsWorkerThrowsWorkerDiedAndTheNextTaskRuns) {
  Runtime runtime;
  EXPECT_SAYS(message_of<WorkerDied>([&] { runtime.submit<&abort_task>().get(); }), "SIGABRT");
  EXPECT_EQ(runtime.submit<&answer>().get(), 42);
}

TEST_F(FailuresTest, TasksThatWaitBehindOneThatEndsItsWorkerStillRun) {
  Runtime runtime{RuntimeOptions{.address = {}, .token_file = {}, .listen = {}, .cpus = 1}};
  const auto slow = runtime.submit<&task_for>(100);
  const auto ends = runtime.submit<&abort_task>();
  std::vector<Ref<int>> behind;
  for (int i = 0; i < 10; ++i) behind.push_back(runtime.submit<&answer>());
  EXPECT_EQ(slow.get(), 100);
  message_of<WorkerDied>([&] { ends.get(); });
  for (const auto& result : behind) EXPECT_EQ(result.get(), 42);
}

TEST_F(FailuresTest, AThousandCallsThatAreUnderWayAllThrowWhenTheirActorEnds) {
  Runtime runtime;
  const auto fragile = runtime.spawn<Fragile>();
  EXPECT_GT(fragile.call<&Fragile::process>().get(), 0);
  std::vector<Ref<int>> pending;
  pending.push_back(fragile.call<&Fragile::leave_now>(3));
  for (int i = 0; i < 1000; ++i) pending.push_back(fragile.call<&Fragile::process>());
  for (const auto& result : pending) message_of<ActorDied>([&] { result.get(); });
}

}  // namespace
}  // namespace pharos::cluster::failures
