#include <cmath>
#include <iostream>
#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>
using namespace pharos;
double empty(const ml::Params& params) { return params.get<double>("x"); }
double steps(ml::Trial& trial) {
  double loss = 1;
  while (trial.step() < 27) {
    loss = std::abs(trial.params().get<double>("x")) + 1.0 / static_cast<double>(trial.step() + 1);
    if (trial.report(loss) != ml::Verdict::kGoOn) break;
  }
  return loss;
}
int main(int argc, char** argv) {
  Runtime runtime{argc, argv};
  const ml::Space space{{"x", ml::uniform(-1, 1)}, {"y", ml::uniform(-1, 1)}};
  const std::size_t n = argc > 1 ? static_cast<std::size_t>(std::atol(argv[1])) : 100;
  const std::size_t at_once = argc > 2 ? static_cast<std::size_t>(std::atol(argv[2])) : 2;
  const std::string folder = argc > 3 ? argv[3] : "";
  {
    ml::Tuner tuner{runtime, {.space = space, .trials = n, .searcher = ml::random_search(space), .at_once = at_once, .worker = {}, .folder = folder}};
    const auto results = tuner.run<&empty>();
    std::cout << results.table(5) << results.seconds() << " s, " << static_cast<double>(n) / results.seconds() << " trials/s\n";
  }
  {
    ml::Tuner tuner{runtime, {.space = space, .trials = 100, .scheduler = ml::asha({.most = 27, .factor = 3})}};
    const auto results = tuner.run<&steps>();
    std::cout << results.table(5) << results.to_text_picture();
  }
}
