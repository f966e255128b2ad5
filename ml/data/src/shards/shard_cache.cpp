#include "shard_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/random.hpp>

#include "file_bytes.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

// Beside the shards are files with these endings.
constexpr const char* kLock = ".lock";        // of a shard; empty
constexpr const char* kFetched = ".fetched";  // a shard that is being fetched

constexpr auto kAbandoned = std::chrono::hours{1};  // nothing was written for so long

/// A lock between processes, which ends with the process. It is released by the destructor.
class FileLock {
 public:
  /// Waits.
  explicit FileLock(const fs::path& path) : file_{::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)} {
    int locked = file_ ? 0 : -1;
    do {
      if (file_) locked = ::flock(file_.get(), LOCK_EX);
    } while (locked != 0 && errno == EINTR);
    if (locked != 0) throw_error(Error::from_errno("locking " + path.string(), errno));
  }

 private:
  const Fd file_;
};

/// Returns whether the file is there, and notes that it is used now.
bool touch(const fs::path& path) {
  if (::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0) return true;
  if (errno == ENOENT) return false;
  throw_error(Error::from_errno("using " + path.string(), errno));
}

struct Kept {
  fs::path path;
  fs::file_time_type used{};
  std::uint64_t bytes = 0;
};

}  // namespace

ShardCache::ShardCache(fs::path folder, std::uint64_t bytes_max) : folder_{std::move(folder)}, bytes_max_{bytes_max} {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  throw_if(failed, "making the cache " + folder_.string());
}

fs::path ShardCache::get(const std::string& name, const Fetch& fetch) const {
  fs::path path = folder_ / name;
  if (touch(path)) return path;
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  throw_if(failed, "making the folder " + path.parent_path().string());
  const FileLock lock{path.string() + kLock};
  if (touch(path)) return path;
  make_room();
  const fs::path fetched = path.string() + '.' + std::to_string(random_u64()) + kFetched;
  try {
    fetch(fetched);
    fs::rename(fetched, path, failed);
    throw_if(failed, "putting " + name + " into the cache");
  } catch (...) {
    fs::remove(fetched, failed);
    throw;
  }
  return path;
}

void ShardCache::forget(const std::string& name) const {
  std::error_code failed;
  fs::remove(folder_ / name, failed);
  throw_if(failed, "removing " + name + " from the cache");
}

/// Two processes that do this at the same time remove the same files.
void ShardCache::make_room() const {
  std::vector<Kept> all;
  std::uint64_t bytes = 0;
  std::error_code failed;
  const auto now = fs::file_time_type::clock::now();
  for (fs::recursive_directory_iterator entries{folder_, failed};
       !failed && entries != fs::recursive_directory_iterator{}; entries.increment(failed)) {
    // Files may vanish meanwhile.
    std::error_code gone;
    const bool is_file = entries->is_regular_file(gone);
    const std::string name = entries->path().filename().string();
    if (gone || !is_file || name.ends_with(kLock)) continue;
    Kept file{entries->path(), entries->last_write_time(gone), gone ? 0 : entries->file_size(gone)};
    if (gone) continue;
    bytes += file.bytes;
    if (!name.ends_with(kFetched)) {
      all.push_back(std::move(file));
    } else if (now - file.used > kAbandoned) {
      fs::remove(file.path, gone);
    }
  }
  throw_if(failed, "reading the cache " + folder_.string());
  std::ranges::sort(all, {}, &Kept::used);
  for (auto file = all.begin(); file != all.end() && bytes > bytes_max_; ++file) {
    fs::remove(file->path, failed);
    throw_if(failed, "removing " + file->path.string() + " from the cache");
    bytes -= file->bytes;
  }
}

}  // namespace pharos::ml
