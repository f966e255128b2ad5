#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <sys/types.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "order.hpp"
#include "queues.hpp"

namespace pharos::simulated {

/// The memory of the devices. Each device has two address ranges of the same size, a fixed distance apart. Tensors
/// point into the first one, in which nothing can be accessed: code of the host that reads or writes a tensor's memory
/// ends with SIGSEGV. The bytes lie in the second one, which kernels use.
///
/// As in CUDA's caching allocator, a block that is freed goes back to the stream on which it was allocated, and may be
/// used again there at once; if record_stream named other streams, it goes back when those are done. A block is filled
/// with 0xff (NaN as floats) when it is new and when it is freed. Blocks that processes may share are removed when they
/// are freed: work that still uses them ends with SIGSEGV.
///
/// One for the process; never destroyed. Any thread.
class Memory final : public c10::DeviceAllocator {
 public:
  Memory();

  /// Notes in order() that a piece of work uses these bytes. Does nothing for memory that is not of a device.
  void note(const OrderChecker::Piece& piece, const void* address, std::size_t bytes, bool writes,
            const std::string& name);
  /// The same for all bytes between the first and the last element of a tensor.
  void note(const OrderChecker::Piece& piece, const at::Tensor& tensor, bool writes, const std::string& name);

  /// The device in whose range the address lies.
  std::optional<c10::DeviceIndex> device_of(const void* address) const;
  /// The address at which kernels see what lies at `address` for tensors. nullptr stays nullptr.
  static void* for_kernels(const void* address);

  /// More than `bytes` of a device cannot be allocated: c10::OutOfMemoryError is thrown.
  void set_capacity(std::size_t bytes);
  std::size_t in_use() const;

  /// Whether a block that was freed may be used again, which may happen before the work is done that used it.
  enum class Blocks : bool { kNew, kFreed };
  c10::DataPtr allocate(std::size_t bytes, Blocks from);

  /// A block of kNew that processes share: where the owner has it.
  struct Shared {
    pid_t process;
    int file;
    std::size_t bytes;
  };
  /// Nothing unless such a block begins there.
  std::optional<Shared> share(const void* address);
  /// The block of another process as memory of the current device. nullptr if it is not there any more.
  void* open(const Shared& shared);
  void close(void* address);
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override;
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  /// The free bytes and all bytes of a device.
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override;
  /// Only the bytes of the blocks that are not free.
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}

 private:
  static constexpr std::size_t kRange = std::size_t{1} << 36;

  struct Block {
    c10::DeviceIndex device;
    c10::StreamId stream;             // on which it was allocated
    std::byte* at;                    // the address for tensors
    std::size_t bytes;                // whole pages
    std::set<c10::StreamId> users{};  // other streams, which record_stream has named
    int file = -1;                    // what other processes map, if they may
    bool is_recorded = false;         // recorded work uses it again and again
    AccessLog log{};
  };
  struct Device {
    std::byte* range = nullptr;
    std::size_t used = 0;  // of the range
    std::size_t live = 0;  // bytes of blocks that are not free
  };

  Block* block_at(const void* address);
  static void release(void* block);
  Block* take_block(c10::DeviceIndex device, std::size_t bytes, Blocks from);
  Block* make_block(c10::DeviceIndex device, std::size_t bytes, int file);
  void give_back(Block& block);
  void put_aside(Block& block);
  void remove(Block& block);

  std::vector<Device> devices_{static_cast<std::size_t>(kDevices)};
  std::size_t capacity_ = kRange;
  mutable std::mutex mutex_;
  std::map<const void*, Block*> blocks_;  // all of them, by their address
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::multimap<std::size_t, Block*>> free_;
  std::map<std::pair<c10::DeviceIndex, std::size_t>, std::vector<std::byte*>> removed_;  // by size; nothing lies there
};

Memory& memory();

/// Pinned memory of the host: ordinary memory that copies from and to a device use without waiting. It is freed when
/// all work that is queued at that time is done. One for the process; never destroyed. Any thread.
class PinnedMemory final : public c10::Allocator {
 public:
  bool has(const void* address) const;
  /// Memory that somebody else has allocated is pinned until it is forgotten.
  void add(void* memory, std::size_t bytes);
  void forget(void* memory);

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

 private:
  static void release(void* memory);

  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> ranges_;
};

PinnedMemory& pinned_memory();

}  // namespace pharos::simulated
