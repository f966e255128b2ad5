#include "module/norms.hpp"

#include <ATen/ops/stack.h>

#include <cstddef>
#include <span>

namespace pharos::ml {

double sum_of_squares(const std::vector<at::Tensor>& norms) {
  if (norms.empty()) return 0;
  const at::Tensor all = at::stack(norms).cpu();
  double squares = 0;
  for (const double each : std::span{all.const_data_ptr<double>(), norms.size()}) squares += each * each;
  return squares;
}

}  // namespace pharos::ml
