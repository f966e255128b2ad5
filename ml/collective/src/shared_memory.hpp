#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

#include "operation.hpp"

namespace pharos::ml {

/// A file in memory, of which nothing is taken.
Result<Fd> make_file(const std::string& name);
/// A file in memory, of so many bytes. They are taken now: a full machine is an error, and not a signal later.
Result<Fd> make_memory(const std::string& name, std::size_t bytes);
/// The same for a part of a file that is there. It is this process that pays.
Result<void> take_memory(int file, Part part);

/// Memory that a process has mapped.
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

  /// A file's, all of it. -1: zeros, for this process and its children.
  static Result<Mapping> of(int file, std::size_t bytes);
  /// One whose memory others may not have taken yet.
  static Result<Mapping> of_unfinished(int file, std::size_t bytes);
  std::byte* memory() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Where ranks that are threads meet, and what they shared as long as one of them may look at it still.
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
