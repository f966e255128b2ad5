#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::resources {
namespace {

using namespace std::chrono_literals;

std::string visible_gpus() {
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  return text == nullptr ? "unset" : text;
}
std::string visible_at_start = "not constructed";

class Trainer {
 public:
  Trainer() { visible_at_start = visible_gpus(); }
  std::string gpus() { return visible_gpus(); }
  std::string gpus_when_constructed() { return visible_at_start; }
  std::vector<std::string> gpus_in_context() { return context().gpus; }
  bool threads_have_the_same_context() {
    const Context own = context();
    Context its;
    std::thread{[&] { its = context(); }}.join();
    return own.actor && its.actor == own.actor && its.worker == own.worker && its.gpus == own.gpus &&
           its.cpus == own.cpus && its.name_space == own.name_space && its.job == own.job;
  }
  double cpus_in_context() { return context().cpus; }
  std::uint64_t memory_in_context() { return context().memory.bytes(); }
  double disks_in_context() { return context().resources.at("fast_disk"); }
  bool restarted() { return context().restarted; }
  std::string name_space() { return context().name_space; }
  int crash() {
    ::raise(SIGKILL);
    return 0;
  }
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "unset" : value;
}
constexpr const char* kNoColor = "none";  // with which this program does not load
const std::string kColorAtLoad = [] {     // when this program was loaded into this process
  std::string color = variable("PHAROS_TEST_COLOR");
  if (color == kNoColor) ::_exit(3);
  return color;
}();

/// The colour when the program was loaded, and now.
using Colors = std::pair<std::string, std::string>;
Colors colors() {
  return {kColorAtLoad, variable("PHAROS_TEST_COLOR")};
}
int process() {
  return ::getpid();
}

class Painter {
 public:
  Colors colors() const { return resources::colors(); }
  bool restarted() const { return context().restarted; }
  void crash() const { ::raise(SIGKILL); }
};

std::string gpus_of_task() {
  return visible_gpus() + " " + (context().gpus.empty() ? "none" : context().gpus.front());
}
std::string gpus_at_depth(int depth) {
  Runtime runtime;
  if (depth == 0) return runtime.submit<&gpus_of_task>({.gpus = 1}).get();
  return runtime.submit<&gpus_at_depth>(depth - 1).get();
}

/// Whether the running call has a deadline, and the id of its actor.
using Surroundings = std::pair<bool, std::uint64_t>;
Surroundings look_around() {
  return {!context().deadline.is_never(), context().actor.value()};
}
class Asker {
 public:
  Surroundings ask() { return Runtime{}.submit<&look_around>({.deadline = Deadline::in(1h)}).get(); }
};
Surroundings look_around_at_depth(int depth) {
  Runtime runtime;
  if (depth == 0) return runtime.spawn<Asker>().call<&Asker::ask>().get();
  return runtime.submit<&look_around_at_depth>(depth - 1).get();
}

double cpus_of_task() {
  return context().cpus;
}
std::string name_space_of_task() {
  return context().name_space;
}
int busy_for(int milliseconds) {
  ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
  return milliseconds;
}

/// A cluster of one machine whose resources the test declares.
class ResourcesTest : public ClusterTest {
 protected:
  void start(const std::string& declared, const char* visible = nullptr, RuntimeOptions options = {}) {
    ::setenv("PHAROS_RESOURCES", declared.c_str(), 1);
    if (visible != nullptr) ::setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    runtime_.emplace(options);
  }
  void TearDown() override {
    runtime_.reset();
    ::unsetenv("PHAROS_RESOURCES");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    ClusterTest::TearDown();
  }
  template <class T>
  static bool ready_within(const Ref<T>& ref, std::chrono::milliseconds time) {
    return wait(std::vector{ref}, {.count = 1, .deadline = Deadline::after(time, std::chrono::steady_clock::now())})
               .ready.size() == 1;
  }

