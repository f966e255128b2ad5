#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "several_nodes.hpp"

namespace pharos::cluster::job_command {
namespace {

using namespace std::chrono_literals;

/// Tests `pharos job`: programs that run on the cluster without a shell.
class JobCommandTest : public SeveralNodes {
 protected:
  /// Runs `pharos job`. The status is the exit code.
  ChildProgram::End job(const std::string& what, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"job", what, "--address", address_, "--token-file", token_file()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto end = ChildProgram{PHAROS_EXECUTABLE, arguments}.wait(20s);
    EXPECT_TRUE(WIFEXITED(end.status)) << end.status;
    end.status = WEXITSTATUS(end.status);
    return end;
  }
  ChildProgram::End submit(std::vector<std::string> options, const std::string& script) const {
    for (const char* const each : {"--", "/bin/sh", "-c"}) options.emplace_back(each);
    options.push_back(script);
    return job("submit", options);
  }
  std::string file(const std::string& name) const { return folder() / name; }
  void make(const std::string& name) const { std::ofstream{file(name)} << "there"; }
  bool is_there(const std::string& name) const { return fs::exists(file(name)); }
};

TEST_F(JobCommandTest, AJobRunsWithoutWhoHasSubmittedItAndSaysHowItEnds) {
  start_head();
  const auto submitted =
      submit({"--name", "nightly", "--env", "WORD=a b"}, "echo \"$PHAROS_JOB says $WORD\"; until [ -e " + file("go") +
                                                             " ]; do sleep 0.02; done; "
                                                             "echo done >&2; exit 7");
  EXPECT_EQ(submitted.status, 0) << submitted.error;
  EXPECT_SAYS(submitted.output, "nightly runs on node ");
  const auto runs = job("status", {"nightly", "--format", "json"});
  EXPECT_SAYS(runs.output, "\"state\": \"runs\"");
  EXPECT_SAYS(runs.output, "\"exit_code\": null");
  EXPECT_EQ(runs.status, 0);
  make("go");
  EXPECT_EQ(job("status", {"nightly", "--wait"}).status, 7);
  EXPECT_SAYS(job("list", {"--format", "json"}).output, "\"exit_code\": 7");
  EXPECT_EQ(job("logs", {"nightly", "--follow"}).output, "nightly says a b\ndone\n");
  EXPECT_EQ(job("logs", {"nightly", "--tail", "1"}).output, "done\n");
}

TEST_F(JobCommandTest, WhoWaitsSeesTheOutputAndHasTheJobsExitCode) {
  start_head();
  const auto end = submit({"--wait"}, "echo out; echo err >&2; exit 3");
  EXPECT_EQ(end.status, 3);
  EXPECT_SAYS(end.output, ") out\n");
  EXPECT_SAYS(end.error, ") err\n");
  const auto killed = submit({"--wait"}, "kill -9 $$");
  EXPECT_EQ(killed.status, 137);
  EXPECT_SAYS(killed.error, "killed by SIGKILL");
  EXPECT_EQ(submit({"--wait"}, "true").status, 0);
}

TEST_F(JobCommandTest, TheProgramOfAJobFindsItsCluster) {
  start_head("cpu=0");
  start_node("cpu=3");
  const std::string ask = std::string{PHAROS_EXECUTABLE} + " list nodes --format json";
  const auto end =
      submit({"--wait", "--cpus", "1"}, ask + " > " + file("nodes") + " && grep -c '\"id\"' " + file("nodes"));
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, ") 2\n");
}

TEST_F(JobCommandTest, WhatCannotBeRunIsSaid) {
  start_head();
  const auto nothing = job("submit", {"--name", "wrong", "--", "/no/such/program"});
  EXPECT_EQ(nothing.status, 127);
  EXPECT_SAYS(nothing.error, "/no/such/program: No such file or directory");
  EXPECT_EQ(job("status", {"wrong", "--wait"}).status, 127);
  EXPECT_EQ(job("submit", {"--", folder()}).status, 126);
  const auto again = submit({"--name", "wrong"}, "true");
  EXPECT_EQ(again.status, 1);
  EXPECT_SAYS(again.error, "there is a job \"wrong\" already");
  const auto much = submit({"--name", "much", "--gpus", "1"}, "true");
  EXPECT_EQ(much.status, 2);
  EXPECT_SAYS(much.error, "asks for 1 GPU");
  const auto unknown = job("status", {"much"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_SAYS(unknown.error, "there is no job \"much\"");
  EXPECT_EQ(submit({"--env", "=x"}, "true").status, 2);
  EXPECT_EQ(submit({"--node", "nowhere"}, "true").status, 2);
}

TEST_F(JobCommandTest, AJobEndsWithItsNodeAndIsSaidToBeLost) {
  must_end_within(60s);
  start_head("cpu=0");
  start_node("cpu=1");
  const auto submitted =
      submit({"--name", "unlucky", "--cpus", "1"}, "echo $$ > " + file("pid.new") + "; mv " + file("pid.new") + " " +
                                                       file("pid") + "; while true; do sleep 0.1; done");
  EXPECT_EQ(submitted.status, 0) << submitted.error;
  ASSERT_TRUE(eventually([&] { return is_there("pid"); }));
  pid_t program = 0;
  std::ifstream{file("pid")} >> program;
  ASSERT_EQ(::kill(program, 0), 0);
  ::kill(daemon_of(*nodes_[0]), SIGKILL);
  nodes_[0]->wait();
  nodes_.clear();
  EXPECT_TRUE(eventually([&] { return ::kill(program, 0) != 0; }));
  const auto lost = job("status", {"unlucky", "--wait"});
  EXPECT_EQ(lost.status, 1);
  EXPECT_SAYS(lost.output, "lost with its node");
}

}  // namespace
}  // namespace pharos::cluster::job_command
