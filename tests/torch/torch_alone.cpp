#include <ATen/core/Tensor.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include <fstream>
#include <iostream>
#include <string>

// Multiplies two matrices, and prints where each CUDA library of this process was loaded from.
int main() {
  const at::Tensor ones = at::ones({3, 4});
  const double sum = at::matmul(ones, ones.t()).sum().item<double>();
  std::cout << "sum " << sum << '\n';

  std::ifstream maps{"/proc/self/maps"};
  std::string last;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos || line.find("libcu", path) == std::string::npos) continue;
    if (line.substr(path) != last) std::cout << "loaded " << line.substr(path) << '\n';
    last = line.substr(path);
  }
  return sum == 36 ? 0 : 1;
}
