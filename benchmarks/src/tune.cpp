// Measures sweeps: the cost of a trial that does nothing, the time in which a searcher proposes a trial, and the time
// in which a sweep is restored from its journal.

#include <sys/prctl.h>

#include <chrono>
#include <cmath>
#include <thread>

#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

#include "figures.hpp"
#include "folder.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;
using namespace pharos;

constexpr int kRounds = 3;

double nothing(const ml::Params& params) {
  return params.get<double>("x0");
}

/// Sleeps for 10 ms. With the default timer slack the kernel may end the sleep 50 us late.
double ten_milliseconds(const ml::Params& params) {
  ::prctl(PR_SET_TIMERSLACK, 1);
  std::this_thread::sleep_for(10ms);
  return params.get<double>("x0");
}

double many_reports(ml::Trial& trial) {
  constexpr std::uint64_t kReports = 50'000;
  const double x = trial.params().get<double>("x0");
  while (trial.step() < kReports) {
    const double step = static_cast<double>(trial.step());
    if (trial.report({{"value", x + 1 / (1 + step)}, {"accuracy", 1 - 1 / (1 + step)}}) != ml::Verdict::kGoOn) break;
  }
  return x;
}

ml::Space space_of(std::size_t parameters) {
  ml::Space space;
  for (std::size_t i = 0; i < parameters; ++i) space.add("x" + std::to_string(i), ml::uniform(-5, 5));
  return space;
}

double sphere(const ml::Params& params) {
  double sum = 0;
  for (const auto& [name, value] : params.entries()) sum += std::pow(std::get<double>(value) - 1, 2);
  return sum;
}

/// Returns the seconds of a sweep by random search.
template <auto Objective>
double sweep(Runtime& runtime, std::uint64_t trials, std::size_t at_once, const std::filesystem::path& folder,
             bool logs = false) {
  ml::TunerOptions options{.space = space_of(2),
                           .trials = trials,
                           .at_once = at_once,
                           .worker = {},
                           .folder = folder,
                           .log_reports = logs,
                           .progress = false};
  options.searcher = ml::random_search(options.space, 1);
  ml::Tuner tuner{runtime, std::move(options)};
  const auto begin = Clock::now();
  const auto results = tuner.run<Objective>();
  const double seconds = seconds_since(begin);
  if (results.count(ml::TrialResult::State::kComplete) != trials) throw std::runtime_error{"trials are missing"};
  return seconds;
}

void measure_trials(Report& report, Runtime& runtime) {
  constexpr std::uint64_t kTrials = 40'000;
  constexpr std::size_t kAtOnce = 4;
  const auto per_s = [&](bool journal) {
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) {
      const Folder folder;
      seconds.push_back(sweep<&nothing>(runtime, kTrials, kAtOnce, journal ? folder.path() / "sweep" : ""));
    }
    return static_cast<double>(kTrials) / median(seconds);
  };
  if (report.wants("empty_trials_per_s")) report.add("empty_trials_per_s", per_s(true), "1/s");
  if (report.wants("empty_trials_per_s_no_journal")) report.add("empty_trials_per_s_no_journal", per_s(false), "1/s");
  if (report.wants("results_per_s_logged")) {
    const Folder folder;
    const double seconds = sweep<&many_reports>(runtime, 4, kAtOnce, folder.path() / "sweep", true);
    report.add("results_per_s_logged", 4 * 50'000 / seconds, "1/s");
  }
  if (report.wants("ten_ms_trials_over_ideal")) {
    const Folder folder;
    constexpr double kIdeal = 10'000.0 / 16 * 0.010;
    report.add("ten_ms_trials_over_ideal",
               sweep<&ten_milliseconds>(runtime, 10'000, 16, folder.path() / "sweep") / kIdeal, "");
  }
}

void measure_restore(Report& report, Runtime& runtime) {
  if (!report.wants("journal_restore_100k_s")) return;
  constexpr std::uint64_t kTrials = 100'000;
  const Folder folder;
  sweep<&nothing>(runtime, kTrials, 4, folder.path() / "sweep");
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    ml::TunerOptions options{.space = space_of(2),
                             .trials = kTrials,
                             .at_once = 4,
                             .worker = {},
                             .folder = folder.path() / "sweep",
                             .log_reports = false,
                             .progress = false};
    options.searcher = ml::random_search(options.space, 1);
    ml::Tuner tuner{runtime, std::move(options)};
    const auto begin = Clock::now();
    const auto results = tuner.restore<&nothing>();
    seconds.push_back(seconds_since(begin));
    if (results.trials().size() != kTrials) throw std::runtime_error{"the journal has other trials"};
  }
  report.add("journal_restore_100k_s", median(seconds), "s");
}

void run_trials(ml::Searcher& searcher, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t trial = begin; trial < end; ++trial) {
    const ml::Params params = searcher.ask(trial);
    searcher.began(trial, params);
    searcher.tell(trial, {.value = sphere(params)});
  }
}

