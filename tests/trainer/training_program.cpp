// A program that a test runs against a cluster of several nodes: `training_program FOLDER pack|spread EVERY RESTARTS`.
// Trains on two ranks, which save every EVERY steps. With EVERY = 0 they save only when they are told to leave. Prints
// "training" when the training is under way, and the result at its end.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <pharos/ml/trainer.hpp>
#include <pharos/pharos.hpp>

namespace {

namespace ml = pharos::ml;

constexpr std::uint64_t kSteps = 300;
constexpr std::uint64_t kUnderWay = 30;

/// Counts the steps of all ranks together.
void count(ml::TrainContext& context) {
  double sum = 0;
  ml::State state;
  state.add("sum", sum);
  context.resume(state);
  while (context.step() < kSteps) {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});  // simulated work
    double one = 1;
    context.communicator().all_reduce(std::span{&one, 1});
    sum += one;
    if (context.report({{"sum", sum}, {"attempt", context.attempt()}}) != ml::Verdict::kGoOn) return;
  }
}

void run(const std::string& folder, bool spreads, std::uint64_t save_every, std::size_t restarts) {
  pharos::Runtime runtime;
  const auto say = [](const ml::TrainReport& report) {
    if (report.step == kUnderWay) std::printf("training\n");
    std::fflush(stdout);
    return ml::Verdict::kGoOn;
  };
  ml::Trainer trainer{
      runtime,
      {.scaling = {.workers = 2, .placement = spreads ? pharos::Strategy::kSpread : pharos::Strategy::kPack},
       .folder = folder,
       .save_every = save_every,
       .metric = "sum",
       .restarts = restarts,
       .callbacks = {say}}};
  const ml::TrainResult result = trainer.run<&count>();
  std::uint64_t moved_at = 0;
  bool all_there = result.reports.size() == kSteps;
  for (std::uint64_t i = 0; all_there && i < kSteps; ++i) {
    const ml::TrainReport& each = result.reports[i];
    all_there = each.step == i + 1 && *each.metrics.find("sum") == 2.0 * static_cast<double>(each.step);
    if (moved_at == 0 && *each.metrics.find("attempt") == 1) moved_at = each.step;
  }
  std::printf("%s step once, with its sum\n", all_there ? "each" : "NOT each");
  std::printf("moved before step %s, %s\n", std::to_string(moved_at).c_str(),
              moved_at > kUnderWay ? "under way" : "from an earlier one");
  for (const auto& each : result.interruptions) std::printf("again: %s\n", each.why.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) throw std::invalid_argument{"it takes four arguments"};
    run(argv[1], std::string_view{argv[2]} == "spread", std::stoull(argv[3]), std::stoull(argv[4]));
    return 0;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
