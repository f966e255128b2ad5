#include "module/heap.hpp"

#include <malloc.h>

#include <cstdlib>
#include <string_view>

namespace pharos::ml {
namespace {

constexpr int kKeptMax = 1 << 30;      // free bytes that stay at the end of the heap
constexpr int kMappedFrom = 32 << 20;  // larger blocks are mapped; glibc allows no larger threshold than this
constexpr int kGrowsBy = 64 << 20;     // untouched pages cost nothing

bool is_chosen_by_others() {
  for (const char* const name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  return tunables != nullptr && std::string_view{tunables}.find("glibc.malloc.") != std::string_view::npos;
}

}  // namespace

void keep_heap() {
  if (is_chosen_by_others()) return;
  ::mallopt(M_TRIM_THRESHOLD, kKeptMax);
  ::mallopt(M_MMAP_THRESHOLD, kMappedFrom);
  ::mallopt(M_TOP_PAD, kGrowsBy);
}

}  // namespace pharos::ml
