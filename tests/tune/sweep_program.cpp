// A sweep that tests kill: `sweep_program FOLDER [RESOURCE]`. Each trial needs one of RESOURCE.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include <pharos/base/check.hpp>
#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

namespace {

using namespace std::chrono_literals;
using namespace pharos;

constexpr std::uint64_t kSteps = 6;

/// Each step appends a line to a file, in any process that runs it.
double objective(ml::Trial& trial, const std::string& file) {
  const int ran = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  PHAROS_CHECK(ran >= 0, file);
  const double x = trial.params().get<double>("x");
  double level = trial.checkpoint<double>().value_or(0);
  while (trial.step() < kSteps) {
    std::this_thread::sleep_for(2ms);  // the simulated work of a step
    const std::string line = std::to_string(trial.number()) + ' ' + std::to_string(trial.step() + 1) + '\n';
    PHAROS_CHECK(::write(ran, line.data(), line.size()) == static_cast<ssize_t>(line.size()), file);
    level += x;
    if (trial.report(level, [&] { return level; }) != ml::Verdict::kGoOn) break;
  }
  ::close(ran);
  return level;
}

}  // namespace

int main(int argc, char** argv) try {
  PHAROS_CHECK(argc >= 2, argc);
  const std::string folder = argv[1];
  Runtime runtime{argc, argv};
  const ml::Space space{{"x", ml::uniform(0, 1)}};
  Bundle worker;
  if (argc >= 3) worker.resources[argv[2]] = 1;
  ml::Tuner tuner{runtime,
                  {.space = space,
                   .trials = 60,
                   .searcher = ml::tpe(space, {.seed = 4}),
                   .at_once = 4,
                   .worker = worker,
                   .save_every = 2,
                   .folder = folder}};
  std::cout << "begins " << getpid() << ' ' << runtime.address() << std::endl;
  const auto results = tuner.restore<&objective>(folder + "/ran");
  std::cout << (results.interrupted() ? "interrupted" : "ends") << ' '
            << results.count(ml::TrialResult::State::kComplete) << std::endl;
  return results.interrupted() ? 130 : 0;
} catch (const Exception& error) {
  std::cerr << error.what() << '\n';
  return 3;
}
