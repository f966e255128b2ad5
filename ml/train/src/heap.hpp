#pragma once

namespace pharos::ml {

/// What a step of training frees the next one needs again, but glibc gives the end of its heap back to the kernel,
/// which clears every page anew: from now on this process keeps it. Decision 22. Somebody who has set glibc's variables
/// for this (MALLOC_…_, GLIBC_TUNABLES) knows better.
void keep_heap();

}  // namespace pharos::ml
