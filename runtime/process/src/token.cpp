#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/process/token.hpp>

namespace pharos::process {
namespace {

constexpr std::size_t kEarlierBytes = sizeof(net::Key) + sizeof(std::uint64_t);
constexpr std::size_t kBytesMax = sizeof(net::Key) + net::TokenRing::kEarlierMax * kEarlierBytes;

Error failed_write(const std::string& path, int error) {
  return Error::from_errno("writing the cluster's token to " + path, error);
}

std::vector<std::byte> bytes_of(const net::TokenRing& tokens) {
  std::vector<std::byte> bytes{tokens.present().begin(), tokens.present().end()};
  for (const auto& [token, until] : tokens.earlier()) {
    bytes.insert(bytes.end(), token.begin(), token.end());
    const auto* const time = reinterpret_cast<const std::byte*>(&until);
    bytes.insert(bytes.end(), time, time + sizeof until);
  }
  return bytes;
}

}  // namespace

Result<net::TokenRing> read_token_ring(const std::string& path) {
  const Fd file{::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
  if (!file) {
    Error error = Error::from_errno("reading the cluster's token from " + path, errno,
                                    "Set PHAROS_TOKEN_FILE to the cluster's token file.");
    return Error{ErrorCode::kPermissionDenied, error.message(), error.remedy()};
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return Error::from_errno("looking at " + path, errno);
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return Error{ErrorCode::kPermissionDenied,
                 "the token file " + path + " can be read by other users, or belongs to another user",
                 "A token that others know is no secret: make a new one, and keep it with chmod 600."};
  }
  std::vector<std::byte> bytes(kBytesMax + 1);
  const ssize_t size = ::read(file.get(), bytes.data(), bytes.size());
  const bool right = size >= static_cast<ssize_t>(sizeof(net::Key)) && size <= static_cast<ssize_t>(kBytesMax) &&
                     size == status.st_size && (static_cast<std::size_t>(size) - sizeof(net::Key)) % kEarlierBytes == 0;
  if (!right) {
    return Error{ErrorCode::kPermissionDenied, "the token file " + path + " does not hold a token of 32 bytes",
                 "Copy the cluster's token file again."};
  }
  net::Key present;
  std::memcpy(present.data(), bytes.data(), present.size());
  std::vector<net::TokenRing::Earlier> earlier;
  for (std::size_t at = present.size(); at < static_cast<std::size_t>(size); at += kEarlierBytes) {
    net::TokenRing::Earlier& each = earlier.emplace_back();
    std::memcpy(each.token.data(), &bytes[at], each.token.size());
    std::memcpy(&each.until, &bytes[at + each.token.size()], sizeof each.until);
  }
  return net::TokenRing{present, std::move(earlier)};
}

Result<net::Key> read_token(const std::string& path) {
  PHAROS_TRY(const net::TokenRing tokens, read_token_ring(path));
  return tokens.present();
}

Result<void> write_token(const std::string& path, const net::Key& token) {
  const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file) return failed_write(path, errno);
  const auto written = ::write(file.get(), token.data(), token.size());
  if (written == static_cast<ssize_t>(token.size())) return {};
  const int error = written < 0 ? errno : ENOSPC;
  ::unlink(path.c_str());  // a part of a token would be refused by whoever reads it, and be in the way of the next one
  return failed_write(path, error);
}

Result<void> replace_token_ring(const std::string& path, const net::TokenRing& tokens) {
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());  // of a process that died here
  const Fd file{::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file) return failed_write(fresh, errno);
  const auto bytes = bytes_of(tokens);
  const auto written = ::write(file.get(), bytes.data(), bytes.size());
  const bool whole = written == static_cast<ssize_t>(bytes.size());
  if (whole && ::fsync(file.get()) == 0 && ::rename(fresh.c_str(), path.c_str()) == 0) return {};
  const int error = whole || written < 0 ? errno : ENOSPC;
  ::unlink(fresh.c_str());
  return failed_write(path, error);
}

}  // namespace pharos::process
