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
/// file has no name, so the system removes it, with all objects, when the destructor closes it or the process ends.
/// Owned by NodeStore. Any thread may call; reading and writing block. Calls for one object must not overlap with
/// drop() of the object.
/// Fails with kExhausted if the disk is full or a call has no memory for itself, with kCorrupt if an object is not as
/// it was written, and else with the error of the system.
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
  /// Reserves a place for an object of this size, which must not be 0 (PHAROS_CHECK). Its contents are undefined until
  /// all pieces have been written. Returns kExhausted if the file is full. The caller drops the place, also after a
  /// failed write().
  Result<Kept> reserve(std::uint64_t size);
  /// Writes some pieces of the object, which begins at offset `from` of `memory`. Several threads may write different
  /// pieces of one object.
  Result<void> write(Kept& kept, std::size_t first, std::size_t count, const SharedFile& memory,
                     std::uint64_t from) const;
  /// Reads some pieces back to offset `to` of `memory`, which need not have storage yet. Returns kExhausted if the
  /// system gives no memory. Pieces that were read before a failure stay written.
  Result<void> read(const Kept& kept, std::size_t first, std::size_t count, const SharedFile& memory,
                    std::uint64_t to) const;
  /// Frees the place. Failure to give the space back to the disk is ignored; other objects use the space again.
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
