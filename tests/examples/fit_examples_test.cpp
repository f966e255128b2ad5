#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "example_output.hpp"
#include "on_terminal.hpp"
#include "promised.hpp"
#include "temporary_folder.hpp"

namespace pharos::cluster::examples {
namespace {

using namespace std::chrono_literals;

#ifdef TRANSFORMER_FSDP

// These examples train models, and write their progress to standard error.

class FitExamplesTest : public ClusterTest {
 protected:
  static constexpr std::chrono::seconds kEnds{kIsSanitized ? 240 : 60};

  void SetUp() override {
    ClusterTest::SetUp();
    must_end_within(2 * kEnds);
  }

  static int status_of(const ChildProgram::End& end) { return WIFEXITED(end.status) ? WEXITSTATUS(end.status) : -1; }
  static ChildProgram::End end_of(const std::string& program, const std::vector<std::string>& arguments) {
    ChildProgram child{program, arguments};
    auto end = child.wait(kEnds);
    EXPECT_EQ(status_of(end), 0) << end.output << end.error;
    return end;
  }
  static void expect_refused(const std::string& program, const std::vector<std::vector<std::string>>& refused) {
    const std::string usage = "usage: " + std::filesystem::path{program}.filename().string();
    for (const auto& arguments : refused) {
      ChildProgram child{program, arguments};
      const auto end = child.wait();
      EXPECT_EQ(status_of(end), 2) << arguments[0];
      EXPECT_SAYS(end.error, usage);
    }
    EXPECT_SAYS(end_of(program, {"--help"}).output, usage);
  }
  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream file{path};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

