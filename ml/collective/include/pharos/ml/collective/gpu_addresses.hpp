#pragma once

#include <pharos/base/export.hpp>

namespace pharos::ml::detail {

/// Whether an address is in the memory of a GPU. libpharos_nccl.so registers the function that knows; without it, no
/// address is. Both functions may be called on any thread.
using IsOfGpu = bool (*)(const void* address);
PHAROS_API void register_is_of_gpu(IsOfGpu is_of_gpu);
bool is_of_gpu(const void* address);

}  // namespace pharos::ml::detail
