#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/extents.hpp>
#include <pharos/object_store/shared_file.hpp>

namespace pharos::object_store {

/// Objects on disk: all of them in one file, each with checksums of its pieces, which lie in memory here. The file has
/// no name, so that nothing of it is left when its process is gone.
/// Any thread; what is written and read blocks it.
/// Failure: kExhausted when the disk is full, kCorrupt for an object that is not as it was written.
class SpillFile {
 public:
  /// In this folder, past the system's cache of files if that can be: memory is what is short.
  static Result<Fd> open_in(const std::string& folder);

  /// `file` is empty. `where`: as people know it.
  SpillFile(Fd file, std::string where);

  /// An object that is here.
  struct Kept {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::vector<std::uint64_t> checksums{};
  };
  /// A place for one, which is nothing before its parts have been written.
  Result<Kept> reserve(std::uint64_t size);
  /// Some of its pieces, from where the object lies in memory. Several threads may write parts of one object.
  Result<void> write(Kept& kept, std::size_t first, std::size_t count, const SharedFile& memory,
                     std::uint64_t from) const;
  /// The same back, to where there need be no storage yet.
  Result<void> read(const Kept& kept, std::size_t first, std::size_t count, const SharedFile& memory,
                    std::uint64_t to) const;
  void drop(const Kept& kept);

  /// Of all that is here.
  std::uint64_t bytes() const;

 private:
  const Fd file_;
  const std::string where_;
  mutable std::mutex mutex_;
  Extents blocks_;
};

}  // namespace pharos::object_store
