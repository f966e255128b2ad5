#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <pharos/base/fd.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/random.hpp>
#include <pharos/process/run_folder.hpp>

namespace pharos::process {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunPrefix = "run-";
constexpr const char* kLockName = "lock";

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

Result<std::string> ensure_base_folder() {
  std::string parent = variable("PHAROS_FOLDER");
  if (parent.empty()) parent = variable("TMPDIR");
  if (parent.empty()) parent = "/tmp";
  // The path must be absolute, because the working folder of a daemon is "/". If that fails, the path stays as it is
  // and mkdir() reports the error.
  std::error_code no_folder;
  if (const auto absolute = fs::absolute(parent, no_folder); !no_folder) parent = absolute;
  const std::string path = parent + "/pharos-" + std::to_string(::geteuid());
  const std::string remedy = "Set PHAROS_FOLDER to a folder of your own.";
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error::from_errno("making the folder " + path, errno, remedy);
  }
  const Fd folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!folder) return Error::from_errno("opening the folder " + path, errno, remedy);
  struct stat status {};
  if (::fstat(folder.get(), &status) != 0) return Error::from_errno("looking at the folder " + path, errno, remedy);
  if (status.st_uid != ::geteuid()) {
    return Error{ErrorCode::kPermissionDenied,
                 "the folder " + path + " belongs to user " + std::to_string(status.st_uid) + ", not to user " +
                     std::to_string(::geteuid()),
                 remedy};
  }
  if ((status.st_mode & 077) != 0) {
    return Error{ErrorCode::kPermissionDenied, "other users may enter the folder " + path,
                 "Close the folder to other users: chmod 700 " + path};
  }
  return path;
}

std::string new_run_folder_name(const std::string& base) {
  return base + "/" + kRunPrefix + to_hex(random_u64());
}

Result<void> make_run_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0) return Error::from_errno("making the folder " + path, errno);
  // The lock file is locked before it gets its name, so that sweep_run_folders() never finds it unlocked.
  const std::string name = path + "/" + kLockName;
  const std::string unnamed = name + ".new";
  Fd lock{::open(unnamed.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || ::rename(unnamed.c_str(), name.c_str()) != 0)
    return Error::from_errno("locking the folder " + path, errno);
  lock.release();  // held by the process until it ends
  return {};
}

void remove_run_folder(const std::string& path) {
  std::error_code ignored;  // the next start sweeps what cannot be removed
  fs::remove_all(path, ignored);
}

void sweep_run_folders(const std::string& base) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{base, error}) {
    if (!entry.path().filename().string().starts_with(kRunPrefix)) continue;
    const Fd lock{::open((entry.path() / kLockName).c_str(), O_RDWR | O_CLOEXEC)};
    if (!lock && errno != ENOENT) continue;  // the lock may be there and held, for example if descriptors are short
    // A folder without a lock is either being made at this moment, or its maker died before it made the lock. The age
    // of the folder tells the two cases apart.
    if (!lock) {
      struct stat status {};
      if (::stat(entry.path().c_str(), &status) == 0 && ::time(nullptr) - status.st_mtime > 60) {
        remove_run_folder(entry.path());
      }
      continue;
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) remove_run_folder(entry.path());
  }
}

}  // namespace pharos::process
