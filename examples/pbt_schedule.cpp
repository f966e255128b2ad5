// Population based training: trials change their learning rate while they train. A trial copies a better trial and
// changes the copied rate a little. The result is a schedule that is better than any fixed rate: the rate is large
// while the goal is far, and small at the end, where gradients are mostly noise.
//
//   pharos-pbt-schedule --trials 12 --folder sweeps/pbt

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

namespace {

namespace ml = pharos::ml;

constexpr std::uint64_t kSteps = 100;
constexpr std::size_t kSize = 20;

/// Descends a bowl by noisy gradients.
class Descent {
 public:
  struct State {
    std::array<double, kSize> place{};
    std::uint64_t steps = 0;
    std::vector<double> rates{};  // the rate of each step, from the first one on
  };

  void setup(const ml::Params& params) {
    rate_ = params.get<double>("rate");
    state_ = {};
    state_.place.fill(1);
  }
  double step() {
    std::mt19937_64 random{++state_.steps};
    for (int i = 0; i < 10; ++i) {
      for (double& each : state_.place) each -= rate_ * (each + 0.5 * std::normal_distribution<double>{}(random));
    }
    state_.rates.push_back(rate_);
    double loss = 0;
    for (const double each : state_.place) loss += each * each;
    return loss / kSize;
  }
  State save() const { return state_; }
  void load(const State& state) { state_ = state; }

 private:
  double rate_ = 0;
  State state_;
};

ml::SweepResults sweep(pharos::Runtime& runtime, const ml::Space& space, std::uint64_t trials,
                       std::unique_ptr<ml::TrialScheduler> scheduler, const std::string& folder) {
  ml::TunerOptions options{.space = space, .metric = "loss", .trials = trials, .steps = kSteps};
  options.searcher = ml::random_search(space, 2);
  options.scheduler = std::move(scheduler);
  options.at_once = trials;  // all trials of a population run together
  options.worker = {};
  options.save_every = 10;
  options.folder = folder;
  options.progress = false;
  return ml::Tuner{runtime, std::move(options)}.run<Descent>();
}

int run(int argc, char** argv) {
  std::uint64_t trials = 12;
  std::string folder;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--trials") == 0 && i + 1 < argc) {
      trials = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--folder") == 0 && i + 1 < argc) {
      folder = argv[++i];
    } else {
      std::cerr << "usage: pharos-pbt-schedule [--trials N] [--folder DIR]\n\nexamples:\n  pharos-pbt-schedule\n"
                   "  pharos-pbt-schedule --trials 16 --folder sweeps/pbt\n";
      return std::strcmp(argv[i], "--help") == 0 ? 0 : 2;
    }
  }
  pharos::Runtime runtime{argc, argv};
  const ml::Space space{{"rate", ml::log_uniform(1e-3, 1)}};
  const auto fixed = sweep(runtime, space, trials, ml::run_all(), "");
  const auto changing = sweep(runtime, space, trials, ml::pbt(space, {.seed = 1, .interval = 10}), folder);
  std::printf("The gradients and their noise were drawn by this program.\n");
  std::printf("the best of %zu fixed rates: loss %.5f with rate %.4f\n", fixed.trials().size(), *fixed.best().value,
              fixed.best().params.get<double>("rate"));
  std::printf("the best of %zu that change: loss %.5f, by this schedule:\n", changing.trials().size(),
              *changing.best().value);
  const auto state = changing.checkpoint<Descent::State>(changing.best());
  for (std::size_t step = 0; step < state.rates.size(); step += 10) {
    const auto bars = static_cast<std::size_t>(std::max(0.0, 10 * (3 + std::log10(state.rates[step]))));
    std::printf("step %3zu  rate %.4f  %s\n", step, state.rates[step], std::string(bars, '#').c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
