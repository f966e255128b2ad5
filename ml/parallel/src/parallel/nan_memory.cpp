#include "parallel/nan_memory.hpp"

#include <ATen/ops/full.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <pharos/base/check.hpp>
#include <pharos/base/fd.hpp>

namespace pharos::ml {
namespace {

constexpr std::size_t kTile = std::size_t{1} << 20;
constexpr int kNanByte = 0xFF;

}  // namespace

NanMemory::NanMemory(std::size_t bytes, at::Device device) : bytes_{(bytes + kTile - 1) / kTile * kTile} {
  if (device.is_cpu()) {
    map();
    return;
  }
  on_device_ =
      at::full({static_cast<std::int64_t>(bytes)}, kNanByte, at::TensorOptions{}.dtype(at::kByte).device(device));
  data_ = static_cast<std::byte*>(on_device_.data_ptr());
}

// One tile of memory is mapped side by side as often as needed. A failure here cannot be reported: the operator of
// libtorch that called would go on with whatever lies in its parameters. So a failure ends the process.
void NanMemory::map() {
  const auto map = [](void* at, std::size_t size, int flags, int file) {
    void* const memory = ::mmap(at, size, PROT_READ | PROT_WRITE, flags, file, 0);
    PHAROS_CHECK(memory != MAP_FAILED, size, errno);
    return static_cast<std::byte*>(memory);
  };
  const Fd tile{::memfd_create("pharos-nan-memory", MFD_CLOEXEC)};
  PHAROS_CHECK(tile && ::ftruncate(tile.get(), kTile) == 0, errno);
  std::byte* const once = map(nullptr, kTile, MAP_SHARED, tile.get());
  std::memset(once, kNanByte, kTile);
  ::munmap(once, kTile);
  if (bytes_ == 0) return;
  data_ = map(nullptr, bytes_, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  for (std::size_t at = 0; at < bytes_; at += kTile) map(data_ + at, kTile, MAP_PRIVATE | MAP_FIXED, tile.get());
}

NanMemory::~NanMemory() {
  if (data_ != nullptr && !on_device_.defined()) ::munmap(data_, bytes_);
}

}  // namespace pharos::ml
