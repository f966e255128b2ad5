#include "shared/shared_windows.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

namespace pharos::ml {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kPageBytes = 4096;
// The memories of two ranks must differ in the address bits that caches look at (decision 18). So a rank's memory is
// longer than its data by an odd number of pages, and each rank's data begins 17 lines later than that of the rank
// before.
constexpr std::size_t kSkewBytes = 21 * kPageBytes;
constexpr std::size_t kLineSkew = 17 * kLineBytes;
static_assert(Meeting::kRanksMax * kLineSkew <= kSkewBytes);

// The time that a process may take to end once it has lost its descriptors.
constexpr Duration kDyingTime = std::chrono::milliseconds{200};

std::size_t pages_for(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes;
}

/// The size of the file of memory for all ranks.
std::size_t file_bytes_for_all(std::size_t bytes) {
  return std::max<std::size_t>(pages_for(bytes), 1) * kPageBytes;
}

}  // namespace

SharedWindows::SharedWindows(Meeting& meeting, std::shared_ptr<ThreadMemory> threads)
    : meeting_{meeting}, threads_{std::move(threads)} {}

// Other processes have mapped this rank's memory themselves. Threads read it in this rank's mappings, so ThreadMemory
// keeps these.
SharedWindows::~SharedWindows() {
  if (threads_ == nullptr) return;
  for (auto& [number, window] : windows_) {
    for (Mapping& each : window.mappings) threads_->keep(std::move(each));
  }
}

// ---- Windows

Meeting::MemoryHandle SharedWindows::Piece::handle() const {
  return {::getpid(), file.get(), reinterpret_cast<std::uint64_t>(memory)};
}

Result<SharedWindows::Piece> SharedWindows::make_piece(std::size_t bytes) const {
  const std::size_t mapped = pages_for(bytes) * kPageBytes + kSkewBytes;
  PHAROS_TRY(Fd file, make_memory("pharos-collective", mapped));
  PHAROS_TRY(Mapping mapping, Mapping::of(file.get(), mapped));
  std::byte* const memory = mapping.memory() + meeting_.rank() * kLineSkew;
  return Piece{std::move(file), std::move(mapping), mapped, memory, bytes};
}

Result<void> SharedWindows::add_window(Piece& piece) {
  Window window{.mappings = {}, .places = {}, .bytes = piece.bytes};
  for (std::uint32_t each = 0; each < meeting_.ranks(); ++each) {
    const Meeting::MemoryHandle handle = meeting_.memory_of(each);
    if (each == meeting_.rank()) {
      window.places.push_back(piece.memory);
    } else if (handle.pid == ::getpid()) {
      window.places.push_back(reinterpret_cast<std::byte*>(handle.address));
    } else {
      PHAROS_TRY(const Fd file, open_memory_of(each));
      PHAROS_TRY(Mapping theirs, Mapping::of(file.get(), piece.mapped));
      window.places.push_back(theirs.memory() + each * kLineSkew);
      window.mappings.push_back(std::move(theirs));
    }
  }
  window.mappings.push_back(std::move(piece.mapping));
  windows_.emplace(++last_window_, std::move(window));
  return {};
}

// The memory of another process is opened through /proc/<pid>/fd, so that no file is left behind when processes die.
Result<Fd> SharedWindows::open_memory_of(std::uint32_t other) const {
  const Meeting::MemoryHandle handle = meeting_.memory_of(other);
  const std::string path = "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.descriptor);
  Fd file{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  const int error = errno;
  const Neighbours& neighbours = meeting_.neighbours();
  // A process that dies loses its descriptors first, and its process id may then go to another process. So a failed
  // open gives it some time to end, and a successful one does not count if the rank has died.
  if (neighbours.has_died(other, file ? Duration::zero() : kDyingTime)) {
    return has_died(neighbours.name(other), "the allocation of memory by all ranks");
  }
  // A rank that fails publishes the failure before it closes its memory: after a failure the descriptor may belong to
  // another file.
  if (auto why = meeting_.failure()) return *std::move(why);
  if (file) return file;
  return Error::from_errno("opening the memory of rank " + std::to_string(neighbours.name(other)) + " by " + path,
                           error, "Ranks that share memory must be processes of one user in one PID namespace.");
}

std::uint32_t SharedWindows::window_of(const std::byte* memory, std::size_t bytes) const {
  for (const auto& [number, window] : windows_) {
    const std::byte* const begin = window.places[meeting_.rank()];
    if (memory >= begin && memory + bytes <= begin + window.bytes) return number;
  }
  return 0;
}

// ---- Memory for all ranks

Result<Fd> SharedWindows::make_file_for_all(std::size_t bytes) const {
  PHAROS_TRY(Fd file, make_file("pharos-collective"));
  if (::ftruncate(file.get(), static_cast<off_t>(file_bytes_for_all(bytes))) != 0) {
    return Error::from_errno("allocating memory that ranks share", errno);
  }
  return file;
}

// Each rank reserves an equal part of the memory, no matter which, so that each process is charged for the same amount.
Result<std::byte*> SharedWindows::map_for_all(const Fd& file, std::size_t bytes) {
  const std::uint32_t rank = meeting_.rank();
  const std::size_t all = file_bytes_for_all(bytes);
  const std::size_t pages = all / kPageBytes;
  const std::size_t begin = pages * rank / meeting_.ranks() * kPageBytes;
  const Part own{begin, pages * (rank + 1) / meeting_.ranks() * kPageBytes - begin};
  Fd of_first;
  if (rank != 0) {
    PHAROS_TRY(of_first, open_memory_of(0));
  }
  const int descriptor = rank == 0 ? file.get() : of_first.get();
  if (own.size != 0) PHAROS_TRY_VOID(take_memory(descriptor, own));
  PHAROS_TRY(Mapping mapping, Mapping::of_unfinished(descriptor, all));
  std::byte* const memory = mapping.memory();
  for_all_.emplace(memory, std::move(mapping));
  return memory;
}

void SharedWindows::free(std::byte* memory) {
  if (for_all_.erase(memory) != 0) return;
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const auto& entry) { return entry.second.places[meeting_.rank()] == memory; });
  if (found == windows_.end()) return;
  // After a failure another thread may still use this memory.
  if (threads_ != nullptr && meeting_.failure()) {
    for (Mapping& each : found->second.mappings) threads_->keep(std::move(each));
  }
  windows_.erase(found);
}

}  // namespace pharos::ml
