#include <signal.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "child_program.hpp"
#include "cluster_test.hpp"

namespace pharos::cluster::output {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the text that the worker wrote, without the prefix that names the worker.
std::string written(const std::string& line) {
  const std::size_t end = line.find(") ");
  return end == std::string::npos ? line : line.substr(end + 2);
}

using OutputTest = ClusterTest;

TEST_F(OutputTest, WhatAWorkerWritesShowsUpInWholeLinesWithItsNameBeforeTheRuntimeEnds) {
  ChildProgram program{WRITING_PROGRAM, {"few"}};
  const auto end = program.wait();
  EXPECT_EQ(end.status, 0);
  const auto lines = lines_of(end.output);
  ASSERT_EQ(lines.size(), 5u) << end.output;
  EXPECT_TRUE(lines[0].starts_with("(scribe pid=")) << lines[0];
  EXPECT_EQ(lines.back(), "the Runtime has ended");
  std::vector<std::string> texts;
  for (const auto& line : lines) texts.push_back(written(line));
  for (const char* const text : {"one", "two", "three", "no line's end"}) {
    EXPECT_EQ(std::count(texts.begin(), texts.end(), text), 1) << text << "\n" << end.output;
  }
  EXPECT_SAYS(end.error, "(scribe pid=");
  EXPECT_SAYS(end.error, ") four\n");
}

TEST_F(OutputTest, TenMegabytesOfOutputLoseNoLine) {
  must_end_within(60s);
  ChildProgram program{WRITING_PROGRAM, {"many"}};
  const auto end = program.wait(40s);
  EXPECT_EQ(end.status, 0);
  const auto lines = lines_of(end.output);
  ASSERT_EQ(lines.size(), 100'001u);
  for (std::size_t i = 0; i < 100'000; ++i) ASSERT_EQ(std::stoul(written(lines[i])), i) << lines[i];
}

TEST_F(OutputTest, AWorkerThatWritesWhenTheRuntimeEndsHoldsNothingUp) {
  ChildProgram program{WRITING_PROGRAM, {"unwaited"}};
  const auto end = program.wait(10s);
  EXPECT_EQ(end.status, 0);
  EXPECT_SAYS(end.output, "the Runtime has ended");
}

TEST_F(OutputTest, AVeryLongLineArrivesWhole) {
  ChildProgram program{WRITING_PROGRAM, {"long"}};
  const auto end = program.wait();
  const auto lines = lines_of(end.output);
  ASSERT_GE(lines.size(), 3u);
  std::string all;
  for (const auto& line : lines) all += written(line);
  EXPECT_EQ(std::count(all.begin(), all.end(), 'l') >= 300'000, true);
  EXPECT_EQ(written(lines[lines.size() - 2]), "short");
}

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (const auto& line : lines_of(text)) count += line.find(part) == std::string::npos ? 0u : 1u;
  return count;
}

TEST_F(OutputTest, ALineThatFiveWorkersWriteAlikeIsShownOnceAndToldToHaveBeenRepeated) {
  ChildProgram program{WRITING_PROGRAM, {"alike"}};
  const auto end = program.wait();
  EXPECT_EQ(lines_with(end.output, "all the same"), 2u) << end.output;
  EXPECT_SAYS(end.output, "(rank0 pid=");
  EXPECT_SAYS(end.output, ") all the same [repeated 4x across 5 processes]\n");
}

TEST_F(OutputTest, AtExitWithoutTheRuntimesEndNothingIsHeldBack) {
  ChildProgram program{WRITING_PROGRAM, {"exit"}};
  const auto end = program.wait();
  EXPECT_EQ(end.status, 0);
  EXPECT_SAYS(end.output, ") all the same [repeated 4x across 5 processes]\n");
}

TEST_F(OutputTest, FoldingCanBeTurnedOff) {
  ChildProgram program{WRITING_PROGRAM, {"alike"}, {{"PHAROS_FOLD_OUTPUT", "0"}}};
  const auto end = program.wait();
  EXPECT_EQ(lines_with(end.output, ") all the same"), 5u) << end.output;
}

TEST_F(OutputTest, NumbersThatFiveWorkersWriteAlikeAreAllShown) {
  ChildProgram program{WRITING_PROGRAM, {"numbers"}};
  const auto end = program.wait();
  EXPECT_EQ(lines_with(end.output, ") 0.25"), 5u) << end.output;
}

TEST_F(OutputTest, WhatAWorkerWritesBeforeItDiesIsShown) {
  ChildProgram program{WRITING_PROGRAM, {"last_words"}};
  const auto end = program.wait();
  EXPECT_SAYS(end.output, ") my last words\n");
}

TEST_F(OutputTest, NothingIsColouredWhereNoTerminalIs) {
  ChildProgram program{WRITING_PROGRAM, {"few"}, {{"TERM", "xterm"}}};
  const auto end = program.wait();
  EXPECT_EQ(end.output.find('\033'), std::string::npos) << end.output;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr long kGrownMax = 512 << 10;  // the sanitizer keeps 256 MiB of freed memory, and data about it
#elif defined(__SANITIZE_THREAD__)
constexpr long kGrownMax = 128 << 10;  // the sanitizer keeps data about each byte that was accessed
#else
constexpr long kGrownMax = 32 << 10;
#endif

// Under the thread sanitizer, the flood's lines take most of the CPU time of a small machine.
#ifdef __SANITIZE_THREAD__
constexpr long kCallsMin = 1;
#else
constexpr long kCallsMin = 20;
#endif

TEST_F(OutputTest, AFloodSlowsItsWriterAndNothingElse) {
  must_end_within(60s);
  ChildProgram program{WRITING_PROGRAM, {"flood"}};
  const auto end = program.wait(40s);
  EXPECT_EQ(end.status, 0);
  const std::size_t calls = end.error.find("calls ");
  const std::size_t grown = end.error.find("grown by ");
  ASSERT_NE(calls, std::string::npos) << end.error;
  ASSERT_NE(grown, std::string::npos) << end.error;
  EXPECT_GT(std::stol(end.error.substr(calls + 6)), kCallsMin) << "calls of another actor in two seconds";
  EXPECT_LT(std::stol(end.error.substr(grown + 9)), kGrownMax) << "kilobytes";
}

TEST_F(OutputTest, AReaderThatStopsReadingHoldsTheWorkerUpAndNothingElse) {
  must_end_within(60s);
  ChildProgram program{WRITING_PROGRAM, {"unread"}};
  program.leave_output();
  ASSERT_TRUE(program.error_with("others went on", 30s)) << program.error();
  EXPECT_SAYS(program.error(), "the writer waits");
  EXPECT_EQ(program.error().find("no deadline"), std::string::npos) << program.error();
  const std::size_t grown = program.error().find("grown by ");
  ASSERT_NE(grown, std::string::npos);
  EXPECT_LT(std::stol(program.error().substr(grown + 9)), kGrownMax) << "kilobytes";
  program.kill(SIGQUIT);
  EXPECT_TRUE(program.error_with("Writer::write_many of actor \"scribe\"")) << program.error();

  const auto end = program.wait(40s);
  EXPECT_EQ(end.status, 0);
  EXPECT_EQ(lines_of(end.output).size(), 100'001u);
}

}  // namespace
}  // namespace pharos::cluster::output
