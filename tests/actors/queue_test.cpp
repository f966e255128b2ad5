#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::queues {
namespace {

using namespace std::chrono_literals;

Deadline soon() {
  return Deadline::in(20s);
}

void produce(const Queue<int>& queue, int first, int count) {
  for (int i = 0; i < count; ++i) queue.put(first + i).get();
}
/// Takes until the queue is closed and empty.
std::vector<int> consume(const Queue<int>& queue) {
  std::vector<int> taken;
  for (;;) {
    const auto item = queue.get().try_get();
    if (!item) {
      EXPECT_EQ(item.error().code(), ErrorCode::kFailedPrecondition) << item.error().to_string();
      return taken;
    }
    taken.push_back(*item);
  }
}

using QueueTest = ClusterTest;

TEST_F(QueueTest, ItemsComeInTheirOrder) {
  Runtime runtime;
  const auto queue = Queue<std::string>::make(runtime);
  std::vector<Ref<void>> puts;
  for (int i = 0; i < 500; ++i) puts.push_back(queue.put(std::to_string(i)));
  get(puts, soon());
  EXPECT_EQ(queue.size().get(soon()), 500U);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(queue.get().get(soon()), std::to_string(i));
  EXPECT_EQ(queue.size().get(soon()), 0U);
}

TEST_F(QueueTest, AFullQueueLetsProducersWaitInTheirOrder) {
  Runtime runtime;
  const auto queue = Queue<int>::make(runtime, {.capacity = 2});
  std::vector<Ref<void>> puts;
  for (int i = 0; i < 6; ++i) puts.push_back(queue.put(i));
  get(std::vector{puts[0], puts[1]}, soon());
  EXPECT_EQ(queue.size().get(soon()), 2U);  // the other puts came before this call
  EXPECT_FALSE(puts[2].ready());
  EXPECT_EQ(queue.get().get(soon()), 0);
  puts[2].get(soon());
  EXPECT_EQ(queue.size().get(soon()), 2U);
  EXPECT_FALSE(puts[3].ready());
  for (int i = 1; i < 6; ++i) EXPECT_EQ(queue.get().get(soon()), i);
  get(puts, soon());
}

TEST_F(QueueTest, ConsumersOfAnEmptyQueueAreServedInTheirOrder) {
  Runtime runtime;
  const auto queue = Queue<int>::make(runtime);
  std::vector<Ref<int>> gets;
  for (int i = 0; i < 5; ++i) gets.push_back(queue.get());
  EXPECT_EQ(queue.size().get(soon()), 0U);
  for (int i = 0; i < 5; ++i) queue.put(i).get(soon());
  EXPECT_EQ(get(gets, soon()), (std::vector{0, 1, 2, 3, 4}));
}

TEST_F(QueueTest, WhoGivesUpTakesNothingAndPutsNothing) {
  Runtime runtime;
  const auto queue = Queue<int>::make(runtime, {.capacity = 1});
  EXPECT_THROW(queue.get({.deadline = Deadline::in(50ms)}).get(soon()), DeadlineExceeded);
  const auto cancelled = queue.get();
  EXPECT_EQ(queue.size().get(soon()), 0U);
  cancelled.cancel();
  EXPECT_THROW(cancelled.get(soon()), Cancelled);
  queue.put(1).get(soon());
  EXPECT_THROW(queue.put(2, {.deadline = Deadline::in(50ms)}).get(soon()), DeadlineExceeded);
  const auto behind = queue.put(3);
  EXPECT_EQ(queue.get().get(soon()), 1);
  behind.get(soon());
  EXPECT_EQ(queue.get().get(soon()), 3);
  EXPECT_EQ(queue.size().get(soon()), 0U);
}

TEST_F(QueueTest, AListLargerThanTheQueueGoesThroughInOnePiece) {
  Runtime runtime;
  const auto queue = Queue<int>::make(runtime, {.capacity = 3});
  std::vector<int> items(10);
  std::iota(items.begin(), items.end(), 0);
  const auto first = queue.put_all(items);
  const auto second = queue.put(100);
  std::vector<int> taken;
  while (taken.size() < 11) {
    const auto some = queue.get_some(2).get(soon());
    ASSERT_GE(some.size(), 1U);
    ASSERT_LE(some.size(), 2U);
    taken.insert(taken.end(), some.begin(), some.end());
  }
  items.push_back(100);
  EXPECT_EQ(taken, items);
  get(std::vector{first, second}, soon());
  queue.put_all({}).get(soon());
}

TEST_F(QueueTest, AClosedQueueGivesWhatIsLeft) {
  Runtime runtime;
  const auto queue = Queue<int>::make(runtime, {.capacity = 2});
  queue.put_all({1, 2}).get(soon());
  const auto waits = queue.put(3);
  EXPECT_EQ(queue.size().get(soon()), 2U);
  queue.close().get(soon());
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { waits.get(soon()); }), "the queue is closed");
  EXPECT_THROW(queue.put(4).get(soon()), FailedPrecondition);
  EXPECT_EQ(queue.get().get(soon()), 1);
  EXPECT_EQ(queue.get_some(10).get(soon()), std::vector{2});
  EXPECT_THROW(queue.get().get(soon()), FailedPrecondition);
  EXPECT_TRUE(queue.get_some(10).get(soon()).empty());

  const auto empty = Queue<int>::make(runtime);
  const std::vector gets{empty.get(), empty.get()};
  EXPECT_EQ(empty.size().get(soon()), 0U);
  empty.close().get(soon());
  for (const auto& each : gets) EXPECT_THROW(each.get(soon()), FailedPrecondition);
}

