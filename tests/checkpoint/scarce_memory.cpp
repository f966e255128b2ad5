#include "scarce_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace pharos {
namespace {

std::atomic<Shortage> shortage = Shortage::kNone;
std::atomic<std::int64_t> allocations_left = 0;
std::atomic<std::size_t> bytes_at_least = 0;
thread_local bool is_spared = false;

bool is_short_now(std::size_t bytes) {
  const Shortage now = shortage.load();
  if (now == Shortage::kNone || is_spared || bytes < bytes_at_least) return false;
  const std::int64_t left = allocations_left.fetch_sub(1);
  return left == 0 || (left < 0 && now == Shortage::kLasting);
}

}  // namespace

void begin_shortage(Shortage of, std::int64_t works, std::size_t bytes_min) {
  bytes_at_least = bytes_min;
  allocations_left = works;
  shortage = of;
}

bool end_shortage() {
  shortage = Shortage::kNone;
  return allocations_left < 0;
}

void be_spared() {
  is_spared = true;
}

}  // namespace pharos

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return pharos::is_short_now(bytes) ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
}
void* operator new(std::size_t bytes) {
  void* const memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}
// By default these call the functions above, but with the address sanitizer they do not.
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes, std::nothrow);
}
void* operator new[](std::size_t bytes) {
  return operator new(bytes);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
