#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace bench {

/// On a disk, and not in memory: synced.
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