  const TemporaryFolder folder_;
};

TEST_F(FitExamplesTest, TheShortestTrainingFindsItsLine) {
  const auto end = end_of(FIT, {});
  EXPECT_LT(numbers_after("the last loss: ", end.output).at(0), 1e-4) << end.output;
}

/// Runs 20 steps of the transformer example.
class TransformerExample : public FitExamplesTest {
 protected:
  static std::vector<std::string> with(std::vector<std::string> more) {
    more.insert(more.end(), {"--steps", "20"});
    return more;
  }
  static const ChildProgram::End& undisturbed() {
    static const ChildProgram::End end = end_of(TRANSFORMER_FSDP, with({}));
    return end;
  }
  /// Returns the end of the line with the training loss, as in "1.234 at step 20".
  static std::string end_of_loss(const std::string& output) {
    const std::size_t begin = output.find(", ", output.find("training loss"));
    return begin == std::string::npos ? output : output.substr(begin + 2, output.find('\n', begin) - begin - 2);
  }
  static double validation_loss(const std::string& output) { return numbers_after("validation loss ", output).at(0); }
};

TEST_F(TransformerExample, LearnsOnRanksThatHaveAPartOfItEach) {
  const auto& end = undisturbed();
  EXPECT_SAYS(end.output, "10.0 million parameters");
  EXPECT_SAYS(end.output, "on 2 ranks:\nparameters, gradients and the optimizer's state are divided among them");
  EXPECT_SAYS(end.error, "blocks.7         1232960          4.70      2.35");
  EXPECT_SAYS(end.error, "step 20 of 20");
  EXPECT_SAYS(end.output, "at step 1, ");
  EXPECT_LT(numbers_after("at step 1, ", end.output).at(0), numbers_after("training loss ", end.output).at(0) / 2);
  EXPECT_LT(validation_loss(end.output), numbers_after("how often each byte comes has ", end.output).at(0));
}

/// The output on a terminal, as ./run shows it.
TEST_F(TransformerExample, ShowsPeopleHowItGoes) {
  OnTerminal program{TRANSFORMER_FSDP, with({})};
  const int status = program.read_all();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << program.seen;
  EXPECT_SAYS(program.seen, "-] step ");
  EXPECT_SAYS(program.seen, "[####################] step 20 of 20, ");
  EXPECT_SAYS(program.seen, "\x1b[1A\x1b[J");  // moves up and clears the earlier text
  // The rows of the curve, without their axis. The curve begins at the upper left and ends at the lower right.
  std::vector<std::string> rows;
  std::istringstream lines{program.seen.substr(program.seen.rfind("\x1b[J"))};
  for (std::string line; std::getline(lines, line);) {
    if (line.find('|') != std::string::npos) rows.push_back(line.substr(line.find('|') + 1));
  }
  ASSERT_GT(rows.size(), 5U) << program.seen;
  const std::size_t first = rows.front().find_first_not_of(" \r");
  const std::size_t last = rows.back().find_last_not_of(" \r");
  ASSERT_NE(first, std::string::npos) << program.seen;
  ASSERT_NE(last, std::string::npos) << program.seen;
  EXPECT_LT(first + 20, last) << program.seen;
}

TEST_F(TransformerExample, ARankThatIsKilledCostsCopiesNoStep) {
  const auto calm = end_of(TRANSFORMER_FSDP, with({"--strategy", "copies"}));
  const auto end = end_of(TRANSFORMER_FSDP, with({"--strategy", "copies", "--kill-at", "10"}));
  EXPECT_SAYS(end.output, "rank 1, in step 10");
  EXPECT_SAYS(end.error, "its process was killed by SIGKILL. After step ");
  // The report of step 9 may arrive after the message of the death.
  const double before = numbers_after("SIGKILL. After step ", end.error).at(0);
  EXPECT_GE(before, 8);
  EXPECT_EQ(numbers_after("another process took its place, and step ", end.error).at(0), before + 1);
  EXPECT_SAYS(end.output, "| here a rank died");
  EXPECT_EQ(end_of_loss(end.output), end_of_loss(calm.output));
  EXPECT_EQ(validation_loss(end.output), validation_loss(calm.output));
}

TEST_F(TransformerExample, GoesOnWhereItWasInterrupted) {
  const std::string folder = folder_.path() / "run";
  const auto reports = [&] {
    const std::string lines = text_of(folder + "/reports.csv");
    return std::count(lines.begin(), lines.end(), '\n');
  };
  const std::string half = folder_.path() / "half.svg";
  ChildProgram interrupted{TRANSFORMER_FSDP, with({"--folder", folder, "--picture", half})};
  ASSERT_TRUE(eventually([&] { return reports() > 3 || interrupted.ended(); }, kEnds));
  for (int i = 0; i < 2; ++i) interrupted.kill(SIGINT);  // twice, as when both a terminal and a wrapper send the signal
  const auto begun = interrupted.wait(kEnds);
  EXPECT_EQ(status_of(begun), 130) << begun.error;
  EXPECT_SAYS(begun.output, "Started again with the same folder");
  EXPECT_SAYS(text_of(half), ">step</text>");
  const auto step = static_cast<int>(numbers_after("Interrupted at step ", begun.output).at(0));
  ASSERT_GE(step, 3);
  ASSERT_LT(step, 20);

  const std::string picture = folder_.path() / "loss.svg";
  const auto rest = end_of(TRANSFORMER_FSDP, with({"--folder", folder, "--picture", picture}));
  EXPECT_SAYS(text_of(picture), "<svg ");
  EXPECT_SAYS(text_of(picture), ">step</text>");
  EXPECT_SAYS(rest.output, " at step " + std::to_string(step + 1) + ", ");
  EXPECT_EQ(end_of_loss(rest.output), end_of_loss(undisturbed().output));
  EXPECT_EQ(validation_loss(rest.output), validation_loss(undisturbed().output));
  EXPECT_SAYS(rest.output, "It goes on, after the bar, with what it has not seen:\n");
}

TEST_F(TransformerExample, LearnsTheSameByWhatMemoryAllowsAndByComputingBlocksOnceMore) {
  const auto end = end_of(TRANSFORMER_FSDP, with({"--strategy", "auto", "--recompute"}));
  EXPECT_SAYS(end.error, "10048896 parameters on 2 ranks: 38.3 MiB of parameters, as much of gradients");
  EXPECT_SAYS(end.error, "* copies");
  EXPECT_NEAR(validation_loss(end.output), validation_loss(undisturbed().output), 0.002);
}

TEST_F(TransformerExample, RefusesWhatItDoesNotKnow) {
  expect_refused(TRANSFORMER_FSDP, {{"--steps", "x"}, {"--steps"}, {"--strategy", "half"}});
  ChildProgram child{TRANSFORMER_FSDP, {"--text", folder_.path() / "missing"}};
  const auto end = child.wait();
  EXPECT_EQ(status_of(end), 1);
  EXPECT_SAYS(end.error, "missing cannot be read");
}

TEST_F(FitExamplesTest, ARecommenderOfTwoTowersFindsMoreThanWhatIsPopular) {
  const std::string picture = folder_.path() / "recall.svg";
  const auto end = end_of(TWO_TOWER_RECOMMENDER, {"--epochs", "6", "--picture", picture});
  EXPECT_SAYS(end.output, "on 2 ranks");
  const auto row = [&](const std::string& name) {
    std::vector<double> percent;
    std::istringstream line{end.output.substr(end.output.find(name) + name.size())};
    std::string sign;
    for (double each = 0; percent.size() < 3 && line >> each >> sign;) percent.push_back(each);
    return percent;
  };
  const auto popular = row("to all of them the most popular");
  const auto towers = row("by the two towers");
  const auto most = row("by who knows how they were made");
  ASSERT_EQ(popular.size() + towers.size() + most.size(), 9U) << end.output;
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_GT(towers[k], 1.5 * popular[k]) << end.output;
    EXPECT_GT(most[k], towers[k]) << end.output;
  }
  EXPECT_EQ(text_of(picture).rfind("<svg ", 0), 0U);
}

TEST_F(FitExamplesTest, ARecommenderOfTwoTowersRefusesWhatItDoesNotKnow) {
  expect_refused(TWO_TOWER_RECOMMENDER, {{"--ranks", "0"}, {"--towers", "3"}});
}

TEST_F(FitExamplesTest, TextsOfAnyLengthAreToldApart) {
  const auto end = end_of(TEXT_CLASSIFIER, {"--epochs", "4"});
  EXPECT_EQ(end.status, 0) << end.output;
  EXPECT_SAYS(end.output, "drawn by this program");
  EXPECT_SAYS(end.output, "AUC");
}

#endif

}  // namespace
}  // namespace pharos::cluster::examples
