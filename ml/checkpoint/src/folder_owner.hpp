#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <pharos/base/result.hpp>

namespace pharos::ml {

/// Whose saves count in a training's folder: a process that begins again where another one was takes it over, by a file
/// there, and what the other one still writes is given up. Not a lock: those who hold one may be stopped, and not all
/// disks that machines share have them.
class FolderOwner {
 public:
  /// From now on it is this process.
  static Result<FolderOwner> take(const std::filesystem::path& folder, const std::string& id);
  /// Whoever it is: this process may save until another one takes it.
  static Result<FolderOwner> find(const std::filesystem::path& folder);

  /// kFailedPrecondition: another process has taken the folder since.
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
