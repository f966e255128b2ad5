// A program that a test runs against a cluster of several nodes: `training_program FOLDER`. Trains on two ranks, which
// save when they are told to leave and never else. Prints "training" when it is under way, and how it has gone at its
// end.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <thread>

#include <pharos/ml/trainer.hpp>
#include <pharos/pharos.hpp>

namespace {

namespace ml = pharos::ml;

constexpr std::uint64_t kSteps = 300;
constexpr std::uint64_t kUnderWay = 30;

/// Counts its steps, on all ranks together.
void count(ml::TrainContext& context) {
  double sum = 0;
  ml::State state;
  state.add("sum", sum);
  context.resume(state);
  while (context.step() < kSteps) {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});  // what it does
    double one = 1;
    context.communicator().all_reduce(std::span{&one, 1});
    sum += one;
    if (context.report({{"sum", sum}, {"attempt", context.attempt()}}) != ml::Verdict::kGoOn) return;
  }
}

void run(const std::string& folder) {
  pharos::Runtime runtime;
  const auto say = [](const ml::TrainReport& report) {
    if (report.step == kUnderWay) std::printf("training\n");
    std::fflush(stdout);
    return ml::Verdict::kGoOn;
  };
  ml::Trainer trainer{
      runtime, {.scaling = {.workers = 2}, .folder = folder, .metric = "sum", .restarts = 0, .callbacks = {say}}};
  const ml::TrainResult result = trainer.run<&count>();
  std::uint64_t moved_at = 0;
  bool all_there = result.reports.size() == kSteps;
  for (std::uint64_t i = 0; all_there && i < kSteps; ++i) {
    const ml::TrainReport& each = result.reports[i];
    all_there = each.step == i + 1 && *each.metrics.find("sum") == 2.0 * static_cast<double>(each.step);
    if (moved_at == 0 && *each.metrics.find("attempt") == 1) moved_at = each.step;
  }
  std::printf("%s step once, with its sum\n", all_there ? "each" : "NOT each");
  std::printf("moved before step %s\n", moved_at > kUnderWay ? "later ones" : std::to_string(moved_at).c_str());
  for (const auto& each : result.restarts) std::printf("again: %s\n", each.why.c_str());
}

}  // namespace

int main(int, char** argv) {
  try {
    run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