  std::optional<Runtime> runtime_;
};

TEST_F(ResourcesTest, EachActorSeesItsOwnGpuBeforeItIsConstructed) {
  start("gpu=2");
  const auto first = runtime_->spawn<Trainer>({.gpus = 1});
  const auto second = runtime_->spawn<Trainer>({.gpus = 1});
  const std::set<std::string> seen{first.call<&Trainer::gpus>().get(), second.call<&Trainer::gpus>().get()};
  EXPECT_EQ(seen, (std::set<std::string>{"0", "1"}));
  EXPECT_EQ(first.call<&Trainer::gpus_when_constructed>().get(), first.call<&Trainer::gpus>().get());
  EXPECT_EQ(first.call<&Trainer::gpus_in_context>().get(),
            (std::vector<std::string>{first.call<&Trainer::gpus>().get()}));
  EXPECT_TRUE(first.call<&Trainer::threads_have_the_same_context>().get());
}

TEST_F(ResourcesTest, TwoHalvesShareOneGpu) {
  start("gpu=2");
  const auto first = runtime_->spawn<Trainer>({.gpus = 0.5});
  const auto second = runtime_->spawn<Trainer>({.gpus = 0.5});
  EXPECT_EQ(first.call<&Trainer::gpus>().get(), "0");
  EXPECT_EQ(second.call<&Trainer::gpus>().get(), "0");
  EXPECT_EQ(runtime_->spawn<Trainer>({.gpus = 1}).call<&Trainer::gpus>().get(), "1");
}

TEST_F(ResourcesTest, WhoAsksForNoGpuSeesNone) {
  start("gpu=2");
  EXPECT_EQ(runtime_->spawn<Trainer>().call<&Trainer::gpus>().get(), "");
  EXPECT_EQ(runtime_->submit<&gpus_of_task>().get(), " none");
}

// When calls nest deeper than there may be workers, a worker that waits for a task runs the task itself, unless the
// task needs resources that the worker does not have.
TEST_F(ResourcesTest, ATaskThatNeedsAGpuHasOneHoweverDeepItIsAsked) {
  start("gpu=1,cpu=1");
  EXPECT_EQ(runtime_->submit<&gpus_at_depth>(12).get(), "0 0");
}

TEST_F(ResourcesTest, ATaskThatIsRunByWhoeverWaitsForItIsItself) {
  start("cpu=1");
  const auto [deadline_is_its_own, actor] = runtime_->submit<&look_around_at_depth>(12).get();
  EXPECT_TRUE(deadline_is_its_own);
  EXPECT_EQ(actor, 0u);
}

TEST_F(ResourcesTest, TheProgramsOwnVisibleDevicesAreThePool) {
  start("gpu=2", "5,GPU-abc,7");
  EXPECT_EQ(runtime_->spawn<Trainer>({.gpus = 2}).call<&Trainer::gpus>().get(), "5,GPU-abc");
}

TEST_F(ResourcesTest, MoreGpusThanAreVisibleAreRefusedAtTheStart) {
  const auto text = message_of<InvalidArgument>([&] { start("gpu=2", "5"); });
  EXPECT_SAYS(text, "gpu=2");
  EXPECT_SAYS(text, "CUDA_VISIBLE_DEVICES=5");
}

TEST_F(ResourcesTest, ADeclarationThatMakesNoSenseIsRefusedAtTheStart) {
  EXPECT_SAYS(message_of<InvalidArgument>([&] { start("gpu=many"); }), "PHAROS_RESOURCES=gpu=many");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { start("gpu=0.5"); }), "a fraction of a GPU");
}

TEST_F(ResourcesTest, AnActorThatCanNeverFitIsRefusedAtOnceWithNumbers) {
  start("gpu=1,cpu=4");
  const auto actor = runtime_->spawn<Trainer>({.name = "trainer/3", .gpus = 2});
  const auto waited = time_of([&] {
    const auto text = message_of<InvalidArgument>([&] { actor.call<&Trainer::gpus>().get(); });
    EXPECT_SAYS(text, "actor \"trainer/3\" asks for 2 GPUs; the node has 1 GPU");
    EXPECT_SAYS(text, "PHAROS_RESOURCES");
  });
  EXPECT_LT(waited, 2s);
  const auto text =
      message_of<InvalidArgument>([&] { runtime_->spawn<Trainer>({.cpus = 5}).call<&Trainer::gpus>().get(); });
  EXPECT_SAYS(text, "5 CPUs; the node has 4 CPUs");
}

