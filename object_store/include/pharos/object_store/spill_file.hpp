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
  Result<Kept> write(const SharedFile& memory, std::uint64_t from, std::uint64_t size);
  /// To where there need be no storage yet.
  Result<void> read(const Kept& kept, const SharedFile& memory, std::uint64_t to) const;
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
