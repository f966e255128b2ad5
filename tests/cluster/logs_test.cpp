// The command `pharos logs`, which shows what workers and nodes have written.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "several_nodes.hpp"

namespace pharos::cluster::logs {
namespace {

using namespace std::chrono_literals;

class LogsTest : public SeveralNodes {
 protected:
  void TearDown() override {
    if (program_ != nullptr) {
      program_->kill(SIGKILL);
      program_->wait();
    }
    SeveralNodes::TearDown();
  }
  std::vector<std::string> logs(std::vector<std::string> words) const {
    words.insert(words.begin(), "logs");
    words.insert(words.end(), {"--address", address_, "--token-file", token_file()});
    return words;
  }
  /// Runs the command over TCP, as from another machine.
  ChildProgram::End ask(std::vector<std::string> words) const {
    return ChildProgram{PHAROS_EXECUTABLE, logs(std::move(words))}.wait();
  }
  /// The first word of the line that contains `part`.
  static std::string id_in(const std::string& table, const std::string& part) {
    const std::size_t at = table.find(part);
    if (at == std::string::npos) return "none";
    const std::size_t begin = table.rfind('\n', at) + 1;
    return table.substr(begin, table.find(' ', begin) - begin);
  }
  void start_program(const std::string& mode) { program_ = SeveralNodes::start_program(WRITING, {mode}); }

  std::unique_ptr<ChildProgram> program_;
};

TEST_F(LogsTest, WhatTheDeadHaveWrittenIsThereForAsLongAsTheirNode) {
  start_head("cpu=4");
  auto& node = start_node("cpu=1,b=1");
  start_program("ends");
  read_until(*program_, "ready");
  program_->kill(SIGKILL);
  program_->wait();
  program_.reset();

  const std::string all = ask({}).output;
  // If the compiler has inlined the method, the log shows the call instead of the method.
  const bool as_call = all.find("killed by SIGABRT, in a call of Writer::crash") != std::string::npos;
  const bool as_itself = all.find("killed by SIGABRT, in crash at writing.cpp:") != std::string::npos;
  EXPECT_TRUE(as_call || as_itself) << all;
  const auto second = ask({"restarted"});
  EXPECT_EQ(second.status, 0) << second.error;
  EXPECT_SAYS(second.output, "second to out\n");
  EXPECT_SAYS(second.output, "second to err\n");
  EXPECT_SAYS(second.output, "*** SIGABRT, in thread ");
  EXPECT_EQ(second.output.find("first"), std::string::npos) << second.output;
  EXPECT_SAYS(second.error, "an earlier process of it: pharos logs ");
  const std::string earlier = second.error.substr(second.error.rfind(' ') + 1, 16);
  EXPECT_SAYS(ask({earlier}).output, "first to out\n");
  EXPECT_EQ(ask({earlier, "--follow"}).status, 0) << "it has ended, and so does this";
  const std::string tail = ask({"restarted", "--tail", "1"}).output;
  EXPECT_EQ(std::count(tail.begin(), tail.end(), '\n'), 1) << tail;
  EXPECT_EQ(ask({"restarted", "--tail", "0"}).output, "");
  EXPECT_SAYS(ask({"--format", "json"}).output, "\"what\": \"restarted\"");

  const auto twins = ask({"twin"});
  EXPECT_EQ(twins.status, 512);
  EXPECT_SAYS(twins.error, "2 logs belong to \"twin\". Choose one:\n  pharos logs ");
  EXPECT_SAYS(ask({id_in(all, "twin")}).output, "to out");

  const auto restarted = id_in(all, "restarted");
  node.kill(SIGTERM);
  node.wait();
  nodes_.clear();
  const auto gone = ask({restarted});
  EXPECT_EQ(gone.status, 256);
  EXPECT_SAYS(gone.error, "there is no log of \"" + restarted + "\"");
}

TEST_F(LogsTest, OneThatIsFollowedEndsWithItsWorker) {
  start_head();
  start_program("ticks");
  const pid_t worker = std::atoi(program_->next_line().c_str());
  read_until(*program_, "tick 3");
  ChildProgram follows{PHAROS_EXECUTABLE, logs({"writer", "--follow", "--tail", "1"})};
  const int first = std::atoi(read_until(follows, "tick ").substr(5).c_str());
  EXPECT_GE(first, 3);
  for (int i = first + 1; i < first + 30; ++i) EXPECT_EQ(follows.next_line(), "tick " + std::to_string(i));
  ::kill(worker, SIGKILL);
  EXPECT_EQ(follows.wait().status, 0);
}

TEST_F(LogsTest, AFloodLeavesItsEnd) {
  start_head();
  start_program("floods");
  ASSERT_TRUE(program_->error_with("flooded"));
  EXPECT_TRUE(eventually([&] { return ask({"writer", "--tail", "1"}).output == "the last line\n"; }, 10s));
  const auto all = ask({"writer"});
  EXPECT_LE(all.output.size(), 16U << 20);
  EXPECT_TRUE(all.output.ends_with("x\nthe last line\n"));
  // If the disk was too slow for the flood, the log lacks some of the bytes.
  if (all.output.find("bytes are missing: the disk was too slow") == std::string::npos) {
    EXPECT_GE(all.output.size(), 8U << 20);
    EXPECT_SAYS(all.error, "bytes before this were deleted: a log keeps only its newest part");
  }
}

TEST_F(LogsTest, WhatIsNotThereIsSaidWithWhatToDo) {
  start_head();
  EXPECT_EQ(ask({}).output, "no logs\n");
  const auto nobody = ask({"nobody"});
  EXPECT_EQ(nobody.status, 256);
  EXPECT_EQ(nobody.error, "pharos: there is no log of \"nobody\". pharos logs shows which logs there are.\n");
  EXPECT_EQ(ask({"--follow"}).status, 512);
  EXPECT_EQ(ask({"x", "--tail", "-1"}).status, 512);
  const auto head = ask({"head"});
  EXPECT_EQ(head.status, 256);
  const auto unreachable =
      ChildProgram{PHAROS_EXECUTABLE, {"logs", "--address", "127.0.0.1:1", "--token-file", token_file()}}.wait();
  EXPECT_EQ(unreachable.status, 256);
}

TEST_F(LogsTest, ADaemonInTheBackgroundHasALogOfItsOwn) {
  const ChildProgram::Variables loud{{"PHAROS_LOG", "debug"}};
  const auto run = [&](std::vector<std::string> arguments, const ChildProgram::Variables& variables = {}) {
    return ChildProgram{PHAROS_EXECUTABLE, std::move(arguments), variables}.wait(30s);
  };
  ASSERT_EQ(run({"start", "--head", "--listen", "127.0.0.1:0", "--cpus", "1"}, loud).status, 0);
  const std::string head = id_in(run({"list", "nodes"}).output, "the head's");
  const auto by_unix_socket = run({"logs"});
  EXPECT_SAYS(by_unix_socket.output, head + "  head");
  EXPECT_EQ(run({"logs", "head"}).status, 0);
  EXPECT_EQ(run({"logs", head}).output, run({"logs", "head"}).output);
  EXPECT_EQ(run({"stop"}).status, 0);
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kNode).empty(); }));
}

}  // namespace
}  // namespace pharos::cluster::logs
