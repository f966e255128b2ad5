#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <pharos/base/fd.hpp>
#include <pharos/process/token.hpp>

namespace pharos::process {

Result<net::Key> read_token(const std::string& path) {
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
  net::Key key;
  if (::read(file.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size()) || status.st_size != 32) {
    return Error{ErrorCode::kPermissionDenied, "the token file " + path + " does not hold 32 bytes",
                 "Copy the cluster's token file again."};
  }
  return key;
}

Result<void> write_token(const std::string& path, const net::Key& token) {
  const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  const auto failed = [&path](int error) { return Error::from_errno("writing the cluster's token to " + path, error); };
  if (!file) return failed(errno);
  const auto written = ::write(file.get(), token.data(), token.size());
  if (written == static_cast<ssize_t>(token.size())) return {};
  const int error = written < 0 ? errno : ENOSPC;
  ::unlink(path.c_str());  // a part of a token would be refused by whoever reads it, and be in the way of the next one
  return failed(error);
}

}  // namespace pharos::process
