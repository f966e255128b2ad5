#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "says.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::tuner {
namespace {

using cluster::ChildProgram;

/// `pharos tune`, as users type it.
class TuneCommand : public cluster::ClusterTest {
 protected:
  TemporaryFolder folder_;
  const std::string sweep_ = folder_.path() / "sweep";

  static ChildProgram::End command(std::vector<std::string> words) {
    words.insert(words.begin(), "tune");
    ChildProgram child{PHAROS_EXECUTABLE, std::move(words)};
    return child.wait();
  }
  static std::string output_of(std::vector<std::string> words) {
    const auto end = command(std::move(words));
    EXPECT_EQ(end.status, 0) << end.error;
    return end.output;
  }
  void make_sweep() const {
    std::filesystem::create_directory(sweep_);
    ChildProgram program{SWEEP_PROGRAM, {sweep_}};
    ASSERT_EQ(program.wait().status, 0);
  }
};

TEST_F(TuneCommand, ShowsWhatHasComeOfASweep) {
  make_sweep();
  const std::string shown = output_of({"show", sweep_, "--rows", "3"});
  EXPECT_SAYS(shown, "60 of 60 trials");
  EXPECT_SAYS(shown, "60 complete; best value");
  EXPECT_SAYS(shown, "the best so far");
  const std::string best = output_of({"best", sweep_});
  EXPECT_SAYS(best, ", complete\n");
  EXPECT_SAYS(best, "step 6\nx=");
  EXPECT_EQ(output_of({"best", sweep_, "--format", "json"}).rfind("{\"x\":", 0), 0u);
}

TEST_F(TuneCommand, ExportsAllTrials) {
  make_sweep();
  std::istringstream csv{output_of({"export", sweep_})};
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line, "trial,state,value,step,seconds,attempts,params.x,metrics.value,error");
  std::size_t lines = 0;
  while (std::getline(csv, line)) EXPECT_EQ(line.rfind(std::to_string(lines++) + ",complete,", 0), 0u) << line;
  EXPECT_EQ(lines, 60u);
  const std::string file = folder_.path() / "trials.jsonl";
  EXPECT_EQ(output_of({"export", sweep_, "--format", "jsonl", "--output", file}), "");
  std::ifstream json{file};
  lines = 0;
  while (std::getline(json, line)) EXPECT_EQ(line.rfind("{\"trial\":" + std::to_string(lines++) + ",", 0), 0u) << line;
  EXPECT_EQ(lines, 60u);
  EXPECT_EQ(output_of({"export", sweep_, "--format", "svg"}).rfind("<svg ", 0), 0u);
  const std::string page = output_of({"export", sweep_, "--format", "html"});
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_SAYS(page, "60 complete; best value");
  EXPECT_SAYS(page, "value by x</text>");
  EXPECT_SAYS(page, "<th>trial</th><th>value</th><th>state</th><th>step</th><th>x</th>");
}

TEST_F(TuneCommand, GoesOnWithASweepByTheCommandThatBeganIt) {
  std::filesystem::create_directory(sweep_);
  {
    ChildProgram program{SWEEP_PROGRAM, {sweep_}};
    static_cast<void>(program.next_line());
    ASSERT_TRUE(cluster::eventually([&] { return std::filesystem::exists(sweep_ + "/ran"); }));
    program.kill(SIGKILL);
    static_cast<void>(program.wait());
  }
  EXPECT_SAYS(command({"show", sweep_}).output, " of 60 trials");
  EXPECT_SAYS(output_of({"resume", sweep_}), "ends 60");
  EXPECT_SAYS(output_of({"show", sweep_}), "60 of 60 trials");
}

TEST_F(TuneCommand, SaysWhatIsWrongWithAFolder) {
  const auto none = command({"show", folder_.path()});
  EXPECT_EQ(WEXITSTATUS(none.status), 1);
  EXPECT_SAYS(none.error, "Is the folder that of a sweep?");
  std::ofstream{folder_.path() / "journal"} << "this is something else, and not a journal";
  const auto other = command({"best", folder_.path()});
  EXPECT_EQ(WEXITSTATUS(other.status), 1);
  EXPECT_SAYS(other.error, "this file is not the journal of a sweep");
  EXPECT_EQ(WEXITSTATUS(command({"show"}).status), 2);
  EXPECT_EQ(WEXITSTATUS(command({"export", sweep_, "--format", "pdf"}).status), 2);
}

}  // namespace
}  // namespace pharos::ml::tuner
