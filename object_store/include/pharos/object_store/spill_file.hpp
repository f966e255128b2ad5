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

/// Objects that were moved to disk. All of them lie in one file, and the checksums of their pieces are in memory. The
/// file has no name, so the system removes it when the process ends. Any thread may call; reading and writing block.
/// Fails with kExhausted if the disk is full, and with kCorrupt if an object is not as it was written.
class SpillFile {
 public:
  /// Makes the file in this folder. The file bypasses the system's page cache if possible, because memory is short when
  /// objects are moved to disk.
  static Result<Fd> open_in(const std::string& folder);

  /// `file` is empty. `where` is the name of the folder, for messages.
  SpillFile(Fd file, std::string where);

  /// The place of one object in the file.
  struct Kept {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::vector<std::uint64_t> checksums{};
  };
  /// Reserves a place for an object of this size. Its contents are undefined until all pieces have been written.
  /// Returns kExhausted if the file is full.
  Result<Kept> reserve(std::uint64_t size);
  /// Writes some pieces of the object, which begins at offset `from` of `memory`. Several threads may write different
  /// pieces of one object.
  Result<void> write(Kept& kept, std::size_t first, std::size_t count, const SharedFile& memory,
                     std::uint64_t from) const;
  /// Reads some pieces back to offset `to` of `memory`, which need not have storage yet.
  Result<void> read(const Kept& kept, std::size_t first, std::size_t count, const SharedFile& memory,
                    std::uint64_t to) const;
  void drop(const Kept& kept);

  /// The size of all objects on disk, in whole blocks.
  std::uint64_t bytes() const;

 private:
  const Fd file_;
  const std::string where_;
  mutable std::mutex mutex_;
  Extents blocks_;
};

}  // namespace pharos::object_store
