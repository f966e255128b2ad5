#include <unistd.h>

#include <cerrno>

#include <pharos/base/whole_files.hpp>

namespace pharos {

Result<std::vector<std::byte>> read_whole(const Fd& file, const std::string& what) {
  const off_t length = ::lseek(file.get(), 0, SEEK_END);
  if (length < 0) return Error::from_errno(what, errno);
  std::vector<std::byte> bytes(static_cast<std::size_t>(length));
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::pread(file.get(), bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::from_errno(what, errno);
    if (got == 0) break;  // the file has become shorter
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

Result<void> write_whole(const Fd& file, std::span<const std::byte> bytes, const std::string& what,
                         const std::string& remedy) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error::from_errno(what, errno, remedy);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace pharos
