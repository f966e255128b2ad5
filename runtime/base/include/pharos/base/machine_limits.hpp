#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/export.hpp>

namespace pharos {

/// How many CPUs and how much memory of its machine this process may use: all of the machine, or less if its cgroups or
/// their parents (version 1 or 2) set a limit. A plain value, made by the code that needs the numbers. The constructor
/// finds the cgroups, and each call reads their files again. Any thread may call. Files that cannot be read count as
/// "no limit".
class PHAROS_API MachineLimits {
 public:
  /// The memory that is closest to full: either the machine's memory, or the limit of one of the cgroups.
  struct MemoryUse {
    ByteCount used;  ///< bytes in use, without cached file data that the kernel can drop
    ByteCount total;
    bool of_cgroup = false;
    ByteCount least;          ///< the smallest limit of all, as memory() returns it
    std::uint64_t kills = 0;  ///< out-of-memory kills on this machine since it booted
  };

  /// `root` is the folder that contains proc and sys. Tests pass another folder than "/".
  explicit MachineLimits(const std::filesystem::path& root = "/");

  /// Number of CPUs that the cgroups allow; 0 if they set no limit.
  double cpus() const;
  /// The smallest of the machine's memory and the cgroups' limits; 0 if the machine's memory is unknown.
  ByteCount memory() const;
  /// Returns nullopt if the machine's memory cannot be read from proc/meminfo.
  std::optional<MemoryUse> memory_use() const;

 private:
  struct Group {
    std::filesystem::path folder;
    bool is_second;  // true for cgroup version 2
  };

  std::filesystem::path root_;
  std::vector<Group> groups_;  // the cgroups of this process and their parents
};

}  // namespace pharos