TEST_F(QueueTest, ManyProducersAndConsumersShareIt) {
  constexpr int kProducers = 4;
  constexpr int kItems = 500;
  Runtime runtime{{.cpus = 8}};
  const auto queue = Queue<int>::make(runtime, {.capacity = 16});
  std::vector<Ref<void>> producers;
  std::vector<Ref<std::vector<int>>> consumers;
  for (int i = 0; i < kProducers; ++i) {
    producers.push_back(runtime.submit<&produce>(queue, i * kItems, kItems));
    consumers.push_back(runtime.submit<&consume>(queue));
  }
  get(producers, soon());
  queue.close().get(soon());
  std::vector<int> all;
  for (const auto& taken : get(consumers, soon())) {
    for (int producer = 0; producer < kProducers; ++producer) {
      std::vector<int> of_one;
      std::ranges::copy_if(taken, std::back_inserter(of_one), [&](int item) { return item / kItems == producer; });
      EXPECT_TRUE(std::ranges::is_sorted(of_one));
    }
    all.insert(all.end(), taken.begin(), taken.end());
  }
  std::ranges::sort(all);
  std::vector<int> expected(kProducers * kItems);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST_F(QueueTest, OtherProgramsFindItByItsName) {
  Runtime runtime;
  const auto queue = Queue<int>::make(runtime, {.actor = {.name = "jobs", .name_space = "test"}});
  queue.put(7).get(soon());
  EXPECT_EQ(Queue<int>::find(runtime, "jobs", "test").get().get(soon()), 7);
  EXPECT_THROW(Queue<int>::find(runtime, "nobody", "test"), NotFound);
}

TEST_F(QueueTest, AQueueThatDiesSaysSoAndOneWithoutRoomIsRefused) {
  Runtime runtime;
  const auto queue = Queue<int>::make(runtime, {.actor = {.name = "jobs"}});
  const auto waits = queue.get();
  EXPECT_EQ(queue.size().get(soon()), 0U);
  queue.actor().kill();
  EXPECT_SAYS(message_of<ActorDied>([&] { waits.get(soon()); }), "\"jobs\"");
  EXPECT_THROW(queue.put(1).get(soon()), ActorDied);
  EXPECT_SAYS(message_of<InvalidArgument>([&] { Queue<int>::make(runtime, {.capacity = 0}); }), "capacity 0");
  EXPECT_THROW(Queue<int>::make(runtime).get_some(0).get(soon()), InvalidArgument);
}

}  // namespace
}  // namespace pharos::cluster::queues
