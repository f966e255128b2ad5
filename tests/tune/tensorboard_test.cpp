#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include <pharos/ml/simulate.hpp>

#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

/// Returns what the tensorboard package reads from the files.
std::string read_with_tensorboard(const std::filesystem::path& folder) {
  const std::string command =
      "PYTHONPATH=" TENSORBOARD " /usr/bin/python3 " ROOT "/tests/tune/read_tensorboard.py " + folder.string();
  std::FILE* const output = ::popen(command.c_str(), "re");
  if (output == nullptr) return "it cannot be started";
  std::string all;
  char some[4096];
  for (std::size_t got = 0; (got = std::fread(some, 1, sizeof some, output)) != 0;) all.append(some, got);
  EXPECT_EQ(::pclose(output), 0) << all;
  return all;
}

TEST(TensorBoardTest, ReadsTheMetricsOfEachStepAndWhatTheHParamsPageShows) {
  ASSERT_TRUE(std::filesystem::exists(TENSORBOARD "/tensorboard")) << "tools/setup --tests fetches TensorBoard";
  const TemporaryFolder folder;
  const Space space{{"rate", log_uniform(1e-4, 1e-1)},
                    {"depth", integers(1, 9)},
                    {"kind", choice({"a", "b"})},
                    {"deep", choice({true, false})}};
  TunerOptions options{.space = space,
                       .metric = "loss",
                       .trials = 6,
                       .steps = 5,
                       .folder = folder.path() / "sweep",
                       .tensorboard = true};
  options.searcher = random_search(space, 1);
  const SweepResults results =
      simulate(std::move(options), 2, [](const Params& params, std::uint64_t step, std::vector<double>&) {
        const bool dies = params.get<bool>("deep") && step == 4;
        // A step without the sweep's metric counts as a failure.
        if (dies) return SimulatedStep{.metrics = Metrics{{"other", 1}}};
        const auto x = static_cast<double>(step);
        return SimulatedStep{.metrics = {{"loss", params.get<double>("rate") + 1 / x}, {"accuracy", x / 5}},
                             .time = 1s};
      });
  std::istringstream lines{read_with_tensorboard(folder.path() / "sweep/tensorboard")};
  std::map<std::string, int> kinds;
  std::map<std::tuple<std::uint64_t, std::string, std::uint64_t>, double> scalars;
  std::map<std::pair<std::uint64_t, std::string>, std::string> set;
  std::map<std::uint64_t, int> ends;
  std::string metric;
  for (std::string what; lines >> what;) {
    std::string name;
    std::uint64_t trial = 0;
    if (what == "parameter") {
      lines >> name >> kinds[name];
    } else if (what == "metric") {
      lines >> metric;
    } else if (what == "scalar") {
      std::uint64_t step = 0;
      lines >> trial >> name >> step;
      lines >> scalars[{trial, name, step}];
    } else if (what == "set") {
      lines >> trial >> name;
      lines >> set[{trial, name}];
    } else if (what == "end") {
      lines >> trial;
      lines >> ends[trial];
    }
  }
  EXPECT_EQ(metric, "loss");
  EXPECT_EQ(kinds, (std::map<std::string, int>{{"rate", 3}, {"depth", 3}, {"kind", 1}, {"deep", 2}}));
  ASSERT_EQ(results.trials().size(), 6U);
  std::size_t expected = 0;
  for (const TrialResult& trial : results.trials()) {
    for (std::uint64_t step = 1; step <= trial.step; ++step) {
      const auto x = static_cast<double>(step);
      const double rate = trial.params.get<double>("rate");
      EXPECT_NEAR((scalars[{trial.number, "loss", step}]), rate + 1 / x, 1e-6) << trial.number;
      EXPECT_NEAR((scalars[{trial.number, "accuracy", step}]), x / 5, 1e-6);
      expected += 2;
    }
    EXPECT_EQ(std::stod(set.at({trial.number, "rate"})), trial.params.get<double>("rate"));
    EXPECT_EQ(std::stoi(set.at({trial.number, "depth"})), trial.params.get<int>("depth"));
    EXPECT_EQ(set.at({trial.number, "kind"}), trial.params.get<std::string>("kind"));
    EXPECT_EQ(set.at({trial.number, "deep"}), trial.params.get<bool>("deep") ? "True" : "False");
    EXPECT_EQ(ends.at(trial.number), trial.state == TrialResult::State::kFailed ? 2 : 1);
  }
  EXPECT_EQ(scalars.size(), expected) << "each once";
}

}  // namespace
}  // namespace pharos::ml
