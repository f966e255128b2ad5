// The shortest sweep: a hundred trials search for the lowest place of Himmelblau's function, on as many actors as there
// are CPUs.

#include <iostream>

#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

namespace ml = pharos::ml;

double height(const ml::Params& at) {
  const double x = at.get<double>("x");
  const double y = at.get<double>("y");
  const double a = x * x + y - 11;
  const double b = x + y * y - 7;
  return a * a + b * b;
}

int main(int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};
  const ml::Space space{{"x", ml::uniform(-5, 5)}, {"y", ml::uniform(-5, 5)}};
  ml::Tuner tuner{runtime, {.space = space, .trials = 100}};
  const ml::SweepResults results = tuner.run<&height>();
  std::cout << results.summary() << "\n\n" << results.table(3);
}
