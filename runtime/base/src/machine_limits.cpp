#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

#include <pharos/base/machine_limits.hpp>

namespace pharos {
namespace {

namespace fs = std::filesystem;

/// A limit of this size or more means "no limit": cgroup version 1 then reports nearly 2^63.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::string_view each = names.substr(0, names.find(','));
    if (each == name) return true;
    names.remove_prefix(std::min(each.size() + 1, names.size()));
  }
  return false;
}

/// The number at the start of a file. Returns nullopt if there is none, as with "max".
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file{path};
  std::int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// The whole content of a file; empty if it cannot be read.
std::string lines_of(const fs::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// The number after the line's first word, in lines like "anon 4096" or "MemTotal:  16 kB".
std::optional<std::uint64_t> number_behind(const std::string& word, const std::string& lines) {
  for (std::size_t at = lines.find(word); at != std::string::npos; at = lines.find(word, at + 1)) {
    const char* const behind = lines.c_str() + at + word.size();
    if ((at == 0 || lines[at - 1] == '\n') && *behind == ' ') return std::strtoull(behind, nullptr, 10);
  }
  return std::nullopt;
}

/// A mount of a cgroup hierarchy: the group at its root, and the folder where it is mounted.
struct Mount {
  std::string from;
  std::string at;
  bool is_second = false;
  std::string controllers{};  // the options of the mount, which name the controllers in version 1
};

// A line looks like "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory".
std::vector<Mount> mounts_of_cgroups(const fs::path& root) {
  std::vector<Mount> mounts;
  std::ifstream file{root / "proc/self/mountinfo"};
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - cgroup");
    if (dash == std::string::npos) continue;
    std::istringstream words{line};
    std::istringstream behind{line.substr(dash + 3)};
    std::string skipped;
    std::string type;
    Mount mount;
    words >> skipped >> skipped >> skipped >> mount.from >> mount.at;
    behind >> type >> skipped >> mount.controllers;
    mount.is_second = type == "cgroup2";
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

bool is_below(const std::string& group, const std::string& above) {
  return above == "/" || group == above || group.starts_with(above + "/");
}

/// The folder of a group. A container may see the group's name as it is on the host, while its mount shows only the
/// container's own part of the hierarchy; the mount point itself is then the folder.
fs::path folder_of(const std::string& group, const Mount& mount) {
  if (group == mount.from || !is_below(group, mount.from)) return mount.at;
  return fs::path{mount.at} / fs::path{group.substr(mount.from == "/" ? 0 : mount.from.size())}.relative_path();
}

/// The number of CPUs that a group allows; 0 if it sets no limit. Version 2 writes "max 100000" or "150000 100000".
double cpus_of(const fs::path& group, bool is_second) {
  double quota = 0;
  double period = 0;
  if (is_second) {
    std::ifstream{group / "cpu.max"} >> quota >> period;
  } else {
    quota = static_cast<double>(number_in(group / "cpu.cfs_quota_us").value_or(-1));
    period = static_cast<double>(number_in(group / "cpu.cfs_period_us").value_or(0));
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

/// The memory limit of a group in bytes. Returns nullopt if it sets no limit.
std::optional<std::uint64_t> memory_of(const fs::path& group, bool is_second) {
  const auto limit = number_in(group / (is_second ? "memory.max" : "memory.limit_in_bytes"));
  if (!limit || *limit <= 0 || static_cast<std::uint64_t>(*limit) >= kNoLimit) return std::nullopt;
  return static_cast<std::uint64_t>(*limit);
}

std::uint64_t used_of(const fs::path& group, bool is_second) {
  const auto used = number_in(group / (is_second ? "memory.current" : "memory.usage_in_bytes"));
  const std::string parts = lines_of(group / "memory.stat");
  const std::string of_all = is_second ? "" : "total_";  // in version 1 only these values include the groups below
  const std::uint64_t cached = number_behind(of_all + "active_file", parts).value_or(0) +
                               number_behind(of_all + "inactive_file", parts).value_or(0) +
                               number_behind("slab_reclaimable", parts).value_or(0);  // only version 2 reports it
  const auto all = static_cast<std::uint64_t>(std::max<std::int64_t>(used.value_or(0), 0));
  return all - std::min(all, cached);
}

}  // namespace

MachineLimits::MachineLimits(const fs::path& root) : root_{root} {
  const std::vector<Mount> mounts = mounts_of_cgroups(root);
  std::ifstream file{root / "proc/self/cgroup"};
  for (std::string line; std::getline(file, line);) {  // "4:memory:/some/group", or "0::/some/group"
    const std::size_t controllers = line.find(':') + 1;
    const std::size_t group = line.find(':', controllers) + 1;
    if (controllers == 0 || group == 0) continue;
    const std::string_view names = std::string_view{line}.substr(controllers, group - 1 - controllers);
    if (!names.empty() && !lists(names, "cpu") && !lists(names, "memory")) continue;
    const auto mount = std::find_if(mounts.begin(), mounts.end(), [&](const Mount& each) {
      if (names.empty() || each.is_second) return names.empty() && each.is_second;
      return lists(each.controllers, names.substr(0, names.find(',')));
    });
    if (mount == mounts.end()) continue;
    const fs::path top = root / fs::path{mount->at}.relative_path();
    fs::path folder = root / folder_of(line.substr(group), *mount).relative_path();
    for (; folder.native().size() >= top.native().size(); folder = folder.parent_path()) {
      groups_.push_back({folder, mount->is_second});
    }
  }
}

double MachineLimits::cpus() const {
  double least = 0;
  for (const Group& group : groups_) {
    const double cpus = cpus_of(group.folder, group.is_second);
    if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
  }
  return least;
}

ByteCount MachineLimits::memory() const {
  std::uint64_t least = number_behind("MemTotal:", lines_of(root_ / "proc/meminfo")).value_or(0) << 10;
  for (const Group& group : groups_) {
    if (const auto limit = memory_of(group.folder, group.is_second)) least = std::min(least, *limit);
  }
  return ByteCount{least};
}

std::optional<MachineLimits::MemoryUse> MachineLimits::memory_use() const {
  const std::string machine = lines_of(root_ / "proc/meminfo");
  const auto has = number_behind("MemTotal:", machine);
  const auto can_give = number_behind("MemAvailable:", machine);
  if (!has || *has == 0 || !can_give) return std::nullopt;
  const std::uint64_t total = *has << 10;
  const std::uint64_t available = std::min(*can_give << 10, total);
  MemoryUse tightest{.used = ByteCount{total - available},
                     .total = ByteCount{total},
                     .least = ByteCount{total},
                     .kills = number_behind("oom_kill", lines_of(root_ / "proc/vmstat")).value_or(0)};
  const auto part_of = [](std::uint64_t used, std::uint64_t all) {
    return static_cast<double>(used) / static_cast<double>(all);
  };
  for (const Group& group : groups_) {
    const auto limit = memory_of(group.folder, group.is_second);
    if (!limit || *limit > total) continue;
    tightest.least = std::min(tightest.least, ByteCount{*limit});
    const std::uint64_t used = used_of(group.folder, group.is_second);
    if (part_of(used, *limit) < part_of(tightest.used.bytes(), tightest.total.bytes())) continue;
    tightest.used = ByteCount{used};
    tightest.total = ByteCount{*limit};
    tightest.of_cgroup = true;
  }
  return tightest;
}

}  // namespace pharos
