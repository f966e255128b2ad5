// The threads of OpenMP in a worker are the CPUs that its actor or its task has reserved.

#include <omp.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::compute_threads {
namespace {

using namespace std::chrono_literals;

constexpr int kCpus = 3;  // a number that OpenMP would not choose by itself on a machine with two or four cores

/// What a call sees.
struct Seen {
  int process = 0;
  int thread = 0;
  int threads = 0;  // OpenMP's

  auto pharos_fields() { return std::tie(process, thread, threads); }
};

Seen seen() {
  return {::getpid(), ::gettid(), omp_get_max_threads()};
}
/// A task.
Seen see_and_set(int number) {
  const Seen before = seen();
  if (number != 0) omp_set_num_threads(number);
  return before;
}

class Computing {
 public:
  Computing() : when_constructed_{omp_get_max_threads()} {}

  int when_constructed() { return when_constructed_; }
  Seen see() { return seen(); }
  void set(int number) { omp_set_num_threads(number); }
  async::Async<int> after_a_while() {
    static_cast<void>(co_await async::sleep(1ms));
    co_return omp_get_max_threads();
  }
  /// The threads that a task sees which may run in this actor's thread.
  int in_a_task() {
    Runtime runtime;
    return runtime.submit<&seen>({.cpus = 0}).get().threads;
  }

 private:
  const int when_constructed_;
};

class ComputeThreadsTest : public ClusterTest {
 protected:
  /// Calls the actor until both threads of its process have run calls, and expects the same number in all of them.
  static void expect_in_each_thread(const Actor<Computing>& actor, int wanted) {
    std::set<int> threads;
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (threads.size() < 2 && std::chrono::steady_clock::now() < deadline) {
      const Seen seen = actor.call<&Computing::see>().get();
      ASSERT_EQ(seen.threads, wanted);
      threads.insert(seen.thread);
      if (threads.size() < 2) std::this_thread::yield();
    }
    EXPECT_EQ(threads.size(), 2U) << "the calls of an actor run on two threads";
  }
  static RuntimeOptions many_cpus() { return {.cpus = 8}; }
};

TEST_F(ComputeThreadsTest, AreTheWholeCpusOfAnActor) {
  Runtime runtime{many_cpus()};
  for (const auto& [cpus, threads] :
       {std::pair{0.0, 1}, std::pair{0.5, 1}, std::pair{1.0, 1}, std::pair{2.5, 2}, std::pair{3.0, kCpus}}) {
    SCOPED_TRACE(cpus);
    const auto actor = runtime.spawn<Computing>({.cpus = cpus});
    EXPECT_EQ(actor.call<&Computing::when_constructed>().get(), threads);
    EXPECT_EQ(actor.call<&Computing::after_a_while>().get(), threads);
    expect_in_each_thread(actor, threads);
  }
}

TEST_F(ComputeThreadsTest, StayWhatTheActorHasSet) {
  Runtime runtime{many_cpus()};
  const auto actor = runtime.spawn<Computing>({.cpus = kCpus});
  expect_in_each_thread(actor, kCpus);
  actor.call<&Computing::set>(2).get();
  expect_in_each_thread(actor, 2);
  EXPECT_EQ(actor.call<&Computing::after_a_while>().get(), 2);
}

TEST_F(ComputeThreadsTest, AreTheWholeCpusOfEachTask) {
  Runtime runtime{many_cpus()};
  std::set<int> processes;
  for (int i = 0; i < 20; ++i) {
    for (const auto& [cpus, threads] :
         {std::pair{1.0, 1}, std::pair{3.0, kCpus}, std::pair{0.0, 1}, std::pair{2.0, 2}}) {
      const Seen seen = runtime.submit<&see_and_set>({.cpus = cpus}, 5).get();  // of no account for the next one
      EXPECT_EQ(seen.threads, threads) << cpus;
      processes.insert(seen.process);
    }
  }
  EXPECT_LT(processes.size(), 20U) << "a process runs many tasks";
  EXPECT_EQ(runtime.submit<&see_and_set>(0).get().threads, 1) << "a task has one CPU by default";
}

TEST_F(ComputeThreadsTest, OfATaskInTheThreadOfItsActorAreTheActors) {
  Runtime runtime{many_cpus()};
  const auto actor = runtime.spawn<Computing>({.cpus = kCpus});
  const int in_a_task = actor.call<&Computing::in_a_task>().get();
  EXPECT_TRUE(in_a_task == kCpus || in_a_task == 1) << in_a_task << ": 1 is that of a worker of its own";
  expect_in_each_thread(actor, kCpus);
}

TEST_F(ComputeThreadsTest, AreTheUsersIfTheEnvironmentSaysSo) {
  Runtime runtime{many_cpus()};
  const auto actor = runtime.spawn<Computing>({.cpus = kCpus, .env = {{"OMP_NUM_THREADS", "2"}}});
  EXPECT_EQ(actor.call<&Computing::see>().get().threads, 2);
}

}  // namespace
}  // namespace pharos::cluster::compute_threads
