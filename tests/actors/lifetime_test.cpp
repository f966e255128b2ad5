#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "thread_state.hpp"

namespace pharos::cluster::lifetime {
namespace {

using namespace std::chrono_literals;

/// Leaves a file when its destructor runs.
class Testament {
 public:
  explicit Testament(const std::string& path) : path_{path} {}
  ~Testament() { std::ofstream{path_} << ::getpid(); }
  Testament(const Testament&) = delete;

  int process() { return ::getpid(); }
  int stay(int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds{ms});
    return ms;
  }
  int never_return() {
    for (;;) ::pause();
  }

 private:
  std::string path_;
};

int never_return() {
  for (;;) ::pause();
}
int spin_for_ever() {
  volatile int turns = 0;
  for (;;) turns = turns + 1;
}
int one() {
  return 1;
}
int stay(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
  return ms;
}

class LifetimeTest : public ClusterTest {
 protected:
  // The file lies beside the base folder, where the census looks for leftovers, so the test removes the file.
  std::string testament() const { return census().folder() / "testament"; }
  bool take_testament() const { return std::filesystem::remove(testament()); }
};

TEST_F(LifetimeTest, WhenTheLastHandleIsGoneTheDestructorRunsAndTheProcessEnds) {
  Runtime runtime;
  int process = 0;
  {
    const auto actor = runtime.spawn<Testament>(testament());
    const auto copy = actor;
    process = copy.call<&Testament::process>().get();
  }
  EXPECT_TRUE(eventually([&] { return take_testament(); }, 2s));
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 2s));
  EXPECT_EQ(runtime.submit<&one>().get(), 1);
}

TEST_F(LifetimeTest, AnActorWhoseHandleIsGoneAnswersTheCallsThatWereMade) {
  Runtime runtime;
  std::vector<Ref<int>> results;
  {
    const auto actor = runtime.spawn<Testament>(testament());
    for (int i = 0; i < 20; ++i) results.push_back(actor.call<&Testament::stay>(5));
  }
  for (const auto& result : results) EXPECT_EQ(result.get(), 5);
  EXPECT_TRUE(eventually([&] { return take_testament(); }, 2s));
}

TEST_F(LifetimeTest, AnActorThatNobodyEverCalledEndsWithItsHandle) {
  Runtime runtime;
  { const auto actor = runtime.spawn<Testament>(testament()); }
  EXPECT_TRUE(eventually([&] { return take_testament(); }, 5s));
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).empty(); }, 2s));
}

TEST_F(LifetimeTest, AtTheRuntimesEndTheDestructorHasRun) {
  {
    Runtime runtime;
    const auto actor = runtime.spawn<Testament>(testament());
    EXPECT_GT(actor.call<&Testament::process>().get(), 0);
  }
  EXPECT_TRUE(take_testament());
}

TEST_F(LifetimeTest, AKilledActorsDestructorDoesNotRun) {
  {
    Runtime runtime;
    const auto actor = runtime.spawn<Testament>(testament());
    const int process = actor.call<&Testament::process>().get();
    actor.kill();
    EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 2s));
  }
  EXPECT_FALSE(take_testament());
}

TEST_F(LifetimeTest, AMethodThatNeverReturnsDoesNotHoldUpTheRuntimesEnd) {
  std::optional<Runtime> runtime{std::in_place};
  const auto actor = runtime->spawn<Testament>(testament());
  EXPECT_GT(actor.call<&Testament::process>().get(), 0);
  const auto pending = actor.call<&Testament::never_return>();
  const auto task = runtime->submit<&never_return>();
  const auto busy = runtime->submit<&spin_for_ever>();
  EXPECT_FALSE(pending.try_get(Deadline::in(100ms)).ok());
  EXPECT_LT(time_of([&] { runtime.reset(); }), 1s);
  message_of<RuntimeStopped>([&] { pending.get(); });
  message_of<RuntimeStopped>([&] { task.get(); });
  message_of<RuntimeStopped>([&] { busy.get(); });
}

TEST_F(LifetimeTest, AnActorInAMethodThatNeverReturnsDiesByKill) {
  Runtime runtime;
  const auto actor = runtime.spawn<Testament>(testament());
  const int process = actor.call<&Testament::process>().get();
  const auto pending = actor.call<&Testament::never_return>();
  actor.kill();
  message_of<ActorDied>([&] { pending.get(); });
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 2s));
}

