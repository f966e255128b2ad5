#include "allocation_watch.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> largest = 0;
}  // namespace

void* operator new(std::size_t size) {
  std::size_t before = largest.load(std::memory_order_relaxed);
  while (size > before && !largest.compare_exchange_weak(before, size, std::memory_order_relaxed)) {
  }
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc{};
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace pharos::net {

std::size_t largest_allocation() {
  return largest.exchange(0);
}

}  // namespace pharos::net
