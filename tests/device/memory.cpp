#include "memory.hpp"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "drill.hpp"
#include "recording.hpp"

namespace pharos::simulated {
namespace {

constexpr int kFill = 0xff;

/// So much of a queue's work has to be done first.
struct Awaited {
  Queue* queue;
  std::uint64_t work;
};

void wait_for(const std::vector<Awaited>& all) {
  for (const auto& [queue, work] : all) queue->wait(work);
}

}  // namespace

Memory::Memory() {
  for (Device& device : devices_) {
    void* const range = ::mmap(nullptr, 2 * kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(range != MAP_FAILED, "there are no addresses for the simulated devices");
    device.range = static_cast<std::byte*>(range);
  }
}

// With the lock.
Memory::Block* Memory::block_at(const void* address) {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  Block* const block = std::prev(next)->second;
  return address < block->at + block->bytes ? block : nullptr;
}

void Memory::note(const OrderChecker::Piece& piece, const void* address, std::size_t bytes, bool writes,
                  const std::string& name) {
  const std::lock_guard lock{mutex_};
  Block* const block = bytes == 0 ? nullptr : block_at(address);
  if (block == nullptr) return;
  const auto from = static_cast<std::size_t>(static_cast<const std::byte*>(address) - block->at);
  if (writes && is_left_out("the checker knows what is written")) return;
  if (!writes && is_left_out("the checker knows what is read")) return;
  if (RecordedWork* const recording = recording_of(piece.queue)) {
    recording->add_use(address, bytes, writes, name);
    return;
  }
  order().note(piece, block->log, from, from + bytes, writes, name);
}

void Memory::note(const OrderChecker::Piece& piece, const at::Tensor& tensor, bool writes, const std::string& name) {
  if (!tensor.defined() || tensor.device().type() != kDeviceType || tensor.numel() == 0) return;
  const std::size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size());
  note(piece, tensor.data_ptr(), bytes, writes, name);
}

std::optional<c10::DeviceIndex> Memory::device_of(const void* address) const {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const std::byte* const range = devices_[i].range;
    if (address >= range && address < range + kRange) return static_cast<c10::DeviceIndex>(i);
  }
  return std::nullopt;
}

void* Memory::for_kernels(const void* address) {
  if (address == nullptr) return nullptr;
  return const_cast<std::byte*>(static_cast<const std::byte*>(address)) + kRange;
}

void Memory::set_capacity(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  capacity_ = std::min(bytes, kRange);
}

std::pair<std::size_t, std::size_t> Memory::getMemoryInfo(c10::DeviceIndex device) {
  const std::lock_guard lock{mutex_};
  return {capacity_ - devices_.at(static_cast<std::size_t>(device)).live, capacity_};
}

c10::CachingDeviceAllocator::DeviceStats Memory::getDeviceStats(c10::DeviceIndex device) {
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const std::lock_guard lock{mutex_};
  const auto live = static_cast<std::int64_t>(devices_.at(static_cast<std::size_t>(device)).live);
  c10::CachingDeviceAllocator::DeviceStats stats;
  stats.allocated_bytes[kAll].current = live;
  stats.reserved_bytes[kAll].current = live;
  return stats;
}

std::size_t Memory::in_use() const {
  const std::lock_guard lock{mutex_};
  std::size_t bytes = 0;
  for (const Device& device : devices_) bytes += device.live;
  return bytes;
}

c10::DataPtr Memory::allocate(std::size_t bytes) {
  return allocate(bytes, Blocks::kFreed);
}

c10::DataPtr Memory::allocate(std::size_t bytes, Blocks from) {
  const c10::DeviceIndex index = Streams::device();
  const c10::Device device{kDeviceType, index};
  if (bytes == 0) return {nullptr, device};
  const auto page = static_cast<std::size_t>(::getpagesize());
  const std::lock_guard lock{mutex_};
  Block* const block = take_block(index, (bytes + page - 1) / page * page, from);
  return {block->at, block, &release, device};
}

