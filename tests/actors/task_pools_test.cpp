#include "caller/task_pools.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "node_fixture.hpp"
#include "says.hpp"

namespace pharos::actors {
namespace {

using detail::CellHandle;

constexpr WorkerId kWorker{21};
constexpr WorkerId kOtherWorker{22};

class TaskPoolsTest : public NodeTest {
 protected:
  TaskPoolsTest() {
    connector_->join(kCaller, {});
    pools_->join();
  }
  ~TaskPoolsTest() override {
    const Error over{ErrorCode::kRuntimeStopped, "the test is over"};
    line_->hang_up(over);
    pools_->close(over);
    lineage_->end();
    end();
  }

  TaskPool& pool(const TaskOptions& options = {}) {
    const auto found = pools_->pool_of(options);
    EXPECT_TRUE(found.ok());
    return **found;
  }
  static CellHandle submit(TaskPool& pool, CellHandle task) {
    pool.submit(task);
    return task;
  }
  CellHandle submit(TaskPool& to) const { return submit(to, new_call()); }
  /// Grants the next lease that is asked for.
  WorkerByHand grant(WorkerId worker) {
    auto by_hand = node_.offer_worker(node_.next<wire::LeaseWorker>(), {.worker = worker, .actor = {}});
    settle();
    return by_hand;
  }
  std::vector<WorkerId> returned() {
    std::vector<WorkerId> workers;
    for (const auto& each : all_heard<wire::ReturnLease>()) workers.push_back(each.worker);
    return workers;
  }

