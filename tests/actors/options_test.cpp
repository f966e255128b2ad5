#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::options {
namespace {

using namespace std::chrono_literals;

Deadline in(Duration duration) {
  return Deadline::in(duration);
}
Deadline soon() {
  return in(20s);
}

int twice(int value) {
  return 2 * value;
}
int stay(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
  return ms;
}
/// Kills its process in the first `times` runs. The file counts the runs.
int die_first(const std::string& path, int times) {
  int runs = 0;
  std::ifstream{path} >> runs;
  std::ofstream{path} << runs + 1;
  if (runs < times) ::raise(SIGKILL);
  return runs + 1;
}
long left_of_deadline_ms() {
  const Deadline deadline = context().deadline;
  if (deadline.is_never()) return -1;
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left(std::chrono::steady_clock::now())).count();
}
long left_in_an_inner_task_ms() {
  Runtime runtime;
  return runtime.submit<&left_of_deadline_ms>().get();
}
std::uint64_t trace() {
  return context().trace.value();
}
std::string node() {
  return to_string(context().node);
}
bool inner_trace_is_the_same() {
  Runtime runtime;
  return runtime.submit<&trace>().get() == trace() && trace() != 0;
}
long left_in_then_ms() {
  const auto left = [](int) { return Runtime{}.submit<&left_of_deadline_ms>().get(); };
  return Runtime{}.submit<&twice>(1).then(left).get();
}
/// The traces seen at several places; one element if they are all the same.
using Traces = std::set<std::uint64_t>;

/// An actor that makes further calls in its constructor and methods.
class Relay {
 public:
  Relay() : in_constructor_{trace(), Runtime{}.submit<&trace>().get()} {}
  Traces in_constructor() { return in_constructor_; }
  Traces through_a_task() { return {trace(), Runtime{}.submit<&trace>().get()}; }
  Traces through(Actor<Relay> other) { return with_own(other.call<&Relay::through_a_task>().get()); }
  Traces through_a_constructor() { return with_own(Runtime{}.spawn<Relay>().call<&Relay::in_constructor>().get()); }
  Traces through_then() {
    const auto in_then = [](int) { return Traces{trace(), Runtime{}.submit<&trace>().get()}; };
    return with_own(Runtime{}.submit<&twice>(1).then(in_then).get());
  }
  Traces through_then_of_then() {
    const auto found = std::make_shared<std::promise<std::uint64_t>>();
    const auto inner = [found](int) { found->set_value(Runtime{}.submit<&trace>().get()); };
    const auto outer = [inner](int) { [[maybe_unused]] const auto later = Runtime{}.submit<&twice>(1).then(inner); };
    Runtime{}.submit<&twice>(1).then(outer).get();
    return with_own({found->get_future().get()});
  }
  int crash() { return ::raise(SIGKILL); }

 private:
  static Traces with_own(Traces traces) {
    traces.insert(trace());
    return traces;
  }

  const Traces in_constructor_;
};

int stay_in_an_inner_task(int ms) {
  Runtime runtime;
  return runtime.submit<&stay>(ms).get();
}

class Witness {
 public:
  std::uint64_t actor() { return context().actor.value(); }
  int incarnation() { return static_cast<int>(context().incarnation); }
  bool knows_worker_node_and_job(std::uint64_t job) {
    const Context here = context();
    return here.worker && here.node && here.job.value() == job;
  }
  int crash() {
    ::raise(SIGKILL);
    return 0;
  }
  int stay(int ms) { return options::stay(ms); }
  int note(int value) {
    notes_ = notes_ * 10 + value;
    return notes_;
  }

 private:
  int notes_ = 0;
};

class OptionsTest : public ClusterTest {
 protected:
  std::string file() const { return census().folder().parent_path() / "pharos-options-test"; }
  void TearDown() override {
    std::remove(file().c_str());
    ClusterTest::TearDown();
  }
};

