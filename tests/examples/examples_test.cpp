#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "example_output.hpp"

namespace pharos::cluster::examples {
namespace {

using namespace std::chrono_literals;

// An example checks its own result, and its exit status says whether it was right. These tests check its output.

std::vector<std::string> lines_of(const std::string& text, char end = '\n') {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line, end);) lines.push_back(line);
  return lines;
}

/// Returns the output of the program, which must exit with status 0 and write nothing to standard error.
std::string output_of(const std::string& program, const std::vector<std::string>& arguments = {}) {
  ChildProgram child{program, arguments};
  const auto end = child.wait(25s);
  EXPECT_TRUE(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0) << end.status << ": " << end.output << end.error;
  EXPECT_EQ(end.error, "");
  return end.output;
}

using ExamplesTest = ClusterTest;

/// Himmelblau's function is zero at four points, and above 100 at most other points.
TEST_F(ExamplesTest, TheShortestSweepFindsALowPlace) {
  ChildProgram sweep{SWEEP, {}};
  const auto end = sweep.wait(25s);
  EXPECT_TRUE(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0) << end.output << end.error;
  const auto best = numbers_after("100 complete; best value ", end.output);
  ASSERT_EQ(best.size(), 1U) << end.output;
  EXPECT_LT(best[0], 5);
}

TEST_F(ExamplesTest, TheFirstPageCountsToThirteen) {
  EXPECT_EQ(output_of(COUNTER), "13\n");
}

TEST_F(ExamplesTest, HelloGreetsBothVisitorsInOrder) {
  EXPECT_EQ(output_of(HELLO),
            "Hello, Ada Lovelace! You are visitor number 1.\nHello, Grace Hopper! You are visitor number 2.\n");
}

TEST_F(ExamplesTest, MonteCarloPiGetsBetterOnOneLineUntilAllTasksAreDone) {
  const std::string output = output_of(MONTE_CARLO_PI);
  const auto lines = lines_of(output);
  ASSERT_EQ(lines.size(), 2u) << output;
  EXPECT_SAYS(lines[0], "64 of 64 tasks");
  const auto deviations = numbers_after("+- ", lines[0]);
  EXPECT_TRUE(std::is_sorted(deviations.rbegin(), deviations.rend())) << lines[0];
  EXPECT_NEAR(numbers_after("pi = ", lines[0]).back(), 3.14159, 0.001);
}

TEST_F(ExamplesTest, ParameterServersLossFallsToTheNoise) {
  const std::string output = output_of(PARAMETER_SERVER);
  const auto losses = numbers_after("  loss ", output);
  ASSERT_EQ(losses.size(), 11u) << output;
  EXPECT_GT(losses.front(), 10);
  EXPECT_LT(losses[1], losses[0] / 2);
  EXPECT_LT(losses[2], losses[1]);
  EXPECT_LT(losses.back(), 0.015);
}

TEST_F(ExamplesTest, WordCountKnowsItsTextWithoutFiles) {
  const auto lines = lines_of(output_of(WORD_COUNT));
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[1], "the                    18");
  EXPECT_EQ(lines[2], "of                     16");
  EXPECT_EQ(lines[3], "was                    12");
}

TEST_F(ExamplesTest, WordCountCountsFilesAndNamesOneThatIsMissing) {
  const std::string folder = census().folder().parent_path() / "pharos-word-count";
  std::filesystem::create_directory(folder);
  std::ofstream{folder + "/first"} << "Once upon a time,\nupon";
  std::ofstream{folder + "/second"} << "a \xc3\xa9t\xc3\xa9: UPON!";
  const auto lines = lines_of(output_of(WORD_COUNT, {folder + "/first", folder + "/second"}));
  ChildProgram child{WORD_COUNT, {folder + "/missing"}};
  const auto end = child.wait();
  std::filesystem::remove_all(folder);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[1], "upon                    3");
  EXPECT_EQ(lines[2], "a                       2");
  EXPECT_SAYS(lines.back(), "8 words, 5 different ones");
  EXPECT_EQ(WEXITSTATUS(end.status), 2);
  EXPECT_SAYS(end.error, "missing cannot be read");
}

TEST_F(ExamplesTest, ActorPoolPaintsEveryLineAndEveryPainterPaints) {
  const auto lines = lines_of(output_of(ACTOR_POOL));
  ASSERT_EQ(lines.size(), 33u);
  EXPECT_EQ(lines[10], lines[20]);
  std::istringstream counts{lines.back().substr(lines.back().find(':') + 1)};
  int sum = 0;
  for (int painter = 0; painter < 4; ++painter) {
    int count = 0;
    counts >> count;
    EXPECT_GE(count, 1) << lines.back();
    sum += count;
  }
  EXPECT_EQ(sum, 31);
}

