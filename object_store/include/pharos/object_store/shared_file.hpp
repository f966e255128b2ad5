#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

namespace pharos::object_store {

/// A file in memory that processes share by its descriptor. Its length never changes (sealed), and it takes memory
/// only where it was given storage. Reading where it was not is a mistake; writing there may kill the process.
class SharedFile {
 public:
  static Result<SharedFile> make(const std::string& name, ByteCount length);
  /// One that another process has made: its length is looked at, and that it is sealed.
  static Result<SharedFile> adopt(Fd file);

  int fd() const { return file_.get(); }
  ByteCount length() const { return length_; }
  /// Gives a stretch storage, so that writing there cannot fail. kExhausted: there is no memory.
  Result<void> allocate(std::uint64_t begin, std::uint64_t bytes) const;
  /// Takes its storage away.
  void release(std::uint64_t begin, std::uint64_t bytes) const;

 private:
  SharedFile(Fd file, ByteCount length) : file_{std::move(file)}, length_{length} {}

  Fd file_;
  ByteCount length_;
};

/// A stretch of a SharedFile in this process's memory, for as long as this lives. In huge pages where the machine gives
/// them (/sys/kernel/mm/transparent_hugepage/shmem_enabled); in no core dump.
class Mapping {
 public:
  enum class Access : std::uint8_t { kRead, kReadAndWrite };

  static Result<Mapping> make(const SharedFile& file, std::uint64_t begin, std::uint64_t bytes, Access access);
  Mapping(Mapping&& other) noexcept : memory_{std::exchange(other.memory_, {})} {}
  Mapping& operator=(Mapping other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Mapping();

  std::span<std::byte> memory() const { return memory_; }

 private:
  explicit Mapping(std::span<std::byte> memory) : memory_{memory} {}

  std::span<std::byte> memory_;
};

/// Enters a stretch of a mapping that has storage into this process's page tables, to be written or read: at once,
/// instead of page by page.
void enter_pages(std::span<std::byte> memory);

/// Half of what this machine, or this process's cgroup, has of memory.
ByteCount default_capacity();

}  // namespace pharos::object_store
