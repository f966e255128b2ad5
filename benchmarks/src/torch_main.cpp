// pharos-bench-torch: measures for pharos-bench all figures that need a program which links libtorch. Prints a line for
// each figure: its name, value and unit.

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include <pharos/pharos.hpp>

#include "created_actors.hpp"
#include "torch_figures.hpp"

namespace {

class Accumulator {
 public:
  double sum() { return sum_.sum().item<double>(); }

 private:
  at::Tensor sum_ = at::zeros({10, 10});
};

}  // namespace

int main(int argc, char** argv) {
  try {
    pharos::Runtime runtime{argc, argv};
    const std::string_view what = argc < 2 ? "" : argv[1];
    const std::string only = argc < 3 ? "" : argv[2];
    if (what == "ddp") {
      bench::measure_ddp(runtime, only);
    } else if (what == "sharding") {
      bench::measure_sharding(runtime, only);
    } else if (what == "trainer") {
      bench::measure_trainer(runtime, only);
    } else if (what == "actors") {
      std::printf("process_actors_per_s_torch %f /s\n", bench::actors_per_s<Accumulator, &Accumulator::sum>(runtime));
    } else {
      std::fprintf(stderr, "usage: pharos-bench-torch actors|ddp|sharding|trainer [FIGURE]\n");
      return 2;
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pharos-bench-torch: %s\n", e.what());
    return 1;
  }
}
