#include "program/wait_report.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <pharos/scheduler/resources.hpp>

namespace pharos::actors {
namespace {

using wire::Inspected;
using wire::InspectedWorker;
using wire::PendingResult;
using Stage = wire::PendingResult::Stage;

const CallerId kDriver{1};
constexpr std::int64_t kWhole = scheduler::Resources::kWhole;

std::string name_of(std::uint32_t function) {
  return "f" + std::to_string(function);
}
std::string explain(const std::vector<PendingResult>& waits, const Inspected* node) {
  return explain_waits(waits, kDriver, node, &name_of);
}

PendingResult call(ActorId actor, std::string label, std::uint64_t number) {
  return {
      .stage = Stage::kSent, .function = 7, .actor = actor, .label = std::move(label), .number = number, .thread = 100};
}
InspectedWorker process_of(ActorId actor, std::uint64_t worker, std::int32_t pid) {
  return {
      .worker = WorkerId{worker}, .actor = actor, .label = "x", .state = "it is alive", .pid = pid, .answered = true};
}
PendingResult task_that_asks_for(wire::Amounts amounts) {
  return {.stage = Stage::kUnsent, .function = 7, .thread = 100, .amounts = std::move(amounts)};
}
void runs(InspectedWorker& worker, std::uint32_t function, CallerId caller, std::uint64_t number) {
  worker.function = function;
  worker.nanoseconds = 3'200'000'000;
  worker.caller = caller;
  worker.number = number;
}

#define EXPECT_LINE(text, line) \
  EXPECT_NE((text).find(line), std::string::npos) << "\"" << (line) << "\" is not in\n" << (text)

TEST(WaitReportTest, NothingIsSaidAsSuch) {
  EXPECT_LINE(explain({}, nullptr), "none: no get() waits");
}

TEST(WaitReportTest, ACallThatRunsIsNamedWithProcessAndTime) {
  Inspected node;
  node.workers.push_back(process_of(ActorId{5}, 50, 1234));
  runs(node.workers[0], 7, kDriver, 3);
  const std::string text = explain({call(ActorId{5}, "slow", 3)}, &node);
  EXPECT_LINE(text, "thread 100 waits for f7 of actor \"slow\"");
  EXPECT_LINE(text, "runs in process 1234 for 3.2 s");
}

TEST(WaitReportTest, ACallBehindAnotherNamesThatOne) {
  Inspected node;
  node.workers.push_back(process_of(ActorId{5}, 50, 1234));
  runs(node.workers[0], 8, CallerId{2}, 3);
  EXPECT_LINE(explain({call(ActorId{5}, "slow", 3)}, &node), "queued in process 1234 (it is alive), which runs f8");
}

TEST(WaitReportTest, WhatTheRunningCallWaitsForIsFollowed) {
  Inspected node;
  node.workers = {process_of(ActorId{5}, 50, 1234), process_of(ActorId{6}, 60, 5678)};
  runs(node.workers[0], 7, kDriver, 3);
  node.workers[0].waits.push_back(call(ActorId{6}, "deep", 9));
  runs(node.workers[1], 7, CallerId{50}, 9);
  const std::string text = explain({call(ActorId{5}, "slow", 3)}, &node);
  EXPECT_LINE(text, "waits for f7 of actor \"deep\"");
  EXPECT_LINE(text, "runs in process 5678");
}

TEST(WaitReportTest, ActorsThatWaitForEachOtherAreSaidToAndTheReportEnds) {
  Inspected node;
  node.workers = {process_of(ActorId{5}, 50, 1234), process_of(ActorId{6}, 60, 5678)};
  runs(node.workers[0], 7, kDriver, 3);
  node.workers[0].waits.push_back(call(ActorId{6}, "b", 1));
  runs(node.workers[1], 7, CallerId{50}, 1);
  node.workers[1].waits.push_back(call(ActorId{5}, "a", 1));
  EXPECT_LINE(explain({call(ActorId{5}, "a", 3)}, &node), "this is a deadlock, and none of these processes can go on");
}

TEST(WaitReportTest, AProcessThatDoesNotAnswerIsNamed) {
  Inspected node;
  node.workers.push_back(process_of(ActorId{5}, 50, 1234));
  node.workers[0].answered = false;
  EXPECT_LINE(explain({call(ActorId{5}, "stuck", 3)}, &node), "process 1234 (it is alive) did not answer in time");
}

TEST(WaitReportTest, ANodeThatDoesNotAnswerIsNamed) {
  EXPECT_LINE(explain({call(ActorId{5}, "far", 3)}, nullptr), "the node did not answer in time");
}

TEST(WaitReportTest, AnActorWithoutAProcessSaysWhy) {
  Inspected node;
  node.workers.push_back({.actor = ActorId{5}, .label = "phoenix", .state = "it waits for its restart"});
  PendingResult unsent = call(ActorId{5}, "phoenix", 0);
  unsent.stage = Stage::kUnsent;
  EXPECT_LINE(explain({unsent}, &node), "has no process: it waits for its restart");
}

TEST(WaitReportTest, ATaskWithoutAWorkerNamesTheCpusAndWhoHasThem) {
  Inspected node{.total = {{"cpu", 2 * kWhole}}, .in_use = {{"cpu", 2 * kWhole}}};
  node.workers = {process_of(ActorId{}, 50, 1234), process_of(ActorId{}, 60, 5678)};
  for (InspectedWorker& worker : node.workers) worker.amounts = {{"cpu", kWhole}};
  runs(node.workers[0], 8, kDriver, 1);
  runs(node.workers[1], 9, kDriver, 2);
  const std::string text = explain({task_that_asks_for({{"cpu", kWhole}})}, &node);
  EXPECT_LINE(text, "thread 100 waits for f7, a task");
  EXPECT_LINE(text, "2 of 2 CPUs are in use");
  EXPECT_LINE(text, "process 1234 runs f8 for 3.2 s");
  EXPECT_LINE(text, "process 5678 runs f9 for 3.2 s");
}

TEST(WaitReportTest, ATaskThatWaitsForAGpuNamesThatAndTheActorThatHasItAndNotTheCpusThatAreFree) {
  Inspected node{.total = {{"cpu", 4 * kWhole}, {"gpu", kWhole}}, .in_use = {{"cpu", kWhole}, {"gpu", kWhole}}};
  node.workers = {process_of(ActorId{5}, 50, 1234), process_of(ActorId{}, 60, 5678)};
  node.workers[0].label = "trainer";
  node.workers[0].amounts = {{"gpu", kWhole}};
  node.workers[1].amounts = {{"cpu", kWhole}};
  runs(node.workers[1], 9, kDriver, 2);
  const std::string text = explain({task_that_asks_for({{"cpu", kWhole}, {"gpu", kWhole}})}, &node);
  EXPECT_LINE(text, "which waits for a worker: 1 of 1 GPUs are in use");
  EXPECT_LINE(text, "actor \"trainer\" has 1 GPU, in process 1234");
  EXPECT_EQ(text.find("CPU"), std::string::npos) << text;
  EXPECT_EQ(text.find("process 5678"), std::string::npos) << text;
}

TEST(WaitReportTest, ATaskThatItsNodeCannotRunNamesWhatAllNodesHave) {
  Inspected node{.cluster = {{"cpu", 3 * kWhole}, {"gpu", kWhole}}};
  node.workers.push_back({.worker = WorkerId{50}, .amounts = {{"cpu", kWhole}}, .elsewhere = "node 9, at host:1"});
  const std::string text = explain({task_that_asks_for({{"cpu", kWhole}})}, &node);
  EXPECT_LINE(text, "which waits for a worker of another node, with 1 CPU; all nodes together have 3 CPUs\n");
  EXPECT_LINE(text, "tasks have 1 CPU on node 9, at host:1");
  EXPECT_EQ(text.find("0 of 0"), std::string::npos) << text;
}

TEST(WaitReportTest, WhatIsOnAnotherNodeSaysOnWhich) {
  Inspected node;
  node.workers = {{.actor = ActorId{5}, .label = "far", .state = "it is alive", .elsewhere = "node 9, at host:1"},
                  {.worker = WorkerId{60}, .elsewhere = "node 8, the head's"}};
  EXPECT_LINE(explain({call(ActorId{5}, "far", 3)}, &node), "which is on node 9, at host:1: it is alive");
  const PendingResult task{.stage = Stage::kSent, .function = 7, .worker = WorkerId{60}, .thread = 100};
  EXPECT_LINE(explain({task}, &node), "runs on node 8, the head's");
}

TEST(WaitReportTest, ArgumentsThatAreNotThereAreFollowed) {
  Inspected node;
  node.workers.push_back(process_of(ActorId{5}, 50, 1234));
  runs(node.workers[0], 8, kDriver, 3);
  PendingResult outer{.stage = Stage::kArguments, .function = 6, .thread = 100};
  PendingResult argument = call(ActorId{5}, "source", 3);
  argument.argument_of = 0;
  const std::string text = explain({outer, argument}, &node);
  EXPECT_LINE(text, "waits for f6, a task");
  EXPECT_LINE(text, "for its argument, f7 of actor \"source\"");
  EXPECT_LINE(text, "runs in process 1234");
}

}  // namespace
}  // namespace pharos::actors
