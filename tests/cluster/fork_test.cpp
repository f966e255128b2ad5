#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <pharos/pharos.hpp>

#include "child_program.hpp"
#include "cluster_test.hpp"

namespace pharos::cluster::fork {
namespace {

using namespace std::chrono_literals;

int twice(int value) {
  return 2 * value;
}
int stay(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
  return ms;
}

class Counter {
 public:
  int add(int amount) { return value_ += amount; }

 private:
  int value_ = 0;
};

/// Calls `run` in a child of fork() and returns the child's status; 128 and more if a signal ended the child. A child
/// that hangs is ended by SIGALRM.
int in_child(const std::function<int()>& run) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(20);
    int status = 99;
    try {
      status = run();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "in the child: %s\n", e.what());
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

template <class Call>
bool says_forked(const Call& call) {
  try {
    call();
  } catch (const RuntimeStopped& e) {
    return std::string{e.what()}.find("fork") != std::string::npos;
  }
  return false;
}

int work() {
  Runtime runtime;
  if (runtime.submit<&twice>(21).get() != 42) return 1;
  const auto counter = runtime.spawn<Counter>();
  counter.call<&Counter::add>(1).get();
  return counter.call<&Counter::add>(1).get() == 2 ? 0 : 2;
}

using ForkTest = ClusterTest;

// The thread sanitizer of GCC 12 cannot follow threads in a child that was forked from a process with several threads.
#ifdef __SANITIZE_THREAD__
constexpr bool kChildrenMayStartThreads = false;
#else
constexpr bool kChildrenMayStartThreads = true;
#endif
#define SKIP_IF_CHILDREN_CANNOT_START_THREADS() \
  if (!kChildrenMayStartThreads) GTEST_SKIP() << "the thread sanitizer cannot follow this child's threads"

TEST_F(ForkTest, AChildOfForkMakesItsOwnRuntime) {
  EXPECT_EQ(in_child([] { return work(); }), 0);
}

TEST_F(ForkTest, TheParentsHandlesThrowRuntimeStoppedInTheChildAndTheParentGoesOn) {
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>();
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 1);
  const auto pending = runtime.submit<&stay>(1000);
  EXPECT_EQ(in_child([&] {
              if (!says_forked([&] { counter.call<&Counter::add>(1).get(); })) return 1;
              if (!says_forked([&] { runtime.submit<&twice>(1).get(); })) return 2;
              if (!says_forked([&] { runtime.spawn<Counter>(); })) return 3;
              if (!says_forked([&] { pending.get(); })) return 4;
              return 0;
            }),
            0);
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 2);
  EXPECT_EQ(pending.get(), 1000);
}

TEST_F(ForkTest, ResultsThatWereThereAreThereInTheChild) {
  Runtime runtime;
  const auto result = runtime.submit<&twice>(2);
  EXPECT_EQ(result.get(), 4);
  EXPECT_EQ(in_child([&] { return result.get(); }), 4);
}

TEST_F(ForkTest, AChildOfAProcessWithARuntimeMakesItsOwn) {
  SKIP_IF_CHILDREN_CANNOT_START_THREADS();
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>();
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 1);
  EXPECT_EQ(in_child([] { return work(); }), 0);
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 2);
}

TEST_F(ForkTest, AChildMayDestroyTheHandlesAndTheRuntimeOfItsParent) {
  SKIP_IF_CHILDREN_CANNOT_START_THREADS();
  std::optional<Runtime> runtime{std::in_place};
  std::optional<Actor<Counter>> counter{runtime->spawn<Counter>()};
  EXPECT_EQ(counter->call<&Counter::add>(1).get(), 1);
  EXPECT_EQ(in_child([&] {
              counter.reset();
              runtime.reset();
              return work();
            }),
            0);
  EXPECT_EQ(counter->call<&Counter::add>(1).get(), 2);
}

TEST_F(ForkTest, AForkWhileOtherThreadsCallAndWaitHangsNeitherParentNorChild) {
  SKIP_IF_CHILDREN_CANNOT_START_THREADS();
#if defined(__SANITIZE_ADDRESS__)
  // If another thread holds a lock of the sanitizer's allocator during the fork, the lock is never released in the
  // child.
  GTEST_SKIP() << "GCC 12's address sanitizer does not survive a fork beside threads that allocate";
#endif
  Runtime runtime;
  const auto counter = runtime.spawn<Counter>();
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!done) counter.call<&Counter::add>(1).get();
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child([&] { return says_forked([&] { counter.call<&Counter::add>(1).get(); }) ? 0 : 1; }), 0);
  }
  EXPECT_EQ(in_child([] { return work(); }), 0);
  done = true;
  for (auto& thread : threads) thread.join();
}

TEST_F(ForkTest, TheClusterSeesItsDriverDieAlthoughAForkedChildLivesOn) {
  ChildProgram program{CLUSTER_DRIVER, {"forked"}};
  const auto child = static_cast<pid_t>(std::stol(program.next_line()));
  EXPECT_EQ(program.next_line(), "ready");
  program.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] {
    return census().processes(Part::kKeeper).empty() && census().processes(Part::kNode).empty() &&
           census().processes(Part::kZygote).empty() && census().processes(Part::kWorker).empty();
  }));
  EXPECT_EQ(::kill(child, 0), 0) << "the child should live on";
  ::kill(child, SIGKILL);
}

}  // namespace
}  // namespace pharos::cluster::fork
