// Measures a sweep of 20 boosted models by two actors, beside the pure time of computing them: two plain processes
// train the same models in the same order with the same library, and each takes the next model when it is free. Both
// sides train each model with one thread. They take turns, and each begins every second pair.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/ml/tuner.hpp>
#include <pharos/ml/xgboost.hpp>
#include <pharos/pharos.hpp>

#include "figures.hpp"

namespace bench {
namespace {

using namespace pharos;
namespace xgboost = ml::xgboost;

constexpr std::size_t kModels = 20;
constexpr std::size_t kProcesses = 2;
constexpr std::size_t kRows = 100'000;
constexpr std::size_t kTrained = 80'000;
constexpr std::size_t kColumns = 28;
constexpr std::size_t kXgboostRounds = 50;
constexpr int kPairs = 3;  // of a sweep and of computing alone

/// The label of a row depends on the squares of five columns, on the product of two columns, and on noise.
xgboost::Data make_data() {
  std::mt19937_64 random{0};
  std::normal_distribution<float> normal;
  std::vector<float> features(kRows * kColumns);
  for (float& each : features) each = normal(random);
  std::vector<float> labels(kRows);
  for (std::size_t row = 0; row < kRows; ++row) {
    const float* const x = features.data() + row * kColumns;
    float sum = x[5] * x[6] + normal(random);
    for (std::size_t i = 0; i < 5; ++i) sum += x[i] * x[i];
    labels[row] = sum > 5 ? 1.0F : 0.0F;
  }
  return {.columns = kColumns,
          .features = SharedSpan<float>{std::move(features)},
          .labels = SharedSpan<float>{std::move(labels)}};
}

std::vector<ml::Params> make_models() {
  std::mt19937_64 random{0};
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>{low, high}(random);
  };
  std::vector<ml::Params> models;
  for (std::size_t i = 0; i < kModels; ++i) {
    models.push_back({{"max_depth", static_cast<std::int64_t>(between(3, 9))},
                      {"eta", std::pow(10, between(-2, -0.5))},
                      {"subsample", between(0.5, 1)}});
  }
  return models;
}

/// Adds the parameters that all models share. Each model is trained by one thread on both sides: without `nthread`, the
/// last trial of a sweep would also get the core of a trial that has ended.
ml::Params complete(ml::Params params) {
  params.set("objective", std::string{"binary:logistic"});
  params.set("eval_metric", std::string{"auc"});
  params.set("nthread", std::int64_t{1});
  return params;
}

double train(ml::Trial& trial, const xgboost::Data& data) {
  return xgboost::train(trial, complete(trial.params()), data.slice(0, kTrained), data.slice(kTrained, kRows),
                        {.rounds = kXgboostRounds})
      .best;
}

/// Returns the seconds in which two plain processes train all models. Forks, so this process must have no other thread,
/// and must not have loaded XGBoost: a Runtime that has existed before has joined its threads, and only workers train.
double compute_alone(const xgboost::Data& data, const std::vector<ml::Params>& models) {
  void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error{"no memory for two processes"};
  auto* const next = new (memory) std::atomic<std::size_t>{0};
  const auto begin = Clock::now();
  std::vector<pid_t> processes;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    const pid_t process = ::fork();
    if (process != 0) {
      processes.push_back(process);
      continue;
    }
    int status = 0;
    try {
      const auto trained = data.slice(0, kTrained);
      const auto held_out = data.slice(kTrained, kRows);
      for (std::size_t model = 0; (model = next->fetch_add(1)) < models.size();) {
        static_cast<void>(xgboost::train(complete(models[model]), trained, held_out, {.rounds = kXgboostRounds}));
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "pharos-bench: %s\n", error.what());
      status = 1;
    }
    ::_exit(status);
  }
  bool failed = false;
  for (const pid_t process : processes) {
    int status = 0;
    failed = ::waitpid(process, &status, 0) != process || status != 0 || failed;
  }
  const double seconds = seconds_since(begin);
  ::munmap(memory, 4096);
  if (failed) throw std::runtime_error{"a process that trains has failed"};
  return seconds;
}

/// Returns the seconds of a sweep that trains the same models in the same order, on a new cluster.
double sweep(int argc, char** argv, const xgboost::Data& data, const std::vector<ml::Params>& models) {
  Runtime runtime{argc, argv};
  const auto shared = runtime.put(data);
  const ml::Space space{
      {"max_depth", ml::integers(3, 9)}, {"eta", ml::log_uniform(0.01, 0.4)}, {"subsample", ml::uniform(0.5, 1)}};
  ml::TunerOptions options{.space = space,
                           .metric = "auc",
                           .goal = ml::Goal::kMaximise,
                           .trials = kModels,
                           .first = models,
                           .at_once = kProcesses,
                           .worker = {.cpus = 1},
                           .progress = false};
  options.searcher = ml::random_search(space, 1);
  ml::Tuner tuner{runtime, std::move(options)};
  const auto begin = Clock::now();
  const auto results = tuner.run<&train>(shared);
  const double seconds = seconds_since(begin);
  if (results.count(ml::TrialResult::State::kComplete) != kModels) {
    throw std::runtime_error{"models are missing: " + results.trials().front().error};
  }
  return seconds;
}

}  // namespace

void measure_boosted_sweep(Report& report, int argc, char** argv) {
  if (!report.wants("xgboost_20_over_compute")) return;
  const auto fetched = std::filesystem::path{ROOT} / "third_party/xgboost-3.2/xgboost/lib/libxgboost.so";
  if (std::getenv("PHAROS_XGBOOST") == nullptr && std::filesystem::exists(fetched)) {
    ::setenv("PHAROS_XGBOOST", fetched.c_str(), 1);
  }
  const auto data = make_data();
  const auto models = make_models();
  std::vector<double> alone;
  std::vector<double> swept;
  std::vector<double> ratios;
  const auto compute = [&] { alone.push_back(compute_alone(data, models)); };
  const auto sweep_once = [&] { swept.push_back(sweep(argc, argv, data, models)); };
  try {
    compute_alone(data, {models[0], models[1]});  // warms both CPUs, and fails if there is no XGBoost
  } catch (const std::exception& error) {
    std::printf("xgboost_20_over_compute: %s; tools/setup --tests fetches XGBoost\n", error.what());
    return;
  }
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair % 2 == 0) compute();
    sweep_once();
    if (pair % 2 != 0) compute();
    ratios.push_back(swept.back() / alone.back());
  }
  report.add("xgboost_20_compute_s", median(alone), "s");
  report.add("xgboost_20_sweep_s", median(swept), "s");
  report.add("xgboost_20_over_compute", median(ratios), "");
}

}  // namespace bench
