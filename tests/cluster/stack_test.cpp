// The command `pharos stack`, which shows what processes are doing while they do it.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "several_nodes.hpp"

namespace pharos::cluster::stack {
namespace {

using namespace std::chrono_literals;

class StackTest : public SeveralNodes {
 protected:
  void SetUp() override {
    SeveralNodes::SetUp();
    must_end_within(90s);
    start_head("cpu=2");
    start_node("cpu=2");
    program_ = start_program(BUSY, {});
    for (std::string line = program_->next_line(); line != "ready"; line = program_->next_line()) {
      const std::size_t space = line.find(' ');
      processes_[line.substr(0, space)] = std::atoi(line.substr(space + 1).c_str());
    }
  }
  void TearDown() override {
    for (const auto& [name, process] : processes_) ::kill(process, SIGCONT);
    program_->kill(SIGKILL);
    program_->wait();
    SeveralNodes::TearDown();
  }
  ChildProgram::End ask(std::vector<std::string> words) const {
    words.insert(words.begin(), "stack");
    words.insert(words.end(), {"--address", address_, "--token-file", token_file()});
    return ChildProgram{PHAROS_EXECUTABLE, words}.wait();
  }
  std::string of(const std::string& actor) const { return ask({actor}).output; }
  /// Asks for the actor's stack until the answer contains `part`, for at most 10 s. Returns the last answer.
  std::string of_until(const std::string& actor, const std::string& part) const {
    std::string text;
    eventually([&] { return (text = of(actor)).find(part) != std::string::npos; }, 10s);
    return text;
  }
  bool lives(const std::string& actor) const { return ::kill(processes_.at(actor), 0) == 0; }

  std::unique_ptr<ChildProgram> program_;
  std::map<std::string, pid_t> processes_;
};

TEST_F(StackTest, EachIsSeenAtWhatItDoesAndGoesOn) {
  EXPECT_SAYS(of_until("turning", "Busy::turn> >::call("), "Busy::turn> >::call(");
  EXPECT_SAYS(of("turning"), " runs Busy::turn for ");
  EXPECT_SAYS(of_until("allocating", "Busy::allocate"), "Busy::allocate");
  EXPECT_SAYS(of_until("reading", "Busy::read"), "Busy::read");
  const std::string waiting = of_until("waiting", "waits for");
  EXPECT_SAYS(waiting, "waits for Busy::process of actor \"turning\"\n    ");
  EXPECT_SAYS(waiting, "Busy::wait_for");
  EXPECT_SAYS(of_until("sleeping", "Busy::sleep"), "Busy::sleep");
  for (int i = 0; i < 15; ++i) {
    EXPECT_SAYS(of("allocating"), "Busy::allocate");
    EXPECT_SAYS(of("reading"), "Busy::read");
  }
  for (const auto& [name, process] : processes_) EXPECT_TRUE(lives(name)) << name;
}

TEST_F(StackTest, OneThatIsStoppedIsSaidToBeAndHoldsNobodyUp) {
  ::kill(processes_.at("stopped"), SIGSTOP);
  std::string text;
  const auto took = time_of([&] { text = of("stopped"); });
  EXPECT_SAYS(text, "it is stopped (by a signal, or a debugger)");
  EXPECT_SAYS(text, "what it waits for is not known");
  EXPECT_LT(took, 5s);
  const std::string all = ask({}).output;
  EXPECT_SAYS(all, "it is stopped");
  EXPECT_SAYS(all, "Busy::allocate");
  ::kill(processes_.at("stopped"), SIGCONT);
  EXPECT_SAYS(of_until("stopped", "runs no code of the program"), "stopped (actor ");
}

TEST_F(StackTest, AProgramSaysWhatItsGetsWaitFor) {
  const std::string all = ask({}).output;
  EXPECT_SAYS(all, "busy (");
  EXPECT_SAYS(all, "waits for Busy::wait_for of actor \"waiting\"");
  EXPECT_SAYS(ask({"--format", "json"}).output, "\"what\": \"turning\"");
}

TEST_F(StackTest, WhatIsNotThereIsSaidWithWhatToDo) {
  const auto nobody = ask({"nobody"});
  EXPECT_EQ(nobody.status, 256);
  EXPECT_SAYS(nobody.error, "no process of \"nobody\" runs. pharos list actors says what became of actors");
  EXPECT_EQ(ask({"--format", "xml"}).status, 512);
}

}  // namespace
}  // namespace pharos::cluster::stack