/// Does so many fused multiplications and additions of four numbers at once, as fast as a core can.
__attribute__((target_clones("default", "arch=haswell"))) double fused_operations(std::size_t count) {
  using Lanes = double __attribute__((vector_size(32)));
  constexpr std::size_t kChains = 12;  // a core begins two each cycle, and each takes four cycles
  const Lanes factor = Lanes{} + 0.5;
  const Lanes more = Lanes{} + 1.0;
  Lanes chains[kChains]{};
  for (std::size_t done = 0; done < count; done += kChains) {
    for (Lanes& each : chains) each = each * factor + more;
  }
  Lanes sum{};
  for (const Lanes& each : chains) sum += each;
  return sum[0];
}

/// Beside the arithmetic that the densities of 24 candidates need: two operations for each kernel and parameter, and
/// twelve for the power of e of each kernel.
void measure_proposals(Report& report, std::uint64_t trials) {
  const std::string of = std::to_string(trials) + "x10";
  if (!report.wants_any({"tpe_ask_us_" + of, "limit_tpe_us_" + of, "tpe_ask_over_limit_" + of})) return;
  const auto searcher = ml::tpe(space_of(10), {.seed = 1});
  run_trials(*searcher, 0, trials);
  const std::size_t operations = 24 * (trials + 2) * (2 * 10 + 12) / 4;
  double sum = 0;
  std::vector<double> asks;
  std::vector<double> limits;
  for (std::uint64_t round = 0; round < 500; ++round) {
    asks.push_back(median_us(1, [&] { static_cast<void>(searcher->ask(trials + round)); }));
    limits.push_back(median_us(1, [&] { sum += fused_operations(operations); }));
  }
  if (!(sum > 0)) throw std::runtime_error{"the fused operations give no number"};
  report.add("tpe_ask_us_" + of, median(asks), "us");
  report.add("limit_tpe_us_" + of, median(limits), "us");
  report.add("tpe_ask_over_limit_" + of, median(asks) / median(limits), "");
}

void measure_searchers(Report& report) {
  for (const std::uint64_t trials : {1'000, 10'000}) measure_proposals(report, trials);
  const ml::Space ten = space_of(10);
  if (report.wants("tpe_5000x10_s")) {
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) {
      const auto searcher = ml::tpe(ten, {.seed = static_cast<std::uint64_t>(round)});
      const auto begin = Clock::now();
      run_trials(*searcher, 0, 5'000);
      seconds.push_back(seconds_since(begin));
    }
    report.add("tpe_5000x10_s", median(seconds), "s");
  }
  if (report.wants("cmaes_100k_s")) {
    const auto searcher = ml::cma_es(space_of(5), {.seed = 1});
    const auto begin = Clock::now();
    run_trials(*searcher, 0, 100'000);
    report.add("cmaes_100k_s", seconds_since(begin), "s");
  }
}

}  // namespace

void measure_tune(Report& report, int argc, char** argv) {
  measure_boosted_sweep(report, argc, argv);
  measure_searchers(report);
  if (report.wants_any({"empty_trials_per_s", "empty_trials_per_s_no_journal", "results_per_s_logged",
                        "ten_ms_trials_over_ideal", "journal_restore_100k_s"})) {
    Runtime runtime{argc, argv};
    measure_trials(report, runtime);
    measure_restore(report, runtime);
  }
  for (const Figure& each : figures_of_optuna()) report.add(each.name, each.value, each.unit);
}

}  // namespace bench