// With the lock.
Memory::Block* Memory::take_block(c10::DeviceIndex index, std::size_t bytes, Blocks from) {
  Device& device = devices_[static_cast<std::size_t>(index)];
  TORCH_CHECK_WITH(OutOfMemoryError, device.live + bytes <= capacity_,
                   "a simulated device is out of memory: ", device.live, " bytes are in use, and ", bytes,
                   " are asked for");
  auto& free = free_[{index, Streams::stream(index)}];
  Block* block = nullptr;
  if (const auto found = free.find(bytes); from == Blocks::kFreed && found != free.end()) {
    block = found->second;
    free.erase(found);
  } else {
    int file = -1;
    if (from == Blocks::kNew) {
      file = ::memfd_create("simulated-device", MFD_CLOEXEC);
      TORCH_CHECK(::ftruncate(file, static_cast<off_t>(bytes)) == 0, "no memory for a simulated device");
    }
    block = make_block(index, bytes, file);
    if (!is_left_out("new memory holds no number")) std::memset(for_kernels(block->at), kFill, bytes);
  }
  block->is_recorded = streams().current(index).recording() != nullptr;
  device.live += bytes;
  return block;
}

// With the lock.
Memory::Block* Memory::make_block(c10::DeviceIndex index, std::size_t bytes, int file) {
  Device& device = devices_[static_cast<std::size_t>(index)];
  std::byte* at = nullptr;
  if (auto& removed = removed_[{index, bytes}]; !removed.empty()) {
    at = removed.back();
    removed.pop_back();
  } else {
    const auto page = static_cast<std::size_t>(::getpagesize());
    TORCH_CHECK_WITH(OutOfMemoryError, device.used + bytes + page <= kRange,
                     "a simulated device has no addresses left");
    at = device.range + device.used;
    device.used += bytes + page;  // no access goes on into the next block unseen
  }
  const int sharing = file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const mapped = ::mmap(for_kernels(at), bytes, PROT_READ | PROT_WRITE, sharing | MAP_FIXED, file, 0);
  TORCH_CHECK(mapped != MAP_FAILED, "no memory for a simulated device");
  auto* const block =
      new Block{.device = index, .stream = Streams::stream(index), .at = at, .bytes = bytes, .file = file};
  blocks_.emplace(at, block);
  return block;
}