TEST_F(OptionsTest, ATaskWhoseWorkerDiesRunsAgainAsOftenAsItMay) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&die_first>({.max_retries = 3}, file(), 2).get(soon()), 3);
  std::remove(file().c_str());
  message_of<WorkerDied>([&] { runtime.submit<&die_first>({.max_retries = 1}, file(), 5).get(soon()); });
  std::remove(file().c_str());
  message_of<WorkerDied>([&] { runtime.submit<&die_first>(file(), 5).get(soon()); });
}

TEST_F(OptionsTest, ATaskThatCannotBeginBeforeItsDeadlineDoesNot) {
  Runtime runtime{RuntimeOptions{.cpus = 1}};
  const auto busy = runtime.submit<&stay>(1500);
  const auto late = runtime.submit<&twice>({.deadline = in(50ms)}, 1);
  EXPECT_LT(time_of([&] { message_of<DeadlineExceeded>([&] { late.get(soon()); }); }), 1200ms);
  EXPECT_EQ(late.try_get().error().outcome(), Outcome::kNotStarted);
  EXPECT_EQ(busy.get(soon()), 1500);
  EXPECT_EQ(runtime.submit<&twice>({.deadline = in(10s)}, 2).get(soon()), 4);
}

TEST_F(OptionsTest, ACallThatRunsPastItsDeadlineIsUnknownAndOneBehindItNeverBegins) {
  Runtime runtime;
  const auto witness = runtime.spawn<Witness>();
  EXPECT_EQ(witness.call<&Witness::note>(1).get(soon()), 1);
  const auto running = witness.call<&Witness::stay>({.deadline = in(50ms)}, 300);
  const auto behind = witness.call<&Witness::note>({.deadline = in(100ms)}, 2);
  message_of<DeadlineExceeded>([&] { running.get(soon()); });
  EXPECT_EQ(running.try_get().error().outcome(), Outcome::kUnknown);
  message_of<DeadlineExceeded>([&] { behind.get(soon()); });
  EXPECT_EQ(witness.call<&Witness::note>(3).get(soon()), 13);
}

TEST_F(OptionsTest, WhatACallCallsHasNoLongerThanTheCall) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&left_of_deadline_ms>().get(soon()), -1);
  const long left = runtime.submit<&left_in_an_inner_task_ms>({.deadline = in(5s)}).get(soon());
  EXPECT_GT(left, 1000);
  EXPECT_LE(left, 5000);
  message_of<DeadlineExceeded>(
      [&] { runtime.submit<&stay_in_an_inner_task>({.deadline = in(100ms)}, 10'000).get(soon()); });
}

TEST_F(OptionsTest, WhatThenCallsHasNoLongerThanTheCallThatLeftItTo) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&left_in_then_ms>().get(soon()), -1);
  const long left = runtime.submit<&left_in_then_ms>({.deadline = in(5s)}).get(soon());
  EXPECT_GT(left, 1000);
  EXPECT_LE(left, 5000);
}

TEST_F(OptionsTest, ACallTreeHasOneTraceThroughMethodsTasksConstructorsAndThen) {
  Runtime runtime;
  const auto relay = runtime.spawn<Relay>();
  const auto other = runtime.spawn<Relay>();
  const auto one = [](const Traces& traces) { return traces.size() == 1 && !traces.contains(0); };
  EXPECT_PRED1(one, relay.call<&Relay::through>(other).get(soon()));
  EXPECT_PRED1(one, relay.call<&Relay::through_a_constructor>().get(soon()));
  EXPECT_PRED1(one, relay.call<&Relay::through_then>().get(soon()));
  EXPECT_PRED1(one, relay.call<&Relay::through_then_of_then>().get(soon()));
  EXPECT_NE(relay.call<&Relay::through>(other).get(soon()), relay.call<&Relay::through>(other).get(soon()));
}