TEST_F(ExamplesTest, WorkQueueFindsTheLongestWay) {
  const std::string output = output_of(WORK_QUEUE);
  EXPECT_SAYS(output, "begins at 837799 and takes 524 steps");
  EXPECT_EQ(numbers_after("a producer made ", output), (std::vector<double>{100, 100}));
  EXPECT_EQ(numbers_after("a consumer did ", output).size(), 3u);
}

TEST_F(ExamplesTest, AnHttpServiceAnswersFromActors) {
  EXPECT_EQ(output_of(HTTP_SERVICE, {"--requests", "300"}), "300 requests; the last answer was 300\n");
}

TEST_F(ExamplesTest, AScheduleThatTrialsFindTogetherBeatsAnyFixedRate) {
  const std::string output = output_of(PBT_SCHEDULE);
  const auto losses = numbers_after(": loss ", output);
  ASSERT_EQ(losses.size(), 2u) << output;
  EXPECT_LT(losses[1], losses[0] / 2) << output;
  const auto rates = numbers_after("  rate ", output);
  ASSERT_GE(rates.size(), 10u) << output;
  EXPECT_GT(rates.front(), 2 * rates.back()) << output;
}

#ifdef XGBOOST_SWEEP
const ChildProgram::Variables kOlderXgboost{{"LD_LIBRARY_PATH", XGBOOST_1_7}};
const ChildProgram::Variables kNewerXgboost{{"PHAROS_XGBOOST", XGBOOST_3_2}};

ChildProgram::End sweep(const ChildProgram::Variables& xgboost, std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--trials", "8", "--rounds", "9"});
  ChildProgram child{XGBOOST_SWEEP, std::move(arguments), xgboost};
  auto end = child.wait(60s);
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "binned the data once, for all of its trials: yes");
  return end;
}

TEST_F(ExamplesTest, ASweepOverBoostedTreesFindsAGoodOneWithEitherXgboost) {
  for (const auto& [version, xgboost] : {std::pair{"1.7.4", kOlderXgboost}, std::pair{"3.2.0", kNewerXgboost}}) {
    const std::string output = sweep(xgboost, {"--rows", "20000"}).output;
    EXPECT_SAYS(output, std::string{"with XGBoost "} + version + ", 20000 rows of 28 columns");
    EXPECT_GT(numbers_after("AUC ", output).back(), 0.75) << output;
    EXPECT_LT(numbers_after("AUC ", output).back(), 0.87) << output;
  }
}

TEST_F(ExamplesTest, ASweepOverBoostedTreesReadsFiles) {
  const std::string folder = census().folder().parent_path() / "pharos-xgboost-sweep";
  std::filesystem::create_directory(folder);
  {
    // In rows of class 1 the second column is missing; the other rows have it.
    std::ofstream csv{folder + "/rows.csv"};
    std::ofstream libsvm{folder + "/rows.libsvm"};
    for (int row = 0; row < 2000; ++row) {
      const bool one = row * 7 % 5 < 2;
      csv << one << ',' << row % 11 << ',' << (one ? "" : "1e-3") << ",0.5\n";
      libsvm << one << " 1:" << row % 11 << (one ? "" : " 2:1e-3") << " 3:0.5\n";
    }
  }
  for (const std::string kind : {"csv", "libsvm"}) {
    const std::string output = sweep(kNewerXgboost, {"--" + kind, folder + "/rows." + kind}).output;
    EXPECT_SAYS(output, "2000 rows of 3 columns");
    EXPECT_EQ(numbers_after("AUC ", output).back(), 1) << output;
  }
  std::ofstream{folder + "/bad.csv"} << "1,2,3\n0,2,x\n";
  ChildProgram child{XGBOOST_SWEEP, {"--csv", folder + "/bad.csv"}, kNewerXgboost};
  const auto end = child.wait();
  std::filesystem::remove_all(folder);
  EXPECT_EQ(WEXITSTATUS(end.status), 1);
  EXPECT_SAYS(end.error, "bad.csv:2: \"x\" is no number");
}

TEST_F(ExamplesTest, ASweepWithoutXgboostSaysHowToGetIt) {
  ChildProgram child{XGBOOST_SWEEP, {}, {{"PHAROS_XGBOOST", "/nowhere/libxgboost.so"}}};
  const auto end = child.wait();
  EXPECT_EQ(WEXITSTATUS(end.status), 1);
  EXPECT_SAYS(end.error, "XGBoost cannot be loaded: /nowhere/libxgboost.so");
  EXPECT_SAYS(end.error, "pip install xgboost-cpu");
}
#endif

