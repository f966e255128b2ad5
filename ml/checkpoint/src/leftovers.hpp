#pragma once

#include <cstddef>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>

namespace pharos::ml {

/// The folders of saves that came to nothing: those that earlier processes have left in a training's folder, and those
/// of this process. Owned by SaveWriter, and used at rank 0. Any thread may call expect() and add(), and only the
/// SaveWriter's thread calls remove_all(). The destructor removes nothing: the next process finds what is left.
class Leftovers {
 public:
  /// `folder` is the training's folder.
  explicit Leftovers(std::filesystem::path folder);

  /// This process is about to save in a folder of that name, which is therefore not a leftover of an earlier process.
  void expect(const std::string& name);
  /// A save of this process has failed; its folder has that name. Allocates no memory: if there is no room for another
  /// name, the oldest one is forgotten.
  void add(std::string name);
  /// Removes the leftovers. The first call looks for those of earlier processes. It is not made before this process
  /// saves for the first time, because a process that only loads may use the folder of a training that saves; a lock
  /// would not distinguish the two on all disks that machines share. Also removes what ranks have written meanwhile to
  /// saves that have failed. If the first call cannot list the folder, it removes nothing, and the next call looks
  /// again. Otherwise returns the first error, after it has tried to remove all.
  Result<void> remove_all();

 private:
  Result<void> look();

  static constexpr std::size_t kKnownMax = 8;

  const std::filesystem::path folder_;
  std::mutex mutex_;  // not held while files are removed
  std::set<std::string> expected_;
  std::vector<std::string> known_;  // removed again and again, because ranks may still write to them
  bool has_looked_ = false;
};

}  // namespace pharos::ml
