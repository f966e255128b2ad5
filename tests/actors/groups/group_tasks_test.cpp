// Tasks that take their resources from a placement group.

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::group_tasks {
namespace {

using namespace std::chrono_literals;

int twice(int number) {
  return 2 * number;
}
int stay(int milliseconds) {
  ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
  return milliseconds;
}
std::string gpus() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "unset" : visible;
}
/// Has its leaves counted by tasks of the same group, and waits for them.
int leaves(const PlacementGroup& group, int depth) {
  if (depth == 0) return 1;
  Runtime runtime;
  const TaskOptions inside{.group = group};
  const auto left = runtime.submit<&leaves>(inside, group, depth - 1);
  const auto right = runtime.submit<&leaves>(inside, group, depth - 1);
  return left.get() + right.get();
}

class Lodger {
 public:
  int number() const { return 7; }
};

Deadline soon() {
  return Deadline::in(20s);
}
template <class T>
bool ready_within(const Ref<T>& ref, Duration time) {
  return !wait(std::vector{ref}, {.deadline = Deadline::in(time)}).ready.empty();
}

class GroupTasksTest : public ClusterTest {
 protected:
  void TearDown() override {
    runtime_.reset();
    ClusterTest::TearDown();
  }
  void start(std::uint32_t cpus) { runtime_.emplace(RuntimeOptions{.cpus = cpus}); }
  PlacementGroup reserve(std::size_t bundles) {
    GroupOptions options;
    options.name = "room";
    options.bundles.assign(bundles, Bundle{.cpus = 1});
    return runtime_->reserve(options);
  }

  std::optional<Runtime> runtime_;
};

TEST_F(GroupTasksTest, ATaskHasWhatItsGroupHasSetAside) {
  start(1);
  const auto group = reserve(1);
  EXPECT_EQ(runtime_->submit<&twice>({.group = group}, 4).get(soon()), 8);
  EXPECT_EQ(runtime_->submit<&twice>({.group = group, .bundle = 0}, 5).get(soon()), 10);
  const auto other = runtime_->submit<&twice>(6);
  EXPECT_FALSE(ready_within(other, 200ms)) << "the node has no CPU beside those of the group";
  group.remove();
  EXPECT_EQ(other.get(soon()), 12);
}

TEST_F(GroupTasksTest, TheTasksOfAGroupRunInAllItsBundles) {
  start(2);
  const auto group = reserve(2);
  runtime_->submit<&twice>({.group = group}, 1).get(soon());
  const auto begin = std::chrono::steady_clock::now();
  const auto one = runtime_->submit<&stay>({.group = group}, 1000);
  const auto two = runtime_->submit<&stay>({.group = group}, 1000);
  get(std::vector{one, two}, soon());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1900ms);
}

TEST_F(GroupTasksTest, ATaskWaitsForItsGroupAndForItsActors) {
  start(1);
  const auto first = reserve(1);
  const auto actor = runtime_->spawn<Lodger>({.cpus = 1, .group = first});
  EXPECT_EQ(actor.call<&Lodger::number>().get(soon()), 7);
  const auto waits = runtime_->submit<&twice>({.group = first}, 4);
  EXPECT_FALSE(ready_within(waits, 200ms));
  actor.kill();
  EXPECT_EQ(waits.get(soon()), 8);
  const auto second = reserve(1);
  const auto later = runtime_->submit<&twice>({.group = second}, 5);
  EXPECT_FALSE(ready_within(later, 200ms));
  first.remove();
  EXPECT_EQ(later.get(soon()), 10);
}

TEST_F(GroupTasksTest, AnActorGetsItsPartOfABundleThatIsFullOfTasks) {
  start(1);
  const auto group = reserve(1);
  std::vector<Ref<int>> tasks;
  for (int i = 0; i < 40; ++i) tasks.push_back(runtime_->submit<&stay>({.group = group}, 50));
  tasks.front().get(soon());
  const auto actor = runtime_->spawn<Lodger>({.cpus = 1, .group = group});
  EXPECT_EQ(actor.call<&Lodger::number>().get(soon()), 7);
  EXPECT_FALSE(ready_within(tasks.back(), Duration{})) << "it did not have to wait for all of them";
  actor.kill();
  get(tasks, soon());
}

TEST_F(GroupTasksTest, TasksThatWaitForTasksOfTheirGroupEnd) {
  start(1);
  const auto group = reserve(1);
  EXPECT_EQ(runtime_->submit<&leaves>({.group = group}, group, 4).get(soon()), 16);
}

TEST_F(GroupTasksTest, AGroupLastsAsLongAsItsTasks) {
  start(1);
  std::optional group{reserve(1)};
  const auto task = runtime_->submit<&stay>({.group = *group}, 300);
  group.reset();
  EXPECT_EQ(task.get(soon()), 300);
  EXPECT_EQ(reserve(1).nodes().get(soon()).size(), 1U) << "then its resources are free";
}

TEST_F(GroupTasksTest, WhenAGroupIsRemovedItsTasksThatRunEndAndTheOthersFail) {
  start(1);
  const auto group = reserve(1);
  const auto runs = runtime_->submit<&stay>({.group = group}, 700);
  EXPECT_FALSE(ready_within(runs, 300ms));
  const auto waits = runtime_->submit<&twice>({.group = group}, 4);
  group.remove();
  EXPECT_SAYS(message_of<NotFound>([&] { waits.get(soon()); }), "asks for a group that was removed");
  EXPECT_EQ(runs.get(soon()), 700);
  EXPECT_SAYS(message_of<NotFound>([&] { runtime_->submit<&twice>({.group = group}, 4).get(soon()); }),
              "asks for a group that was removed");
  EXPECT_EQ(runtime_->submit<&twice>(6).get(soon()), 12) << "the CPU is free";
}

TEST_F(GroupTasksTest, WhatItsGroupCannotHaveATaskIsRefused) {
  start(2);
  const auto group = reserve(2);
  EXPECT_SAYS(
      message_of<InvalidArgument>([&] { runtime_->submit<&twice>({.cpus = 2, .group = group}, 4).get(soon()); }),
      "a task asks for 2 CPUs; no bundle of group \"room\" has more; the first has 1 CPU");
  EXPECT_SAYS(
      message_of<InvalidArgument>([&] { runtime_->submit<&twice>({.group = group, .bundle = 2}, 4).get(soon()); }),
      "a task asks for bundle 2 of group \"room\", which has 2");
}

TEST_F(GroupTasksTest, ATaskSeesTheGpusOfItsBundle) {
  ::setenv("PHAROS_RESOURCES", "cpu=2,gpu=3", 1);
  runtime_.emplace();
  ::unsetenv("PHAROS_RESOURCES");
  const auto group = runtime_->reserve({.bundles = {{.gpus = 1}, {.gpus = 1}}});
  const auto actor = runtime_->spawn<Lodger>({.gpus = 1});  // has the third
  EXPECT_EQ(actor.call<&Lodger::number>().get(soon()), 7);
  const TaskOptions first{.cpus = 0, .gpus = 1, .group = group, .bundle = 0};
  const TaskOptions second{.cpus = 0, .gpus = 1, .group = group, .bundle = 1};
  const std::string one = runtime_->submit<&gpus>(first).get(soon());
  const std::string two = runtime_->submit<&gpus>(second).get(soon());
  EXPECT_NE(one, two);
  EXPECT_EQ(runtime_->submit<&gpus>(first).get(soon()), one);
}

}  // namespace
}  // namespace pharos::cluster::group_tasks