TEST_F(LifetimeTest, RefsOutliveTheRuntimeWithTheirValueOrRuntimeStopped) {
  std::vector<Ref<int>> ready;
  std::vector<Ref<int>> pending;
  {
    Runtime runtime;
    ready.push_back(runtime.submit<&one>());
    EXPECT_EQ(ready.front().get(), 1);
    pending.push_back(runtime.submit<&stay>(10'000));
    for (int i = 0; i < 100; ++i) pending.push_back(runtime.submit<&stay>(1000));
    pending.push_back(runtime.spawn<Testament>(testament()).call<&Testament::stay>(10'000));
  }
  take_testament();  // there may be none: the actor may have been busy, or not have started yet
  EXPECT_EQ(ready.front().get(), 1);
  for (const auto& result : pending) {
    EXPECT_TRUE(result.ready());
    EXPECT_LT(time_of([&] { message_of<RuntimeStopped>([&] { result.get(); }); }), 1s);
  }
}

TEST_F(LifetimeTest, RefsThatOutliveTheirRuntimeMixWithThoseOfAnother) {
  std::optional<Ref<int>> old;
  std::optional<Ref<int>> never;
  RefSet<int> set;
  {
    Runtime runtime;
    old = runtime.submit<&one>();
    EXPECT_EQ(old->get(), 1);
    never = runtime.submit<&stay>(60'000);
    set.add(*old);
    EXPECT_EQ(set.wait().size(), 1u);
  }
  Runtime runtime;
  const auto late = [&] { return runtime.submit<&stay>(50); };
  EXPECT_EQ(wait(std::vector{*old, late()}, {.count = 2}).ready.size(), 2u);
  set.add(late());
  EXPECT_EQ(set.wait().size(), 1u);
  EXPECT_EQ(std::get<1>(when_all(*old, late()).get()), 50);
  EXPECT_EQ(old->then([&](int) { return late(); }).get().get(), 50);
  message_of<RuntimeStopped>([&] { when_all(late(), *never).get(); });
  EXPECT_EQ(runtime.submit<&stay>(*old).get(), 1);
}

TEST_F(LifetimeTest, HandlesOutliveTheRuntimeAndThrowRuntimeStopped) {
  std::optional<Actor<Testament>> actor;
  {
    Runtime runtime;
    actor.emplace(runtime.spawn<Testament>(testament()));
    EXPECT_GT(actor->call<&Testament::process>().get(), 0);
  }
  take_testament();
  message_of<RuntimeStopped>([&] { actor->call<&Testament::process>().get(); });
  actor->kill();
}

TEST_F(LifetimeTest, AThreadThatWaitsIsWokenByTheRuntimesEnd) {
  std::optional<Runtime> runtime{std::in_place};
  EXPECT_EQ(runtime->submit<&one>().get(), 1);
  const auto pending = runtime->submit<&stay>(20'000);
  std::vector<std::thread> waiting;
  std::atomic<int> stopped = 0;
  std::array<std::atomic<pid_t>, 3> ids{};
  for (std::atomic<pid_t>& id : ids) {
    waiting.emplace_back([&] {
      id = ::gettid();
      message_of<RuntimeStopped>([&] { pending.get(); });
      ++stopped;
    });
  }
  for (const std::atomic<pid_t>& id : ids) EXPECT_TRUE(eventually([&] { return id != 0 && thread_sleeps(id); }));
  EXPECT_LT(time_of([&] { runtime.reset(); }), 2s);
  EXPECT_TRUE(eventually([&] { return stopped == 3; }, 1s));
  for (auto& thread : waiting) thread.join();
}

TEST_F(LifetimeTest, ARuntimeMovesWithItsActors) {
  Runtime first;
  Runtime second{std::move(first)};
  EXPECT_EQ(second.submit<&one>().get(), 1);
  Runtime third;
  third = std::move(second);
  EXPECT_EQ(third.submit<&one>().get(), 1);
}

TEST_F(LifetimeTest, ActorsThatComeAndGoLeaveNothingWhileTheRuntimeLives) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&one>().get(), 1);
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).size() <= 1; }));
  const auto before = Holdings::now();
  for (int i = 0; i < 50; ++i) {
    const auto actor = runtime.spawn<Testament>(testament());
    EXPECT_GT(actor.call<&Testament::process>().get(), 0);
    if (i % 2 == 0) actor.kill();
  }
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).size() <= 1; }, 5s));
  EXPECT_TRUE(eventually([&] { return Holdings::now().descriptors.size() <= before.descriptors.size(); }, 5s))
      << "before: " << before << "\nafter: " << Holdings::now();
  take_testament();
}

}  // namespace
}  // namespace pharos::cluster::lifetime
