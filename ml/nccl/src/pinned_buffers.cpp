#include "pinned_buffers.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "cuda_calls.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kBytesMin = 64 << 10;

}  // namespace

Result<PinnedBuffer> PinnedBuffers::take(std::size_t bytes) {
  const auto found = std::ranges::find_if(free_, [&](const PinnedBuffer& each) { return each.bytes >= bytes; });
  if (found != free_.end()) {
    PinnedBuffer buffer = std::move(*found);
    free_.erase(found);
    return buffer;
  }
  void* memory = nullptr;
  const std::size_t taken = std::bit_ceil(std::max(bytes, kBytesMin));
  PHAROS_TRY_VOID(done(::cudaMallocHost(&memory, taken), "taking " + std::to_string(taken) + " bytes for a message"));
  PinnedBuffer buffer;
  buffer.memory.reset(static_cast<std::byte*>(memory));
  buffer.bytes = taken;
  return buffer;
}

}  // namespace pharos::ml
