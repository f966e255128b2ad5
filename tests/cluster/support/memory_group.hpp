#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace pharos::cluster {

namespace fs = std::filesystem;

/// A memory cgroup below the cgroup of this process, of cgroup version 1 or 2, whichever the machine has.
class MemoryGroup {
 public:
  MemoryGroup() = default;
  explicit MemoryGroup(const std::string& name) : name_{name} {}
  /// Makes the cgroup with this limit. Returns an empty string, or the reason why the cgroup cannot be made.
  std::string make(std::size_t mebibytes) {
    std::ifstream own{"/proc/self/cgroup"};
    std::string why = "this machine shows no memory cgroup";
    for (std::string line; std::getline(own, line);) {
      const bool first = line.find(":memory:") != std::string::npos;
      if (!first && !line.starts_with("0::")) continue;
      const fs::path parent = fs::path{first ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup"} /
                              fs::path{line.substr(line.find('/'))}.relative_path();
      const fs::path limit = first ? "memory.limit_in_bytes" : "memory.max";
      const fs::path folder = parent / (name_ + std::to_string(::getpid()));
      std::error_code failed;
      fs::create_directory(folder, failed);
      if (!failed && (std::ofstream{folder / limit} << mebibytes * kMiB << std::flush)) {
        folder_ = folder;
        return {};
      }
      why = folder.string() + ": " + (failed ? failed.message() : limit.string() + " cannot be written");
      fs::remove(folder, failed);
    }
    return why;
  }
  bool remove() const { return folder_.empty() || ::rmdir(folder_.c_str()) == 0; }
  const fs::path& folder() const { return folder_; }

 private:
  static constexpr std::size_t kMiB = std::size_t{1} << 20;

  std::string name_ = "pharos-test-";
  fs::path folder_;
};

}  // namespace pharos::cluster
