#pragma once

namespace pharos::ml {

/// Makes this process keep heap memory that it frees, instead of giving it back to the kernel. Each step of a training
/// needs the memory that the step before has freed, and the kernel would have to clear every page again (decision 22).
/// Does nothing if the environment sets glibc's own variables for this (MALLOC_…_, GLIBC_TUNABLES). It cannot fail, and
/// holds until the process ends. Ddp and Sharded call it; any thread may call it, and again.
void keep_heap();

}  // namespace pharos::ml
