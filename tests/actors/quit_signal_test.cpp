// SIGQUIT asks a program what its get()s wait for.

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
  /// Starts the program and returns when a worker runs what it waits for.
  ChildProgram& start(const std::string& mode) {
    program_.emplace(WAITING_PROGRAM, std::vector<std::string>{mode});
    deep_ = program_->next_line();
    EXPECT_SAYS(program_->next_line(), "staying");
    return *program_;
  }
  /// The report that holds this text. The program may be about to wait when the first question comes.
  std::string report_with(const std::string& text) {
    for (int i = 0; i < 5; ++i) {
      program_->kill(SIGQUIT);
      if (program_->error_with(text, 1500ms)) break;
    }
    return program_->error();
  }

  std::optional<ChildProgram> program_;
  std::string deep_;  // the process of the actor of that name
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

TEST_F(QuitSignalTest, AnArgumentThatIsNotThereIsNamedWithItsCall) {
  start("argument");
  const std::string text = report_with("for its argument, Slow::stay of actor \"deep\"");
  EXPECT_SAYS(text, "waits for add_one");
  EXPECT_SAYS(text, "runs in process " + deep_);
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
