#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/collective/operation.hpp>

namespace pharos::ml {

/// Makes an empty file in memory (memfd). The functions here may be called on any thread, and fail with the error of
/// errno: kExhausted where there is no memory.
Result<Fd> make_file(const std::string& name);
/// Makes a file of this size in memory. All its memory is reserved at once, so that a full machine is an error here and
/// not a SIGBUS later.
Result<Fd> make_memory(const std::string& name, std::size_t bytes);
/// Reserves the memory of a part of an existing file. It is charged to this process. All signals of the calling thread
/// are blocked meanwhile.
Result<void> take_memory(int file, Part part);

/// Memory that this process has mapped. The destructor unmaps it; the file may be closed earlier. A move assignment
/// swaps the two.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* memory, std::size_t bytes) : memory_{memory}, bytes_{bytes} {}
  Mapping(Mapping&& other) noexcept : memory_{std::exchange(other.memory_, nullptr)}, bytes_{other.bytes_} {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  /// Maps a whole file, with its pages. If `file` is -1: maps zeros that this process shares with its children.
  static Result<Mapping> of(int file, std::size_t bytes);
  /// Maps a file of which other ranks may not have reserved their parts yet. Pages are mapped when they are used.
  static Result<Mapping> of_unfinished(int file, std::size_t bytes);
  std::byte* memory() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The memory of ranks that are threads of one process: that of their meeting, and mappings that a rank has given up
/// while other ranks may still read them. The backends of all ranks and Communicator::Threads own it together, and the
/// last of them unmaps all of it. keep() may be called on any thread.
class ThreadMemory {
 public:
  explicit ThreadMemory(Mapping meeting) : meeting_{std::move(meeting)} {}
  std::byte* meeting() const { return meeting_.memory(); }
  void keep(Mapping mapping) {
    const std::lock_guard lock{mutex_};
    kept_.push_back(std::move(mapping));
  }

 private:
  const Mapping meeting_;
  std::mutex mutex_;
  std::vector<Mapping> kept_;
};

}  // namespace pharos::ml
