// On SIGQUIT a program reports what its calls of get() wait for.

#include <signal.h>
#include <sys/wait.h>

#include <string>

#include "child_program.hpp"
#include "cluster_test.hpp"

namespace pharos::cluster::quit_signal {
namespace {

using namespace std::chrono_literals;

class QuitSignalTest : public ClusterTest {
 protected:
  void TearDown() override {
    program_.reset();
    ClusterTest::TearDown();
  }
  /// Starts the program. Returns when a worker runs the call that the program waits for.
  ChildProgram& start(const std::string& mode) {
    program_.emplace(WAITING_PROGRAM, std::vector<std::string>{mode},
                     ChildProgram::Variables{{"PHAROS_RESOURCES", "gpu=1"}});
    deep_ = program_->next_line();
    EXPECT_SAYS(program_->next_line(), "staying");
    return *program_;
  }
  std::string report_with(const std::string& text) { return program_->error_after_quit_signal(text); }

  std::optional<ChildProgram> program_;
  std::string deep_;  // pid of the actor "deep"
};

TEST_F(QuitSignalTest, ItNamesTheWholeChainDownToTheCallThatRunsAndTheProgramGoesOn) {
  start("chain");
  const std::string text = report_with("Slow::stay of actor \"deep\"");
  EXPECT_SAYS(text, "waits for Slow::ask of actor \"front\"");
  EXPECT_SAYS(text, "in Slow::ask, waits for Slow::stay of actor \"deep\"");
  EXPECT_SAYS(text, "runs in process " + deep_ + " for ");
  EXPECT_EQ(::kill(program_->pid(), 0), 0);
  EXPECT_FALSE(program_->ended()) << "the question ended the program";
}

TEST_F(QuitSignalTest, ACoroutineThatWaitsIsFollowedToo) {
  start("coroutine");
  const std::string text = report_with("Slow::stay of actor \"deep\"");
  EXPECT_SAYS(text, "waits for Slow::await of actor \"front\"");
  EXPECT_SAYS(text, "runs nothing: its coroutines wait");
  EXPECT_SAYS(text, "a coroutine, in Slow::await, waits for Slow::stay of actor \"deep\"");
  EXPECT_SAYS(text, "runs in process " + deep_ + " for ");
}

TEST_F(QuitSignalTest, ATaskThatHasNoWorkerNamesTheCpusAndWhoHasThem) {
  start("cpus");
  const std::string text = report_with("1 of 1 CPUs are in use");
  EXPECT_SAYS(text, "waits for add_one, a task");
  EXPECT_SAYS(text, "runs work_for for ");
}

TEST_F(QuitSignalTest, ATaskThatHoldsHalfACpuIsNamedLikeAnyOther) {
  start("half");
  const std::string text = report_with("waits for work_for, a task");
  EXPECT_SAYS(text, "runs in process ");
}

TEST_F(QuitSignalTest, ATaskThatWaitsForAGpuNamesWhoHasIt) {
  start("gpu task");
  const std::string text = report_with("waits for add_one, a task");
  EXPECT_SAYS(text, "which waits for a worker: 1 of 1 GPUs are in use");
  EXPECT_SAYS(text, "actor \"trainer\" has 1 GPU, in process ");
}

TEST_F(QuitSignalTest, AnActorThatWaitsForAGpuNamesWhoHasIt) {
  start("gpu actor");
  const std::string text = report_with("of actor \"greedy\"");
  EXPECT_SAYS(text, "has no process: it waits for 1 GPU: 1 of 1 GPUs are in use, by actor \"trainer\"");
}

TEST_F(QuitSignalTest, AnActorThatWaitsForWhatATaskHasSaysSo) {
  start("gpu behind task");
  const std::string text = report_with("of actor \"greedy\"");
  EXPECT_SAYS(text, "has no process: it waits for resources that tasks use: 1 of 1 GPUs are in use");
}

TEST_F(QuitSignalTest, ACallThatThousandsOfLaterOnesHaveLeftBehindIsNamed) {
  start("left behind");
  EXPECT_SAYS(report_with("waits for Slow::await of actor \"front\""), "waits for Slow::await of actor \"front\"");
}

TEST_F(QuitSignalTest, AnArgumentThatIsNotThereIsNamedWithItsCall) {
  start("argument");
  const std::string text = report_with("for its argument, Slow::stay of actor \"deep\"");
  EXPECT_SAYS(text, "waits for add_one");
  EXPECT_SAYS(text, "runs in process " + deep_);
}

TEST_F(QuitSignalTest, AnActorWhoseConstructorWaitsForAnArgumentSaysSo) {
  start("promised");
  const std::string text = report_with("of actor \"late\"");
  EXPECT_SAYS(text, "has no process: its constructor waits for arguments");
}

TEST_F(QuitSignalTest, AStoppedProcessDidNotAnswerAndTheReportComesNonetheless) {
  start("stopped");
  const std::string text = report_with("did not answer in time");
  EXPECT_SAYS(text, "process " + deep_);
}

TEST_F(QuitSignalTest, TwoWithinASecondEndTheProgramAsTheyWould) {
  ChildProgram& program = start("chain");
  program.kill(SIGQUIT);
  ASSERT_TRUE(program.error_with("waits for", 900ms));
  program.kill(SIGQUIT);
  const auto end = program.wait();
  ASSERT_TRUE(WIFSIGNALED(end.status)) << end.status;
  EXPECT_EQ(WTERMSIG(end.status), SIGQUIT);
}

TEST_F(QuitSignalTest, AHandlerOfTheProgramsOwnStays) {
  start("own");
  const std::string text = report_with("the program's own handler");
  EXPECT_SAYS(text, "the program's own handler");
  EXPECT_EQ(text.find("waits for"), std::string::npos) << text;
}

}  // namespace
}  // namespace pharos::cluster::quit_signal
