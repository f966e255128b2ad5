#include "folder_owner.hpp"

#include <cerrno>
#include <fstream>

#include "folder.hpp"
#include "part_file.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

/// Returns an empty text if no process has taken the folder.
Result<std::string> text_in(const fs::path& file) {
  auto text = read_text(file);
  if (!text && text.error().code() == ErrorCode::kNotFound) return std::string{};
  return text;
}

}  // namespace

// The file is not synced to disk: if a crash of the machine loses it, the processes that could still save are gone,
// too.
Result<FolderOwner> FolderOwner::take(const fs::path& folder, const std::string& id) {
  const fs::path file = folder / kOwnerFile;
  std::string text = id + '\n';
  errno = 0;
  std::ofstream written{file, std::ios::binary};
  written << text;
  written.close();
  if (!written) return disk_error("writing " + file.string(), errno);
  return FolderOwner{file, std::move(text), true};
}

Result<FolderOwner> FolderOwner::find(const fs::path& folder) {
  const fs::path file = folder / kOwnerFile;
  PHAROS_TRY(std::string text, text_in(file));
  return FolderOwner{file, std::move(text), false};
}

Result<void> FolderOwner::check() const {
  PHAROS_TRY(const std::string text, text_in(file_));
  if (text == text_) return {};
  return Error{ErrorCode::kFailedPrecondition,
               "another process has taken over " + file_.parent_path().string() + ", and goes on from there",
               "Let one training at a time have a folder."};
}

}  // namespace pharos::ml
