#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include <pharos/base/byte_count.hpp>
#include <pharos/object_store/checksum.hpp>
#include <pharos/object_store/spill_file.hpp>

namespace pharos::object_store {
namespace {

constexpr std::uint64_t kBlock = 4096;  // direct I/O reads and writes whole blocks
constexpr std::uint64_t kBlocksMax = std::uint64_t{1} << 40;

std::uint64_t blocks_of(std::uint64_t bytes) {
  return (bytes + kBlock - 1) / kBlock;
}

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Piece = std::unique_ptr<std::byte[], Free>;

Result<Piece> make_piece() {
  Piece piece{static_cast<std::byte*>(std::aligned_alloc(kBlock, kPieceBytes))};
  if (piece == nullptr) {
    return Error{ErrorCode::kExhausted, "there is no memory for moving an object to the disk or back",
                 "Let go of Refs, or give the machine more memory."};
  }
  return piece;
}

// Transfers all bytes. Returns false on failure with errno set, to 0 at the end of the file.
template <class Bytes, class Call>
bool transfer(Call call, int fd, Bytes* bytes, std::size_t count, std::uint64_t offset) {
  while (count != 0) {
    const ssize_t done = call(fd, bytes, count, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      if (done == 0) errno = 0;
      return false;
    }
    bytes += done;
    count -= static_cast<std::size_t>(done);
    offset += static_cast<std::uint64_t>(done);
  }
  return true;
}

}  // namespace

Result<Fd> SpillFile::open_in(const std::string& folder) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC;
  for (const int direct : {O_DIRECT, 0}) {
    if (Fd file{::open(folder.c_str(), kFlags | O_TMPFILE | direct, 0600)}) return file;
  }
  // For file systems that do not support files without a name.
  std::string name = folder + "/pharos-spill-XXXXXX";
  Fd file{::mkostemp(name.data(), O_CLOEXEC)};
  if (!file) {
    return Error::from_errno("making a file in " + folder, errno,
                             "Name a folder on a disk where this user may write (spill_folder).");
  }
  ::unlink(name.c_str());
  return file;
}

SpillFile::SpillFile(Fd file, std::string where)
    : file_{std::move(file)}, where_{std::move(where)}, blocks_{kBlocksMax} {}

Result<SpillFile::Kept> SpillFile::reserve(std::uint64_t size) {
  const std::lock_guard lock{mutex_};
  const auto first = blocks_.take(blocks_of(size));
  if (!first) return Error{ErrorCode::kExhausted, "the file of spilled objects is full"};
  return Kept{.offset = *first * kBlock, .size = size, .checksums = std::vector<std::uint64_t>(pieces_of(size))};
}

Result<void> SpillFile::write(Kept& kept, std::size_t first, std::size_t count, const SharedFile& memory,
                              std::uint64_t from) const {
  PHAROS_TRY(const Piece piece, make_piece());
  for (std::size_t i = first; i < first + count; ++i) {
    const std::uint64_t at = i * kPieceBytes;
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, kept.size - at));
    const auto whole = static_cast<std::size_t>(blocks_of(bytes) * kBlock);
    if (!transfer(::pread, memory.fd(), piece.get(), bytes, from + at)) {
      return Error::from_errno("reading an object out of shared memory", errno);
    }
    std::memset(piece.get() + bytes, 0, whole - bytes);
    kept.checksums[i] = checksum_of({piece.get(), bytes});
    if (!transfer(::pwrite, file_.get(), piece.get(), whole, kept.offset + at)) {
      const int why = errno;
      Error error = Error::from_errno("writing an object to " + where_, why);
      if (why != ENOSPC && why != EDQUOT) return error;
      return Error{ErrorCode::kExhausted, error.message(), "Make room there, or name another spill_folder."};
    }
  }
  return {};
}

Result<void> SpillFile::read(const Kept& kept, std::size_t first, std::size_t count, const SharedFile& memory,
                             std::uint64_t to) const {
  PHAROS_TRY(const Piece piece, make_piece());
  for (std::size_t i = first; i < first + count; ++i) {
    const std::uint64_t at = i * kPieceBytes;
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, kept.size - at));
    if (!transfer(::pread, file_.get(), piece.get(), blocks_of(bytes) * kBlock, kept.offset + at)) {
      if (errno == 0) return Error{ErrorCode::kCorrupt, "an object in " + where_ + " was cut off"};
      return Error::from_errno("reading an object from " + where_, errno);
    }
    if (checksum_of({piece.get(), bytes}) != kept.checksums[i]) {
      return Error{ErrorCode::kCorrupt, "an object in " + where_ + " is damaged: its checksum does not match"};
    }
    if (!transfer(::pwrite, memory.fd(), piece.get(), bytes, to + at)) {
      const Error why = Error::from_errno("asking the system for shared memory", errno);
      return Error{ErrorCode::kExhausted, why.message(), "Let go of Refs, or give the machine more memory."};
    }
  }
  return {};
}

void SpillFile::drop(const Kept& kept) {
  const std::uint64_t blocks = blocks_of(kept.size);
  // If the file system cannot free the space, the space is at least used again for other objects.
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(kept.offset),
              static_cast<off_t>(blocks * kBlock));
  const std::lock_guard lock{mutex_};
  blocks_.give_back(kept.offset / kBlock, blocks);
}

std::uint64_t SpillFile::bytes() const {
  const std::lock_guard lock{mutex_};
  return (blocks_.length() - blocks_.free()) * kBlock;
}

}  // namespace pharos::object_store
