/* What ml/nccl uses of CUDA's driver, over the simulated devices: a stand-in for CUDA's own header, with the same names
   and types. */
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

typedef enum { CUDA_SUCCESS = 0 } CUresult;
typedef struct CUstream_st* CUstream;
typedef unsigned long long CUdeviceptr;
typedef uint32_t cuuint32_t;
#define CU_STREAM_WAIT_VALUE_GEQ 0x0
