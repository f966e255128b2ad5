#include "folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace pharos::storage {
namespace {

Error cannot_use(const std::filesystem::path& folder, int error_number) {
  const std::string what = "opening the store in " + folder.string();
  if (error_number == EROFS) {
    return {ErrorCode::kPermissionDenied, what + ": the file system is read-only", "Choose a folder to write to."};
  }
  if (error_number == ENOTDIR || error_number == EEXIST) {
    return {ErrorCode::kInvalidArgument, what + ": it is not a folder, or below something that is not",
            "Choose a folder."};
  }
  return Error::from_errno(what, error_number, "Give this user a folder that it may write to, with room in it.");
}

}  // namespace

Result<Fd> lock_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  if (std::filesystem::create_directories(folder, failed)) {  // a new folder is closed to other users
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  }
  if (failed) return cannot_use(folder, failed.value());
  const auto lock_file = folder / "pharos.lock";
  Fd fd{::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!fd) return cannot_use(folder, errno);
  // flock() locks the open file, so that it also keeps out this process. A lock of fcntl() would belong to the process.
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return cannot_use(folder, errno);
  return Error{ErrorCode::kAlreadyExists, "the store in " + folder.string() + " is open already",
               "Stop the process that has it (fuser " + lock_file.string() + "), or choose another folder."};
}

}  // namespace pharos::storage