  const std::shared_ptr<Lineage> lineage_ =
      std::make_shared<Lineage>(line_->executor(), *large_values_, [this] { return pending_->new_cell(); });
  const std::shared_ptr<TaskPools> pools_ = std::make_shared<TaskPools>(line_, connector_, lineage_);
};

TEST_F(TaskPoolsTest, TasksThatAskForTheSameShareAPool) {
  EXPECT_EQ(&pool(), &pool({.max_retries = 3})) << "how often it may run again is not what it asks for";
  EXPECT_EQ(pool().shape(), Shape::of_cpus(1));
  EXPECT_EQ(&pool({.cpus = 2}), &pool({.cpus = 2}));
  EXPECT_EQ(pool({.cpus = 2}).shape(), Shape::of_cpus(2));
  std::vector<TaskPool*> all;
  for (const TaskOptions& options :
       {TaskOptions{}, TaskOptions{.cpus = 2}, TaskOptions{.gpus = 1}, TaskOptions{.memory = ByteCount{1024}},
        TaskOptions{.resources = {{"disk", 1}}}, TaskOptions{.labels = {{"zone", "a"}}}, TaskOptions{.node = NodeId{1}},
        TaskOptions{.near = NodeId{1}}, TaskOptions{.spread = true}}) {
    all.push_back(&pool(options));
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "each of these asks for something else";
}

TEST_F(TaskPoolsTest, OptionsThatMakeNoSenseHaveNoPool) {
  EXPECT_EQ(pools_->pool_of({.cpus = -1}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(pools_->pool_of({.resources = {{"gpu", 1}}}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(pools_->pool_near({.cpus = -1}, {}).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(TaskPoolsTest, BeyondTheMostShapesANewOneIsOverloaded) {
  const auto options = [](std::size_t i) { return TaskOptions{.cpus = static_cast<double>(i + 2)}; };
  for (std::size_t i = 0; i < TaskPools::kShapesMax; ++i) ASSERT_TRUE(pools_->pool_of(options(i)).ok()) << i;
  EXPECT_EQ(pools_->pool_of(options(TaskPools::kShapesMax)).error().code(), ErrorCode::kOverloaded);
  EXPECT_TRUE(pools_->pool_of(options(0)).ok()) << "it has a pool";
  EXPECT_TRUE(pools_->pool_of({}).ok()) << "the default does not count";
}

TEST_F(TaskPoolsTest, WhenTheLineIsOverANewShapeFailsWithTheReason) {
  line_->hang_up({ErrorCode::kUnavailable, "the node is gone"});
  EXPECT_EQ(pools_->pool_of({.cpus = 2}).error().message(), "the node is gone");
  EXPECT_EQ(pools_->pool_near({.cpus = 2}, {}).error().message(), "the node is gone");
}

TEST_F(TaskPoolsTest, WithoutLargeArgumentsThePoolIsThatOfTheOptions) {
  const CellHandle small = pending_->new_cell();
  small->set_value(std::vector<std::byte>(100));
  const std::vector<detail::Placeholder> arguments{{.what = detail::Placeholder::kResult, .offset = 0, .cell = small}};
  for (const TaskOptions& options : {TaskOptions{}, TaskOptions{.cpus = 2}, TaskOptions{.node = NodeId{1}},
                                     TaskOptions{.near = NodeId{1}}, TaskOptions{.spread = true}}) {
    const auto near = pools_->pool_near(options, arguments);
    ASSERT_TRUE(near.ok());
    EXPECT_EQ(near->get(), &pool(options));
  }
}

TEST_F(TaskPoolsTest, LeasesOfTheShapeAreAskedForAndAtMostAsManyAtOnceAsThereAreCpus) {
  for (TaskPool* const each : {&pool(), &pool({.cpus = 0.5, .near = NodeId{8}})}) {
    for (std::uint32_t i = 0; i < kCpus + 2; ++i) submit(*each);
    const auto asked = all_heard<wire::LeaseWorker>();
    ASSERT_EQ(asked.size(), kCpus);
    for (const auto& lease : asked) EXPECT_EQ(lease.demand, each->shape().to_wire());
  }
}

TEST_F(TaskPoolsTest, AWorkerThatIsLeasedGetsTheTaskAndFindSaysWhereItIs) {
  const CellHandle task = new_call();
  EXPECT_FALSE(pools_->find(*task));
  submit(pool({.cpus = 2}), task);
  auto place = pools_->find(*task);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->in_pool.worker, WorkerId{});
  EXPECT_EQ(place->shape, pool({.cpus = 2}).shape());
  const auto worker = grant(kWorker);
  const auto frame = worker.next();
  EXPECT_EQ(frame.header.kind, wire::FrameKind::kCall);
  EXPECT_EQ(frame.header.caller, kCaller.value());
  place = pools_->find(*task);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->in_pool.worker, kWorker);
  EXPECT_EQ(place->in_pool.number, frame.header.number);
  worker.reply(frame.header.number);
  EXPECT_TRUE(has_value(task));
  EXPECT_FALSE(pools_->find(*task));
}

TEST_F(TaskPoolsTest, WhoHasTheResultOfATaskFindsItsWorkerFree) {
  const CellHandle task = submit(pool());
  const CellHandle next = new_call();
  task->when_ready([&] { submit(pool(), next); });
  const auto worker = grant(kWorker);
  worker.reply(worker.next().header.number);
  EXPECT_TRUE(has_value(task));
  worker.reply(worker.next().header.number);
  EXPECT_TRUE(has_value(next));
  EXPECT_EQ(all_heard<wire::LeaseWorker>().size(), 0U) << "the task waited for another worker";
}

TEST_F(TaskPoolsTest, AWorkerThatIsIdleIsGivenBack) {
  const CellHandle task = submit(pool());
  const auto worker = grant(kWorker);
  worker.reply(worker.next().header.number);
  EXPECT_TRUE(has_value(task));
  const auto lease = node_.next<wire::ReturnLease>();
  EXPECT_EQ(lease.message.worker, kWorker);
  EXPECT_FALSE(lease.message.broken);
  EXPECT_TRUE(worker.sees_the_end());
}

TEST_F(TaskPoolsTest, WhenALeaseIsRefusedTheTasksFailWithTheReason) {
  const CellHandle task = submit(pool());
  node_.refuse(node_.next<wire::LeaseWorker>(), {ErrorCode::kInvalidArgument, "no node has this"});
  EXPECT_EQ(error_of(task).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of(task).to_string(), "asking for a worker: no node has this");
  const CellHandle next = submit(pool());
  node_.answer(node_.next<wire::LeaseWorker>(), wire::Done{});
  EXPECT_EQ(error_of(next).code(), ErrorCode::kInternal);
}

TEST_F(TaskPoolsTest, ATaskIsTakenBackOnlyWhenNoWorkerMayComeSoonAndItNeedsOnlyCpus) {
  const CellHandle task = submit(pool());
  const CellHandle large = submit(pool({.gpus = 1}));
  EXPECT_FALSE(pools_->take_back(*task)) << "a worker may come soon";
  EXPECT_FALSE(pools_->take_back(*new_call()));
  // A refusal counts for a while, and then a worker is asked for again.
  int rounds = 0;
  for (bool taken = false; !taken || rounds < 3;) {
    for (int i = taken ? 1 : 2; i != 0; --i) {
      node_.refuse(node_.next<wire::LeaseWorker>(), {ErrorCode::kOverloaded, "there are enough workers"});
    }
    settle();
    on_strand([] {});
    taken = pools_->take_back(*task) || taken;
    ASSERT_FALSE(pools_->take_back(*large)) << "it must run where its GPU is";
    ++rounds;
  }
  EXPECT_FALSE(pools_->find(*task));
  EXPECT_TRUE(pools_->find(*large));
  EXPECT_FALSE(task->ready()) << "whoever took it runs it";
  const auto worker = grant(kWorker);
  worker.next();
  EXPECT_FALSE(pools_->take_back(*large)) << "a worker has it";
}

TEST_F(TaskPoolsTest, ATaskThatWaitsIsGivenUpAndTheWorkerIsToldOfAnotherOne) {
  const CellHandle waits = submit(pool({.cpus = 2}));
  EXPECT_TRUE(pools_->cancel(*waits));
  EXPECT_FALSE(pools_->find(*waits));
  EXPECT_FALSE(pools_->cancel(*waits)) << "it is in no pool";
  node_.next<wire::LeaseWorker>();
  const CellHandle sent = submit(pool());
  const auto worker = grant(kWorker);
  const auto frame = worker.next();
  EXPECT_FALSE(pools_->cancel(*sent));
  worker.expect_cancel_of(frame.header.number);
}

TEST_F(TaskPoolsTest, AWorkerThatTheNodeWantsBackGetsNoMoreTasks) {
  for (TaskPool* const each : {&pool(), &pool({.cpus = 2})}) {
    const CellHandle task = submit(*each);
    const CellHandle waits = submit(*each);
    const auto worker = grant(kWorker);
    const auto frame = worker.next();
    on_strand([&] { pools_->give_back({{kWorker}, 1}); });
    EXPECT_EQ(returned(), std::vector<WorkerId>{}) << "its task has not ended";
    worker.reply(frame.header.number);
    EXPECT_TRUE(has_value(task));
    EXPECT_EQ(node_.next<wire::ReturnLease>().message.worker, kWorker);
    EXPECT_TRUE(worker.sees_the_end());
    EXPECT_TRUE(pools_->cancel(*waits)) << "it waits for another worker";
    node_.all<wire::LeaseWorker>();
  }
}

TEST_F(TaskPoolsTest, OnlyAsManyWorkersAreGivenBackAsTheNodeWants) {
  TaskPool& first = pool();
  TaskPool& second = pool({.cpus = 2});
  std::vector<CellHandle> tasks;
  for (TaskPool* const each : {&first, &second}) {
    tasks.push_back(submit(*each));
    tasks.push_back(submit(*each));
  }
  auto leases =
      std::vector{node_.next<wire::LeaseWorker>(), node_.next<wire::LeaseWorker>(), node_.next<wire::LeaseWorker>()};
  const auto of_first = node_.offer_worker(leases[0], {.worker = kWorker, .actor = {}});
  const auto of_second = node_.offer_worker(leases[2], {.worker = kOtherWorker, .actor = {}});
  const auto of_first_frame = of_first.next();
  const auto of_second_frame = of_second.next();
  settle();
  on_strand([&] { pools_->give_back({{kWorker, kOtherWorker}, 1}); });
  of_second.reply(of_second_frame.header.number);
  of_first.reply(of_first_frame.header.number);
  EXPECT_EQ(node_.next<wire::ReturnLease>().message.worker, kWorker);
  EXPECT_EQ(of_second.next().header.kind, wire::FrameKind::kCall) << "this one stays and goes on";
  EXPECT_EQ(returned(), std::vector<WorkerId>{});
}

TEST_F(TaskPoolsTest, TasksFailWithTheReasonForWhichTheirWorkerEnded) {
  for (const bool out_of_memory : {false, true}) {
    const CellHandle task = submit(pool());
    const auto worker = grant(kWorker);
    worker.next();
    on_strand([&] { pools_->lose_worker({kWorker, "it crashed", out_of_memory}); });
    const Error why = error_of(task);
    EXPECT_EQ(why.code(), out_of_memory ? ErrorCode::kExhausted : ErrorCode::kWorkerDied);
    EXPECT_EQ(why.outcome(), Outcome::kUnknown);
    EXPECT_SAYS(why.message(), "the worker that ran the task ended: it crashed");
  }
}

TEST_F(TaskPoolsTest, ATaskThatMayRunAgainGetsAnotherWorker) {
  const CellHandle task = submit(pool(), new_call(1));
  const auto first = grant(kWorker);
  EXPECT_EQ(first.next().header.attempt, 0);
  on_strand([&] { pools_->lose_worker({kWorker, "it crashed", false}); });
  const auto second = grant(kOtherWorker);
  const auto frame = second.next();
  EXPECT_EQ(frame.header.attempt, 1);
  second.reply(frame.header.number);
  EXPECT_TRUE(has_value(task));
}

TEST_F(TaskPoolsTest, AWorkerWhoseConnectionEndsIsGivenUpWhenTheNodeDoesNotSayWhyItEnded) {
  const CellHandle told = submit(pool());
  auto first = grant(kWorker);
  first.next();
  const CellHandle untold = submit(pool());
  auto second = grant(kOtherWorker);
  second.next();
  first.die();
  second.die();
  on_strand([&] { pools_->lose_worker({kWorker, "it crashed", false}); });
  EXPECT_SAYS(error_of(told).message(), "it crashed");
  const Error why = error_of(untold);
  EXPECT_EQ(why.code(), ErrorCode::kWorkerDied);
  EXPECT_EQ(why.message(), "the worker's connection ended");
  const auto lease = node_.next<wire::ReturnLease>();
  EXPECT_EQ(lease.message.worker, kOtherWorker);
  EXPECT_TRUE(lease.message.broken) << "the worker may still live";
}

TEST_F(TaskPoolsTest, CloseFailsTheTasksOfAllPoolsAndLaterOnes) {
  const CellHandle sent = submit(pool());
  const auto worker = grant(kWorker);
  worker.next();
  const CellHandle waits = submit(pool({.cpus = 2}));
  pools_->close({ErrorCode::kRuntimeStopped, "it is over"});
  for (const CellHandle& each : {sent, waits, submit(pool()), submit(pool({.cpus = 2}))}) {
    EXPECT_EQ(error_of(each).code(), ErrorCode::kRuntimeStopped);
  }
  EXPECT_EQ(error_of(sent).outcome(), Outcome::kUnknown);
  EXPECT_EQ(error_of(waits).outcome(), Outcome::kNotStarted);
  EXPECT_TRUE(worker.sees_the_end());
}

}  // namespace
}  // namespace pharos::actors