#ifdef MLP_DDP
constexpr const char* kRanksAgree = "All ranks have the same bits in their parameters.";

TEST_F(ExamplesTest, AnMlpLearnsThreeSpiralsAsAGroup) {
  const std::string output = output_of(MLP_DDP, {"--ranks", "3"});
  EXPECT_SAYS(output, "on 3 ranks");
  EXPECT_SAYS(output, kRanksAgree);
  EXPECT_SAYS(output, "\n   30  0.0");
}

TEST_F(ExamplesTest, AnMlpLearnsTheSameAsRanksOfALauncher) {
  std::vector<std::unique_ptr<ChildProgram>> ranks;
  for (const char* const rank : {"0", "1"}) {
    const ChildProgram::Variables variables{{"RANK", rank},
                                            {"WORLD_SIZE", "2"},
                                            {"LOCAL_WORLD_SIZE", "2"},
                                            {"MASTER_ADDR", "127.0.0.1"},
                                            {"MASTER_PORT", "29500"}};
    ranks.push_back(std::make_unique<ChildProgram>(MLP_DDP, std::vector<std::string>{"--epochs", "12"}, variables));
  }
  const auto first = ranks[0]->wait(25s);
  const auto second = ranks[1]->wait(25s);
  EXPECT_EQ(first.status, 0) << first.error;
  EXPECT_EQ(second.status, 0) << second.error;
  EXPECT_SAYS(first.output, kRanksAgree);
  EXPECT_EQ(second.output, "");
  // The loss and accuracy of the last epoch must not depend on who starts the ranks.
  const auto last_epoch = [](const std::string& output) {
    const std::size_t begin = output.find("\n   12  ");
    return output.substr(begin, output.find(" %", begin) - begin);
  };
  EXPECT_EQ(last_epoch(first.output), last_epoch(output_of(MLP_DDP, {"--epochs", "12"})));
}

/// Runs in a network namespace of its own, because both kinds of mpirun listen at all addresses of the machine.
TEST_F(ExamplesTest, AnMlpLearnsUnderBothKindsOfMpirun) {
  if (::geteuid() != 0) GTEST_SKIP() << "network namespaces cannot be made here";
  for (const std::string mpirun :
       {"mpirun.openmpi --allow-run-as-root --oversubscribe --mca btl self,vader,tcp", "mpirun.mpich -iface lo"}) {
    const std::string commands = "ip link set lo up; exec " + mpirun + " -n 3 " + MLP_DDP + " --epochs 12";
    EXPECT_SAYS(output_of("/usr/bin/unshare", {"-n", "sh", "-c", commands}), kRanksAgree);
  }
}

TEST_F(ExamplesTest, ASweepOverNetworksIsKeptAndDrawn) {
  const std::string folder = census().folder() / "sweep";
  const std::string picture = census().folder() / "sweep.svg";
  // The progress goes to standard error.
  const auto sweep = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--trials", "12", "--folder", folder});
    ChildProgram child{ASHA_MLP, more};
    const auto end = child.wait(std::chrono::seconds{30});
    EXPECT_EQ(end.status, 0) << end.error;
    EXPECT_SAYS(end.error, "sweep: 12 of 12 trials");
    return end.output;
  };
  const std::string output = sweep({"--picture", picture});
  EXPECT_SAYS(output, "12 of 12 trials");
  EXPECT_LT(numbers_after("best loss ", output).at(0), 0.5) << output;
  std::ifstream file{picture};
  const std::string svg{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  // The sweep is finished: with the same folder no trial runs again.
  EXPECT_SAYS(sweep({}), "12 of 12 trials");
  std::filesystem::remove_all(folder);
  std::filesystem::remove(picture);
}

/// Simulates two machines: with one rank more on the first, and with two ranks on each.
TEST_F(ExamplesTest, AnMlpLearnsUnderSlurm) {
  if (std::system("unshare -n -m true 2>/dev/null") != 0) GTEST_SKIP() << "namespaces cannot be made here";
  for (const std::string ranks : {"-n3", "--ntasks-per-node=2"}) {
    const std::string place = census().folder() / ("slurm" + ranks);
    std::filesystem::create_directory(place);
    const std::string output =
        output_of("/usr/bin/unshare", {"-n", "-u", "-m", "-p", "-f", "--kill-child", "--mount-proc", SLURM_STEP, SLURM,
                                       place, "-N2", ranks, MLP_DDP, "--epochs", "12"});
    EXPECT_SAYS(output, kRanksAgree);
    std::filesystem::remove_all(place);
  }
}
#endif

}  // namespace
}  // namespace pharos::cluster::examples
