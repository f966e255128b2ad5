// A crash leaves a report on the program's standard error, and a headline in the caller's error.

#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>

#include "child_program.hpp"
#include "cluster_test.hpp"

namespace pharos::cluster::crash {
namespace {

using namespace std::chrono_literals;

class CrashTest : public ClusterTest {
 protected:
  /// Returns the program's output and error streams. The program itself must end normally.
  ChildProgram::End run(const std::string& mode) {
    ChildProgram program{CRASHING_PROGRAM, {mode}};
    const auto end = program.wait();
    EXPECT_EQ(end.status, 0) << end.output << end.error;
    EXPECT_SAYS(end.output, "the Runtime has ended");
    return end;
  }
};

// Pharos does not replace the sanitizers' own signal handlers; cmake/PharosTargets.cmake switches these off for tests.

TEST_F(CrashTest, ACrashNamesSignalAddressMethodAndTheStackWithTheActorsName) {
  const auto end = run("null");
  EXPECT_SAYS(end.output, "killed by SIGSEGV, in ");
  EXPECT_SAYS(end.output, "write_to_nowhere(int)");
  EXPECT_SAYS(end.error, "(careless pid=");
  EXPECT_SAYS(end.error, "*** SIGSEGV at address 0");
  EXPECT_SAYS(end.error, "in a call of Careless::null");
  EXPECT_SAYS(end.error, "#0 (anonymous namespace)::write_to_nowhere(int)");
  EXPECT_EQ(end.error.find("pharos::actors"), std::string::npos) << "the worker's own frames are noise\n" << end.error;
}

TEST_F(CrashTest, ACallOfANullFunctionPointerNamesWhoCalledIt) {
  const auto end = run("call_null");
  EXPECT_SAYS(end.output, "SIGSEGV, in ");
  EXPECT_SAYS(end.output, "call_no_function(int)");
}

TEST_F(CrashTest, ARecursionToDeathIsReportedFromAnotherStack) {
  const auto end = run("recurse");
  EXPECT_SAYS(end.output, "SIGSEGV, in ");
  EXPECT_SAYS(end.output, "recurse_to_death(int)");
  EXPECT_SAYS(end.error, " times]");
  EXPECT_SAYS(end.error, "and more");
}

TEST_F(CrashTest, ADivisionByZeroIsReported) {
  const auto end = run("divide");
  EXPECT_SAYS(end.output, "SIGFPE, in ");
  EXPECT_SAYS(end.output, "Careless::divide");
}

TEST_F(CrashTest, AnAbortNamesWhoCalledIt) {
  const auto end = run("abort");
  EXPECT_SAYS(end.output, "SIGABRT, in ");
  EXPECT_SAYS(end.output, "Careless::abort");
}

TEST_F(CrashTest, WhatEndsInTerminateNamesTypeAndTextOfTheException) {
  const auto end = run("terminate");
  EXPECT_SAYS(end.output, "SIGABRT, after throwing ");
  EXPECT_SAYS(end.output, "Overheated: at 80 degrees");
  EXPECT_SAYS(end.output, "in (anonymous namespace)::overheat(int)");
  EXPECT_SAYS(end.error, "in a call of Careless::terminate");
}

TEST_F(CrashTest, AnExceptionThatLeavesAUsersThreadIsReportedWithWhereItWasThrown) {
  const auto end = run("thread");
  EXPECT_SAYS(end.output, "Overheated: at 90 degrees");
  EXPECT_SAYS(end.error, "outside of calls");
  EXPECT_SAYS(end.error, "overheat(int)");
}

TEST_F(CrashTest, ACrashInADestructorIsReported) {
  const auto end = run("destructor");
  EXPECT_SAYS(end.error, "(careless pid=");
  EXPECT_SAYS(end.error, "write_to_nowhere(int)");
}

TEST_F(CrashTest, ATasksCrashIsReportedAsAnActorsIs) {
  const auto end = run("task");
  EXPECT_SAYS(end.output, "SIGSEGV, in ");
  EXPECT_SAYS(end.error, "in a call of crash_in_a_task");
}

/// CPU time that the process has used since it began; 0 if there is no such process.
std::chrono::nanoseconds cpu_time_of(pid_t process) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds{used.tv_sec} + std::chrono::nanoseconds{used.tv_nsec};
}

TEST_F(CrashTest, AConstructorThatCrashesEachTimeIsTriedLessAndLessOftenAndDisturbsNobody) {
  const auto begin = std::chrono::steady_clock::now();
  ChildProgram program{CRASHING_PROGRAM, {"loop"}};
  const auto node = census().wait_for(Part::kNode, 1);
  ASSERT_EQ(node.size(), 1u);
  const std::string reason = program.next_line();
  EXPECT_SAYS(reason, "actor \"thrice\" ended: ");
  EXPECT_SAYS(reason, "killed by SIGSEGV, in (anonymous namespace)::write_to_nowhere(int)");
  EXPECT_SAYS(reason, "; it was restarted 3 times. Fix what ends the actor, or give it more max_restarts.");
  std::chrono::nanoseconds used{};  // the head's CPU time: the head runs in the node's process
  std::optional<std::string> line;
  while (!line.has_value()) {
    used = std::max(used, cpu_time_of(node.front().pid));
    line = program.line_within(50ms);
  }
  EXPECT_EQ(*line, "as quick as before: yes");
  EXPECT_GT(used, 0ns);
  EXPECT_LT(used, (std::chrono::steady_clock::now() - begin) / 10);
  const auto end = program.wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "the Runtime has ended");
  std::size_t crashes = 0;
  const std::string report = "*** SIGSEGV at address 0";
  for (std::size_t at = end.error.find(report); at != std::string::npos; at = end.error.find(report, at + 1)) ++crashes;
  // Restarts follow after 0, 0.1, 0.2, 0.4, … seconds; the pause grows to at most ten seconds.
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LE(crashes, 4 + 3 + static_cast<std::size_t>(std::log2(10 * seconds)));
  EXPECT_GE(crashes, 4u + 4u);
  EXPECT_LT(end.error.size(), std::size_t{64} << 10);
}

}  // namespace
}  // namespace pharos::cluster::crash