TEST_F(OptionsTest, ARestartedConstructorHasTheTraceOfTheFirst) {
  Runtime runtime;
  const auto relay = runtime.spawn<Relay>({.max_restarts = 1});
  const Traces first = relay.call<&Relay::in_constructor>().get(soon());
  EXPECT_EQ(first.size(), 1u);
  EXPECT_FALSE(first.contains(0));
  message_of<ActorDied>([&] { relay.call<&Relay::crash>().get(soon()); });
  EXPECT_EQ(relay.call<&Relay::in_constructor>().get(soon()), first);
}

TEST_F(OptionsTest, AnUnorderedCallDoesNotWaitForOthersArguments) {
  Runtime runtime;
  const auto witness = runtime.spawn<Witness>();
  EXPECT_EQ(witness.call<&Witness::note>(1).get(soon()), 1);
  const auto waits =
      witness.call<&Witness::note>({.unordered = true}, runtime.submit<&stay>(200).then([](int) { return 2; }));
  EXPECT_EQ(witness.call<&Witness::note>(3).get(soon()), 13);
  EXPECT_EQ(waits.get(soon()), 132);
}

TEST_F(OptionsTest, AnUnorderedCallPassesOrderedOnesThatWaitForArguments) {
  Runtime runtime;
  const auto witness = runtime.spawn<Witness>();
  EXPECT_EQ(witness.call<&Witness::note>(1).get(soon()), 1);
  const auto late = runtime.spawn<Witness>();
  const auto waits = witness.call<&Witness::note>(late.call<&Witness::stay>(300).then([](int) { return 2; }));
  const auto behind = witness.call<&Witness::note>(3);
  const auto passes = witness.call<&Witness::note>({.unordered = true}, 4);
  const auto later =
      witness.call<&Witness::note>({.unordered = true}, runtime.submit<&stay>(1).then([](int) { return 5; }));
  EXPECT_EQ(passes.get(soon()), 14);
  EXPECT_EQ(later.get(soon()), 145);
  EXPECT_FALSE(waits.ready());
  EXPECT_EQ(behind.get(soon()), 14523);
}

TEST_F(OptionsTest, AProgramKnowsJobNodeAndNamespaceOfItsNewestRuntimeAndNoneWithoutOne) {
  EXPECT_FALSE(context().job);
  {
    Runtime runtime;
    const Context here = context();
    EXPECT_EQ(here.job, runtime.job());
    EXPECT_EQ(here.name_space, to_string(runtime.job()));
    EXPECT_EQ(to_string(here.node), runtime.submit<&node>().get(soon()));
    EXPECT_FALSE(here.worker);
    EXPECT_FALSE(here.trace);
    {
      Runtime another;
      EXPECT_EQ(context().job, another.job());
    }
    EXPECT_EQ(context().job, runtime.job());
  }
  EXPECT_FALSE(context().job);
  EXPECT_FALSE(context().node);
  EXPECT_EQ(context().name_space, "");
}

TEST_F(OptionsTest, CodeKnowsWhereItRuns) {
  Runtime runtime;
  EXPECT_FALSE(context().worker);
  EXPECT_FALSE(context().trace);
  const auto witness = runtime.spawn<Witness>({.max_restarts = 1});
  EXPECT_EQ(witness.call<&Witness::actor>().get(soon()), witness.id().value());
  EXPECT_TRUE(witness.call<&Witness::knows_worker_node_and_job>(runtime.job().value()).get(soon()));
  EXPECT_EQ(witness.call<&Witness::incarnation>().get(soon()), 1);
  message_of<ActorDied>([&] { witness.call<&Witness::crash>().get(soon()); });
  EXPECT_EQ(witness.call<&Witness::incarnation>().get(soon()), 2);
  EXPECT_TRUE(runtime.submit<&inner_trace_is_the_same>().get(soon()));
  EXPECT_NE(runtime.submit<&trace>().get(soon()), runtime.submit<&trace>().get(soon()));
}

}  // namespace
}  // namespace pharos::cluster::options
