#include "gpu_kernels.hpp"

namespace pharos::ml {

[[maybe_unused]] static const bool registers_kernels = (detail::register_kernels(at::kCUDA, kGpuKernels), true);

}  // namespace pharos::ml
