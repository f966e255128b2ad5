#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace pharos::ml {

/// A folder of fetched shards, which the processes of a machine share. What a process that dies leaves is either a
/// whole shard, or a file that another process removes. Any thread.
class ShardCache {
 public:
  using Fetch = std::function<void(const std::filesystem::path& to)>;

  ShardCache(std::filesystem::path folder, std::uint64_t bytes_max);

  /// Returns where the shard is, after fetching it if it is not there. Notes that it was used. Another process may
  /// remove it at once, if the cache is too small. Throws what `fetch` throws, and the error of the system.
  std::filesystem::path get(const std::string& name, const Fetch& fetch) const;
  /// Removes a shard that is of no use, so that the next get() fetches it again. Throws the error of the system.
  void forget(const std::string& name) const;

 private:
  void make_room() const;

  const std::filesystem::path folder_;
  const std::uint64_t bytes_max_;
};

}  // namespace pharos::ml