TEST_F(ResourcesTest, ATaskThatCanNeverFitIsRefusedAtOnceWithNumbers) {
  start("gpu=1,cpu=4");
  const auto text = message_of<InvalidArgument>([&] {
    runtime_->submit<&gpus_of_task>({.gpus = 2, .resources = {{"x", 1}}}).get();
  });
  EXPECT_SAYS(text, "2 GPUs and 1 x; the node has 1 GPU and 0 x");
  EXPECT_EQ(runtime_->submit<&cpus_of_task>().get(), 1.0) << "others go on";
}

TEST_F(ResourcesTest, AmountsThatMakeNoSenseAreRefused) {
  start("cpu=2");
  message_of<InvalidArgument>([&] { runtime_->spawn<Trainer>({.cpus = -1}); });
  message_of<InvalidArgument>([&] { runtime_->spawn<Trainer>({.gpus = 1.5}); });
  message_of<InvalidArgument>([&] { runtime_->spawn<Trainer>({.resources = {{"two words", 1}}}); });
  message_of<InvalidArgument>([&] { runtime_->submit<&cpus_of_task>({.cpus = std::nan("")}).get(); });
  EXPECT_SAYS(message_of<InvalidArgument>([&] {
                runtime_->submit<&cpus_of_task>({.resources = {{"gpu", 1}}}).get();
              }),
              ".gpus");
}

TEST_F(ResourcesTest, WhateverIsAskedForTheRefusalIsShortAndOthersGoOn) {
  start("cpu=2");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string large(1 << 20, 'x');
  const std::string with_zero{"a\0b", 3};
  const auto expect_refused = [&](const TaskOptions& options) {
    const std::string text = message_of<InvalidArgument>([&] { runtime_->submit<&cpus_of_task>(options).get(); });
    EXPECT_LT(text.size(), 500u);
  };
  for (const double amount : {-1.0, -kInfinity, kInfinity, std::nan(""), 1e300, 1e7, 0.00001}) {
    expect_refused({.cpus = amount});
    expect_refused({.gpus = amount});
    expect_refused({.resources = {{"x", amount}}});
  }
  for (const std::string& name : {std::string{}, large, with_zero, std::string{"a=b"}}) {
    expect_refused({.resources = {{name, 1}}});
    expect_refused({.labels = {{name, "a"}}});
    expect_refused({.labels = {{"a", name}}});
  }
  TaskOptions many{.cpus = 1};
  for (int i = 0; i < 100; ++i) many.resources["r" + std::to_string(i)] = 1;
  expect_refused(many);
  expect_refused({.node = NodeId{77}});
  EXPECT_SAYS(message_of<InvalidArgument>([&] {
                runtime_->submit<&cpus_of_task>({.resources = {{"unobtainium", 3}}}).get();
              }),
              "3 unobtainium; the node has 0 unobtainium");
  EXPECT_EQ(runtime_->submit<&cpus_of_task>().get(), 1.0);
}

TEST_F(ResourcesTest, CallsOfAnActorThatWaitsForItsGpuWaitUntilAnotherEnds) {
  start("gpu=1");
  std::optional<Actor<Trainer>> first = runtime_->spawn<Trainer>({.gpus = 1});
  EXPECT_EQ(first->call<&Trainer::gpus>().get(), "0");
  const auto second = runtime_->spawn<Trainer>({.gpus = 1});
  const auto third = runtime_->spawn<Trainer>({.gpus = 1});
  const auto answer = second.call<&Trainer::gpus>();
  const auto later = third.call<&Trainer::gpus>();
  EXPECT_FALSE(ready_within(answer, 200ms));
  EXPECT_EQ(runtime_->spawn<Trainer>().call<&Trainer::gpus>().get(), "") << "who wants no GPU need not wait";
  first.reset();
  EXPECT_EQ(answer.get(), "0");
  EXPECT_FALSE(later.ready()) << "first come, first served";
  second.kill();
  EXPECT_EQ(later.get(), "0");
}

TEST_F(ResourcesTest, AnActorThatNobodyWantsAnyMoreWaitsForNothing) {
  start("gpu=1");
  const auto first = runtime_->spawn<Trainer>({.gpus = 1});
  EXPECT_EQ(first.call<&Trainer::gpus>().get(), "0");
  runtime_->spawn<Trainer>({.gpus = 1});
  const auto killed = runtime_->spawn<Trainer>({.gpus = 1});
  killed.kill();
  const auto last = runtime_->spawn<Trainer>({.gpus = 1});
  first.kill();
  EXPECT_EQ(last.call<&Trainer::gpus>().get(), "0");
}

