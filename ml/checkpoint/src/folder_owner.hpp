#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <pharos/base/result.hpp>

namespace pharos::ml {

/// Decides which process may save in a training's folder. A process that takes a training over writes a file in the
/// folder, and the saves of the previous process fail from then on. This is not a lock, because a process that holds a
/// lock may be suspended, and not all disks that machines share support locks. Owned by the SaveWriter of rank 0; any
/// thread may call it. The destructor leaves the file in the folder.
class FolderOwner {
 public:
  /// Makes this process the owner. After an error the file may be empty or written in part.
  static Result<FolderOwner> take(const std::filesystem::path& folder, const std::string& id);
  /// Finds the present owner: this process may save until another process takes the folder.
  static Result<FolderOwner> find(const std::filesystem::path& folder);

  /// Returns kFailedPrecondition if another process has taken the folder since, or if the owner's file is gone. Any
  /// other error means that the file cannot be read.
  Result<void> check() const;
  bool is_this_process() const { return is_this_process_; }

 private:
  FolderOwner(std::filesystem::path file, std::string text, bool is_this_process)
      : file_{std::move(file)}, text_{std::move(text)}, is_this_process_{is_this_process} {}

  std::filesystem::path file_;
  std::string text_;
  bool is_this_process_;
};

}  // namespace pharos::ml
