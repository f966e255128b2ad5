// Workers and the memory guard, with a machine that starts no process.

#include "workers/workers.hpp"

#include <signal.h>

#include <chrono>
#include <map>

#include "workers/memory_guard.hpp"
#include "workers_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

class WorkersTest : public WorkersFixture {};

TEST_F(WorkersTest, AWorkerIsForkedFromTheZygoteAndToldWhoItIs) {
  const auto worker = start();
  EXPECT_EQ(zygote->names(), (Names{"ForkWorker"}));
  EXPECT_EQ(host.links.back()->names(), (Names{"JobRegistered"}));
  EXPECT_EQ(worker->process.life.state(), WorkerState::kReady);
  EXPECT_EQ(forks, 1);
}

TEST_F(WorkersTest, AWorkerThatDoesNotProveItselfFailsAndIsConcluded) {
  host.proof = Error{ErrorCode::kUnavailable, "its connection ended"};
  start();
  EXPECT_EQ(started->error().code(), ErrorCode::kWorkerDied);
  executor.advance(1s);
  EXPECT_EQ(ends.size(), 1U);
  EXPECT_TRUE(workers.all().empty());
}

TEST_F(WorkersTest, AProcessThatIsKilledBeforeItIsKnownIsKilledAsSoonAsItIs) {
  const auto worker = start();
  workers.kill(*worker);
  EXPECT_TRUE(host.killed.empty());
  forked(*worker, 5);
  EXPECT_EQ(host.killed, (std::vector<pid_t>{5}));
}

TEST_F(WorkersTest, TheEndOfAWorkerSaysHowItsProcessEnded) {
  const auto worker = start();
  forked(*worker, 5);
  workers.on_reaped({worker->id, SIGTERM});
  workers.on_connection_ended(worker);
  executor.run_until_idle();
  EXPECT_EQ(ends, (Names{"its process was killed by SIGTERM"}));
}

TEST_F(WorkersTest, AWorkerThatThisNodeDidNotKillMayHaveBeenKilledByTheKernel) {
  kernel_killed = "memory ran out";
  const auto worker = start();
  workers.on_reaped({worker->id, SIGKILL});
  workers.on_connection_ended(worker);
  executor.run_until_idle();
  EXPECT_EQ(ends, (Names{"memory ran out"}));
}

TEST_F(WorkersTest, TheKernelIsNotBlamedForAWorkerThatThisNodeKilled) {
  kernel_killed = "memory ran out";
  const auto worker = start();
  workers.kill(*worker);
  workers.on_reaped({worker->id, SIGKILL});
  workers.on_connection_ended(worker);
  executor.run_until_idle();
  EXPECT_EQ(ends, (Names{"its process was killed by SIGKILL"}));
}

TEST_F(WorkersTest, TheReportOfACrashIsWaitedFor) {
  const auto worker = start();
  workers.on_reaped({worker->id, SIGSEGV, true});
  workers.on_connection_ended(worker);
  executor.run_until_idle();
  EXPECT_EQ(ends, Names{});
  workers.on_crashed({worker->id, " in f()", "a stack"});
  executor.run_until_idle();
  EXPECT_EQ(ends, (Names{"its process was killed by SIGSEGV in f()"}));
}

TEST_F(WorkersTest, AWorkerThatIsToldToEndAndDoesNotIsKilled) {
  const auto worker = start();
  forked(*worker, 5);
  workers.end(worker, 1s);
  executor.advance(5s);
  EXPECT_TRUE(host.killed.empty());
  executor.advance(1s);
  EXPECT_EQ(host.killed, (std::vector<pid_t>{5}));
}

TEST_F(WorkersTest, AnIncarnationIsFoundByItsNumber) {
  const auto worker = start(9);
  EXPECT_EQ(workers.find(ActorId{9}, 1), worker);
  EXPECT_EQ(workers.find(ActorId{9}, 2), nullptr);
}

class MemoryGuardTest : public WorkersFixture {
 protected:
  static Host::MemoryUse use(std::uint64_t percent, std::uint64_t kills = 0) {
    return {.used = ByteCount{percent}, .total = ByteCount{100}, .least = ByteCount{100}, .kills = kills};
  }

  /// A caller has leased this worker for its tasks.
  void lease(const Worker& worker) {
    const scheduler::LeaseRequestId request{worker.id.value()};
    book.apply(*book.leases().request(request, {JobId{1}, CallerId{1}}, {}, executor.now()));
    book.apply(book.leases().worker_started(request, worker.id));
  }

  LeaseBook book{scheduler::Leases{scheduler::Resources{}, 8, 10s}, [](const auto&) {}, [] {}};
  MemoryGuard guard{site, book, workers};
};

TEST_F(MemoryGuardTest, NoWorkerIsKilledWhileMemoryIsNotShort) {
  host.memory = use(90);
  forked(*start(9), 5);
  guard.watch();
  executor.advance(1s);
  EXPECT_TRUE(host.killed.empty());
}

TEST_F(MemoryGuardTest, OneWorkerIsKilledAtATime) {
  host.memory = use(99);
  forked(*start(8), 5);
  forked(*start(9), 6);
  guard.watch();
  executor.advance(1s);
  EXPECT_EQ(host.killed.size(), 1U);
  for (const auto& [id, worker] : workers.all()) {
    if (worker->process.is_killed()) {
      EXPECT_NE(worker->killed_for_memory.find("the limit is 95%"), std::string::npos);
    }
  }
}

TEST_F(MemoryGuardTest, AWorkerThatEndsWhileTheWorkersAreAskedIsNotChosen) {
  host.memory = use(99);
  const auto first = start();
  const auto last = start();
  forked(*first, 5);
  forked(*last, 6);
  lease(*first);
  lease(*last);
  guard.watch();
  executor.run_until_idle();
  ASSERT_TRUE(host.killed.empty()) << "nobody was asked";
  workers.on_child_ended(6, 0);  // as the one that began last it would be chosen
  executor.advance(2s);
  EXPECT_EQ(host.killed, (std::vector<pid_t>{5}));
}

TEST_F(MemoryGuardTest, NoWorkerIsKilledIfMemoryIsFreeAgainWhenTheWorkersHaveAnswered) {
  host.memory = use(99);
  const auto worker = start();
  forked(*worker, 5);
  lease(*worker);
  guard.watch();
  executor.run_until_idle();
  host.memory = use(90);
  executor.advance(2s);
  EXPECT_TRUE(host.killed.empty());
}

TEST_F(MemoryGuardTest, TheKernelIsBlamedForAShortTime) {
  host.memory = use(90);
  start(9);
  guard.watch();
  executor.run_until_idle();
  EXPECT_EQ(guard.why_kernel_killed(), "");
  host.memory = use(90, 1);
  EXPECT_NE(guard.why_kernel_killed().find("the kernel killed it"), std::string::npos);
  executor.advance(2s);
  EXPECT_EQ(guard.why_kernel_killed(), "");
}

}  // namespace
}  // namespace pharos::node
