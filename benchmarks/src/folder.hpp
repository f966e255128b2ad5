#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace bench {

/// A folder in /var/tmp that the destructor removes. /var/tmp is on a disk, not in memory, so that syncs are measured
/// as they are.
class Folder {
 public:
  Folder() : path_{std::filesystem::path{"/var/tmp"} / ("pharos-bench-" + std::to_string(::getpid()))} {
    std::filesystem::create_directory(path_);
  }
  Folder(Folder&&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

}  // namespace bench
