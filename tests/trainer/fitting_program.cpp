// A program that a test runs against a cluster of several nodes: `fitting_program FOLDER pack|spread STRATEGY RANKS
// EPOCHS [FAILPOINT]`. Fits a learner, prints "training" when the training is under way, and then fits the same learner
// once more, undisturbed. It prints whether both have learned the same. With FAILPOINT, rank 1 takes that order the
// first time; without it, ranks save only when they are told to leave.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "mishaps.hpp"

namespace {

namespace ml = pharos::ml;

constexpr std::uint64_t kUnderWay = 30;

/// A learner whose steps take time.
struct SlowImages : ml::fitting::Images {
  using Images::Images;

  torch::Tensor training_step(const ml::Batch& batch) override {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});  // simulated work
    return Images::training_step(batch);
  }
};

ml::FitStrategy strategy_of(std::string_view name) {
  if (const auto strategy = ml::strategy_named(name)) return *strategy;
  throw std::invalid_argument{"there is no strategy " + std::string{name}};
}

bool are_alike(const ml::TrainResult& one, const ml::TrainResult& other) {
  if (one.reports.size() != other.reports.size()) return false;
  for (std::size_t i = 0; i < one.reports.size(); ++i) {
    if (one.reports[i].step != i + 1 || other.reports[i].step != i + 1) return false;
    if (*one.reports[i].metrics.find("loss") != *other.reports[i].metrics.find("loss")) return false;
  }
  return one.last("validation_seen") == other.last("validation_seen");
}

void run(const std::filesystem::path& folder, ml::Scaling scaling, const ml::FitOptions& how,
         const ml::fitting::Mishap& mishap) {
  pharos::Runtime runtime;
  const auto say = [](const ml::TrainReport& report) {
    if (report.step == kUnderWay) std::printf("training\n");
    std::fflush(stdout);
    return ml::Verdict::kGoOn;
  };
  ml::TrainerOptions options{.scaling = scaling,
                             .seed = 3,
                             .folder = folder / "disturbed",
                             .save_every = mishap.ranks.empty() ? std::uint64_t{0} : 2,
                             .restarts = mishap.ranks.size(),
                             .timeout = std::chrono::seconds{3},
                             .callbacks = {say},
                             .progress = false};
  ml::Trainer trainer{runtime, options};
  const ml::TrainResult disturbed = ml::fit<SlowImages>(trainer, how, mishap);
  options.folder = folder / "undisturbed";
  options.callbacks.clear();
  ml::Trainer other{runtime, options};
  const ml::TrainResult undisturbed = ml::fit<SlowImages>(other, how, ml::fitting::Mishap{});
  std::printf("%s to the bit\n", are_alike(disturbed, undisturbed) ? "the same" : "NOT the same");
  for (const auto& each : disturbed.interruptions) std::printf("again: %s\n", each.why.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 6 && argc != 7) throw std::invalid_argument{"it takes five arguments, or six"};
    const bool spreads = std::string_view{argv[2]} == "spread";
    const ml::Scaling scaling{.workers = std::stoul(argv[4]),
                              .placement = spreads ? pharos::Strategy::kSpread : pharos::Strategy::kPack};
    const ml::FitOptions how{.batch = 5, .epochs = std::stoull(argv[5]), .strategy = strategy_of(argv[3])};
    ml::fitting::Mishap mishap;
    if (argc == 7) mishap = {.at = ml::fitting::Mishap::At::kFailpoint, .ranks = {1}, .step = 3, .failpoint = argv[6]};
    run(argv[1], scaling, how, mishap);
    return 0;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
