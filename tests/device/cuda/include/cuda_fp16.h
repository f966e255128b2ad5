// A type of CUDA as the host computes with it: a stand-in for CUDA's own header.
#pragma once

#include <pharos/ml/dtype.hpp>

struct __half {
  pharos::ml::Half value;
};

inline float __half2float(__half from) {
  return pharos::ml::to_float(from.value);
}
inline __half __float2half_rn(float from) {
  return {pharos::ml::to_half(from)};
}
