// A type of CUDA as the host computes with it: a stand-in for CUDA's own header.
#pragma once

#include <pharos/ml/dtype.hpp>

struct __nv_bfloat16 {
  pharos::ml::BFloat16 value;
};

inline float __bfloat162float(__nv_bfloat16 from) {
  return pharos::ml::to_float(from.value);
}
inline __nv_bfloat16 __float2bfloat16_rn(float from) {
  return {pharos::ml::to_bfloat16(from)};
}