// With the lock.
void Memory::remove(Block& block) {
  void* const nothing = ::mmap(for_kernels(block.at), block.bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  TORCH_CHECK(nothing != MAP_FAILED, "memory of a simulated device cannot be removed");
  ::close(block.file);
  removed_[{block.device, block.bytes}].push_back(block.at);
  blocks_.erase(block.at);
  delete &block;
}

std::optional<Memory::Shared> Memory::share(const void* address) {
  const std::lock_guard lock{mutex_};
  Block* const block = block_at(address);
  if (block == nullptr || block->at != address || block->file < 0) return std::nullopt;
  return Shared{::getpid(), block->file, block->bytes};
}

void* Memory::open(const Shared& shared) {
  const std::string path = "/proc/" + std::to_string(shared.process) + "/fd/" + std::to_string(shared.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  const std::lock_guard lock{mutex_};
  return make_block(Streams::device(), shared.bytes, file)->at;
}

void Memory::close(void* address) {
  const std::lock_guard lock{mutex_};
  Block* const block = block_at(address);
  TORCH_CHECK(block != nullptr && block->at == address && block->file >= 0, "no memory was opened there");
  remove(*block);
}

void Memory::copy_data(void* to, const void* from, std::size_t bytes) const {
  const auto device = device_of(to);
  TORCH_CHECK(device && device_of(from), "copy_data() copies within a device");
  Queue& queue = streams().current(*device);
  const auto piece = order().begin(queue.number());
  memory().note(piece, from, bytes, false, "copy_data");
  memory().note(piece, to, bytes, true, "copy_data");
  queue.push([=] { std::memcpy(for_kernels(to), for_kernels(from), bytes); });
}

void Memory::recordStream(const c10::DataPtr& data, c10::Stream stream) {
  const std::lock_guard lock{mutex_};
  Block* const block = block_at(data.get());
  if (block == nullptr) return;
  if (is_left_out("record_stream")) return;
  if (stream.id() != block->stream) block->users.insert(stream.id());
}

void Memory::release(void* block) {
  Memory& self = memory();
  Block& freed = *static_cast<Block*>(block);
  const std::lock_guard lock{self.mutex_};
  self.devices_[static_cast<std::size_t>(freed.device)].live -= freed.bytes;
  if (freed.file >= 0) {
    self.remove(freed);
  } else if (freed.users.empty()) {
    self.give_back(freed);
  } else {
    self.put_aside(freed);
  }
}

// With the lock. The stream's own order protects the memory: what is queued there later comes after what uses it now.
void Memory::give_back(Block& block) {
  Queue& own = streams().queue(block.device, block.stream);
  if (RecordedWork* const recording = own.recording()) {
    recording->add_use(block.at, block.bytes, true, "freeing");
  } else if (block.is_recorded) {
    // Its stream has recorded, and is given nothing else any more.
    free_[{block.device, block.stream}].emplace(block.bytes, &block);
    return;
  } else {
    order().note_free(own.number(), {}, block.log, block.bytes);
  }
  if (!is_left_out("freed memory holds no number")) {
    own.push([memory = for_kernels(block.at), bytes = block.bytes] { std::memset(memory, kFill, bytes); });
  }
  free_[{block.device, block.stream}].emplace(block.bytes, &block);
}

// With the lock. The block is free when all its users are done; no stream waits for that.
void Memory::put_aside(Block& block) {
  Queue& own = streams().queue(block.device, block.stream);
  std::vector<QueueNumber> users;
  std::vector<Awaited> awaited{{&own, own.queued()}};
  for (const c10::StreamId stream : std::exchange(block.users, {})) {
    Queue& user = streams().queue(block.device, stream);
    users.push_back(user.number());
    awaited.push_back({&user, user.queued()});
  }
  order().note_free(own.number(), users, block.log, block.bytes);
  cleaner().push([this, &block, awaited = std::move(awaited)] {
    wait_for(awaited);
    std::memset(for_kernels(block.at), kFill, block.bytes);
    const std::lock_guard lock{mutex_};
    free_[{block.device, block.stream}].emplace(block.bytes, &block);
  });
}

Memory& memory() {
  static auto& all = *new Memory;
  return all;
}

bool PinnedMemory::has(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  const std::lock_guard lock{mutex_};
  auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return false;
  --range;
  return at < range->first + range->second;
}

void PinnedMemory::add(void* memory, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  ranges_.emplace(static_cast<const std::byte*>(memory), bytes);
}

void PinnedMemory::forget(void* memory) {
  const std::lock_guard lock{mutex_};
  ranges_.erase(static_cast<const std::byte*>(memory));
}

c10::DataPtr PinnedMemory::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  void* const memory = std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
  TORCH_CHECK(memory != nullptr, "no memory of ", bytes, " bytes");
  const std::lock_guard lock{mutex_};
  ranges_.emplace(static_cast<const std::byte*>(memory), bytes);
  return {memory, memory, &release, c10::Device{c10::kCPU}};
}

void PinnedMemory::copy_data(void* to, const void* from, std::size_t bytes) const {
  std::memcpy(to, from, bytes);
}

void PinnedMemory::release(void* memory) {
  std::vector<Awaited> awaited;
  for (Queue* const queue : streams().all()) awaited.push_back({queue, queue->queued()});
  cleaner().push([memory, awaited = std::move(awaited)] {
    wait_for(awaited);
    PinnedMemory& self = pinned_memory();
    const std::lock_guard lock{self.mutex_};
    self.ranges_.erase(static_cast<const std::byte*>(memory));
    std::free(memory);
  });
}

PinnedMemory& pinned_memory() {
  static auto& all = *new PinnedMemory;
  return all;
}

}  // namespace pharos::simulated