TEST_F(ResourcesTest, ARestartedActorHasAGpuAgainAndKnowsThatItWasRestarted) {
  start("gpu=1");
  const auto actor = runtime_->spawn<Trainer>({.gpus = 1, .max_restarts = 1});
  EXPECT_FALSE(actor.call<&Trainer::restarted>().get());
  EXPECT_THROW(actor.call<&Trainer::crash>().get(), ActorDied);
  EXPECT_TRUE(actor.call<&Trainer::restarted>().get());
  EXPECT_EQ(actor.call<&Trainer::gpus>().get(), "0");
}

TEST_F(ResourcesTest, TasksWithAGpuTakeTurns) {
  start("gpu=1,cpu=4");
  std::vector<Ref<std::string>> results;
  for (int i = 0; i < 20; ++i) results.push_back(runtime_->submit<&gpus_of_task>({.gpus = 1}));
  for (const auto& result : results) EXPECT_EQ(result.get(), "0 0");
  EXPECT_EQ(runtime_->spawn<Trainer>({.gpus = 1}).call<&Trainer::gpus>().get(), "0") << "and then it is free again";
}

TEST_F(ResourcesTest, TasksOfTwoCpusLeaveNoRoomForMoreThanThereIs) {
  start("cpu=2");
  const auto took = time_of([&] {
    std::vector<Ref<int>> results;
    for (int i = 0; i < 3; ++i) results.push_back(runtime_->submit<&busy_for>({.cpus = 2}, 50));
    for (const auto& result : results) result.get();
  });
  EXPECT_GE(took, 150ms) << "one at a time";
  EXPECT_EQ(runtime_->submit<&cpus_of_task>({.cpus = 0.5}).get(), 0.5);
}

TEST_F(ResourcesTest, AnActorsCpusAreTakenFromTasks) {
  start("cpu=2");
  const auto actor = runtime_->spawn<Trainer>({.cpus = 2});
  EXPECT_EQ(actor.call<&Trainer::cpus_in_context>().get(), 2.0);
  const auto task = runtime_->submit<&cpus_of_task>();
  EXPECT_FALSE(ready_within(task, 200ms));
  actor.kill();
  EXPECT_EQ(task.get(), 1.0);
}

TEST_F(ResourcesTest, ResourcesOfTheUsersOwnAreCounted) {
  start("fast_disk=2");
  const auto first = runtime_->spawn<Trainer>({.resources = {{"fast_disk", 1.5}}});
  EXPECT_EQ(first.call<&Trainer::disks_in_context>().get(), 1.5);
  const auto second = runtime_->spawn<Trainer>({.resources = {{"fast_disk", 1}}});
  const auto answer = second.call<&Trainer::disks_in_context>();
  EXPECT_FALSE(ready_within(answer, 100ms));
  first.kill();
  EXPECT_EQ(answer.get(), 1.0);
}

TEST_F(ResourcesTest, NobodyIsPlacedWhereThereIsTooLittleMemory) {
  start("cpu=2,memory=1GiB");
  auto first = runtime_->spawn<Trainer>({.memory = 600_MiB});
  EXPECT_EQ(first.call<&Trainer::memory_in_context>().get(), (600_MiB).bytes());
  EXPECT_EQ(runtime_->submit<&cpus_of_task>({.memory = 400_MiB}).get(), 1.0);
  const auto second = runtime_->spawn<Trainer>({.memory = 600_MiB});
  const auto answer = second.call<&Trainer::memory_in_context>();
  EXPECT_FALSE(ready_within(answer, 100ms));
  first.kill();
  EXPECT_EQ(answer.get(), (600_MiB).bytes());
  EXPECT_SAYS(message_of<InvalidArgument>([&] { runtime_->submit<&cpus_of_task>({.memory = 2_GiB}).get(); }),
              "2 GiB memory; the node has 1 GiB memory");
  EXPECT_SAYS(message_of<InvalidArgument>([&] {
                runtime_->submit<&cpus_of_task>({.resources = {{"memory", 1}}}).get();
              }),
              "Write .memory = 2_GiB.");
  const auto group = runtime_->reserve({.bundles = {{.memory = 400_MiB}}});
  const auto third = runtime_->spawn<Trainer>({.memory = 300_MiB, .group = group});
  EXPECT_EQ(third.call<&Trainer::memory_in_context>().get(), (300_MiB).bytes());
}

