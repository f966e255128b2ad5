// pharos-bench-torch: a program that links libtorch, of which pharos-bench asks how fast it makes actors.

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <exception>

#include <pharos/pharos.hpp>

#include "created_actors.hpp"

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
    std::printf("%f\n", bench::actors_per_s<Accumulator, &Accumulator::sum>(runtime));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pharos-bench-torch: %s\n", e.what());
    return 1;
  }
}
