#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/export.hpp>

namespace pharos {

/// What this process may use of its machine: what there is, or less, as its cgroups and those above them allow, of
/// version 1 and version 2. Knows where to look from the start on, and looks anew each time. A value; any thread.
class PHAROS_API MachineLimits {
 public:
  /// Of which the largest part is in use: the machine's memory, or that of one of the cgroups.
  struct MemoryUse {
    ByteCount used;  ///< without what the system keeps of files and can let go of
    ByteCount total;
    bool of_cgroup = false;
    ByteCount least;          ///< of all of them: what there is, as memory() has it
    std::uint64_t kills = 0;  ///< how often the kernel has killed a process of this machine for memory, since its start
  };

  /// `root` has proc and sys in it; "/", but in tests.
  explicit MachineLimits(const std::filesystem::path& root = "/");

  /// That the cgroups allow; 0: as many as there are.
  double cpus() const;
  ByteCount memory() const;
  /// Nothing when nothing is known.
  std::optional<MemoryUse> memory_use() const;

 private:
  struct Group {
    std::filesystem::path folder;
    bool is_second;  // version
  };

  std::filesystem::path root_;
  std::vector<Group> groups_;  // that may have limits
};

}  // namespace pharos
