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

/// A file in memory that processes share by its descriptor. Its length is sealed, so it never changes. The file takes
/// memory only where it was given storage. Callers must not read where it has no storage, and writing there may kill
/// the process if the system has no memory. Owned by the node's NodeStore, and by the StoreMemory of each process. Any
/// thread. The destructor closes the descriptor; Mappings of the file stay valid.
class SharedFile {
 public:
  /// Makes a file without storage. Fails with errors of the system.
  static Result<SharedFile> make(const std::string& name, ByteCount length);
  /// Takes a file that another process has made. Returns kCorrupt if its length is not sealed.
  static Result<SharedFile> adopt(Fd file);

  int fd() const { return file_.get(); }
  ByteCount length() const { return length_; }
  /// Gives storage to a stretch, so that writing there cannot fail. Returns kExhausted if the system has no memory.
  Result<void> allocate(std::uint64_t begin, std::uint64_t bytes) const;
  /// Takes the storage of a stretch away; its contents are lost. Failure is ignored: the stretch keeps its storage
  /// then.
  void release(std::uint64_t begin, std::uint64_t bytes) const;

 private:
  SharedFile(Fd file, ByteCount length) : file_{std::move(file)}, length_{length} {}

  Fd file_;
  ByteCount length_;
};

/// A stretch of a SharedFile that is mapped into this process until the Mapping is destroyed. It uses huge pages if the
/// machine has enabled them (/sys/kernel/mm/transparent_hugepage/shmem_enabled), and is not part of core dumps.
class Mapping {
 public:
  enum class Access : std::uint8_t { kRead, kReadAndWrite };

  /// Returns kCorrupt if the stretch is empty or lies outside of the file, else the error of the system.
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

/// Enters the pages of a stretch, which must have storage, into this process's page tables all at once, so that later
/// reads and writes cause no page faults. Failure is ignored: the pages are entered when they are first used.
void enter_pages(std::span<std::byte> memory);

/// Returns half of the memory of this machine or of this process's cgroup, and at least 64 MiB.
ByteCount default_capacity();

}  // namespace pharos::object_store
