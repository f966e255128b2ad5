#pragma once

#include <cstdint>

namespace pharos::ml {

/// Sums over rows that blocks have made of their rows: parts of one or two vectors.
struct SummedParts {
  const float* parts = nullptr;  // for each part all columns of the first vector, then those of the second
  std::int64_t count = 0;
  std::int64_t columns = 0;
  void* to[2] = {};  // the second one is nullptr if there is one vector
};

}  // namespace pharos::ml