TEST_F(ResourcesTest, OptionsOfTheRuntimeCountMoreThanTheEnvironment) {
  start("cpu=64", nullptr, {.cpus = 1});
  EXPECT_SAYS(message_of<InvalidArgument>([&] { runtime_->submit<&cpus_of_task>({.cpus = 2}).get(); }), "has 1 CPU");
}

TEST_F(ResourcesTest, TheContextKnowsTheNamespace) {
  start("cpu=2");
  const auto actor = runtime_->spawn<Trainer>({.name = "t", .name_space = "team"});
  EXPECT_EQ(actor.call<&Trainer::name_space>().get(), "team");
  EXPECT_EQ(runtime_->submit<&name_space_of_task>().get(), to_string(runtime_->job()));
  EXPECT_EQ(runtime_->spawn<Trainer>().call<&Trainer::name_space>().get(), to_string(runtime_->job()));
}

// ---- Environments

TEST_F(ResourcesTest, ATaskHasItsEnvironmentFromTheStartOfItsProgram) {
  start("cpu=2");
  EXPECT_EQ(runtime_->submit<&colors>().get(), (Colors{"unset", "unset"}));
  const TaskOptions red{.env = {{"PHAROS_TEST_COLOR", "red"}, {"PHAROS_TEST_SIZE", "9"}}};
  EXPECT_EQ(runtime_->submit<&colors>(red).get(), (Colors{"red", "red"}));
  EXPECT_EQ(runtime_->submit<&colors>({.env = {{"PHAROS_TEST_COLOR", "blue"}}}).get(), (Colors{"blue", "blue"}));
  EXPECT_EQ(runtime_->submit<&colors>().get(), (Colors{"unset", "unset"}));
  const int first = runtime_->submit<&process>(red).get();
  EXPECT_EQ(runtime_->submit<&process>(red).get(), first) << "a worker is used again";
}

TEST_F(ResourcesTest, AnActorHasItsEnvironmentAlsoAfterARestart) {
  start("cpu=2");
  const auto painter = runtime_->spawn<Painter>({.env = {{"PHAROS_TEST_COLOR", "green"}}, .max_restarts = 1});
  EXPECT_EQ(painter.call<&Painter::colors>().get(), (Colors{"green", "green"}));
  message_of<ActorDied>([&] { painter.call<&Painter::crash>().get(); });
  EXPECT_TRUE(painter.call<&Painter::restarted>().get());
  EXPECT_EQ(painter.call<&Painter::colors>().get(), (Colors{"green", "green"}));
  const auto group = runtime_->spawn_group<Painter>({.size = 2, .env = {{"PHAROS_TEST_COLOR", "grey"}}});
  EXPECT_EQ(group.gather<&Painter::colors>().get(), (std::vector<Colors>{{"grey", "grey"}, {"grey", "grey"}}));
}

TEST_F(ResourcesTest, MoreEnvironmentsThanANodeHasTakeTurns) {
  start("cpu=2");
  std::vector<Ref<Colors>> refs;
  for (int i = 0; i < 12; ++i)
    refs.push_back(runtime_->submit<&colors>({.env = {{"PHAROS_TEST_COLOR", std::to_string(i)}}}));
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(refs[static_cast<std::size_t>(i)].get(), (Colors{std::to_string(i), std::to_string(i)}));
  }
}

TEST_F(ResourcesTest, EnvironmentsThatMakeNoSenseAreRefused) {
  start("cpu=2");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { runtime_->submit<&colors>({.env = {{"", "x"}}}).get(); }), "no name");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { runtime_->spawn<Painter>({.env = {{"A=B", "x"}}}); }), "\"A=B\"");
}

TEST_F(ResourcesTest, AnEnvironmentInWhichTheProgramDoesNotLoadIsTold) {
  start("cpu=2");
  const std::string said = message_of<FailedPrecondition>([&] {
    runtime_->submit<&colors>({.env = {{"PHAROS_TEST_COLOR", kNoColor}}}).get();
  });
  EXPECT_SAYS(said, "does not load");
  EXPECT_SAYS(said, ".env");
  EXPECT_EQ(runtime_->submit<&colors>().get(), (Colors{"unset", "unset"}));
}

}  // namespace
}  // namespace pharos::cluster::resources
