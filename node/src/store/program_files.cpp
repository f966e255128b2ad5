#include "store/program_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>

#include <pharos/base/id.hpp>
#include <pharos/base/random.hpp>
#include <pharos/process/build_id.hpp>

#include "store/received_files.hpp"

namespace pharos::node {
namespace {

namespace fs = std::filesystem;

std::string own_folders(const std::string& folder) {
  return folder + "/jobs";
}

// A file that is no executable, or cannot be read, is treated like another build.
Fd open_at_its_path(const wire::RegisterJob& program) {
  Fd file = open_regular(program.executable);
  if (!file || ::access(program.executable.c_str(), X_OK) != 0) return {};
  const auto build = process::build_id_of(file.get());
  return build && *build == program.build_id ? std::move(file) : Fd{};
}

/// Returns whether a path that was given for a file of the program's folder stays inside of it.
bool stays_inside(const fs::path& path) {
  return path.is_relative() && path.has_filename() && path == path.lexically_normal() && *path.begin() != "." &&
         *path.begin() != "..";
}

Result<void> check_paths(const wire::RegisterJob& program) {
  for (const auto& file : program.files) {
    if (file.is_library() ? fs::path{file.path}.has_filename() : stays_inside(file.path)) continue;
    return Error{ErrorCode::kInvalidArgument, "\"" + file.path + "\" is no path of a file that a program takes along"};
  }
  return {};
}

/// Makes a folder for one job, with links to its files. Those that lie at their own path are linked by that path, so
/// that the folder has them all; the others have a second name there, which keeps them.
class OwnFolder {
 public:
  static Result<OwnFolder> make(const std::string& folder) {
    PHAROS_TRY_VOID(make_folder(folder));
    PHAROS_TRY_VOID(make_folder(own_folders(folder)));
    OwnFolder made{folder, own_folders(folder) + "/" + to_hex(random_u64())};
    PHAROS_TRY_VOID(make_folder(made.path_));
    return made;
  }
  OwnFolder(OwnFolder&& other) noexcept
      : received_{std::move(other.received_)}, path_{std::exchange(other.path_, {})} {}
  ~OwnFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }

  /// Puts a file at this path within the folder, where the first one stays. `at_its_path` is empty for a file that was
  /// received.
  Result<void> add(const fs::path& within, const wire::BuildId& content, const std::string& at_its_path) const {
    const fs::path place = fs::path{path_} / within;
    std::error_code error;
    if (fs::is_symlink(place, error) || fs::exists(place, error)) return {};
    fs::create_directories(place.parent_path(), error);
    if (!error && at_its_path.empty()) fs::create_hard_link(path_of_received(received_, content), place, error);
    if (!error && !at_its_path.empty()) fs::create_symlink(at_its_path, place, error);
    if (error) return Error::from_errno("linking " + place.string(), error.value());
    return {};
  }
  std::string path(const std::string& within) const { return path_ + "/" + within; }
  /// The folder stays, and is the caller's to remove.
  std::string keep() && { return std::exchange(path_, {}); }

 private:
  OwnFolder(std::string received, std::string path) : received_{std::move(received)}, path_{std::move(path)} {}

  std::string received_;
  std::string path_;
};

Result<std::string> folder_for(const std::string& folder, const wire::RegisterJob& program) {
  std::error_code none;
  const bool is_there = fs::is_directory(program.folder, none) && ::access(program.folder.c_str(), X_OK) == 0;
  if (is_there || program.folder.empty()) return program.folder;
  std::string instead = folder + "/work";
  PHAROS_TRY_VOID(make_folder(folder));
  PHAROS_TRY_VOID(make_folder(instead));
  return instead;
}

/// Where the files of a program are.
struct Found {
  Fd executable;
  bool executable_moved = false;           // it is not at its own path
  std::vector<std::string> at_their_path;  // for each file; empty if it was received
  std::vector<wire::BuildId> missing;
};

Found look_for(const std::string& folder, const wire::RegisterJob& program) {
  Found found;
  found.executable = open_at_its_path(program);
  if (!found.executable) {
    found.executable = open_received(folder, program.build_id);
    found.executable_moved = true;
    if (!found.executable) found.missing.push_back(program.build_id);
  }
  for (const auto& file : program.files) {
    const std::string own = own_path_of(program, file);
    const bool there = open_if_it_is(own, file).get() >= 0;
    found.at_their_path.push_back(there ? own : "");
    if (there) continue;
    // A file that a worker has changed has another content, and is sent again.
    const std::string received = path_of_received(folder, file.content);
    if (open_if_it_is(received, file)) {
      ::utimensat(AT_FDCWD, received.c_str(), nullptr, 0);
    } else {
      ::unlink(received.c_str());
      if (std::find(found.missing.begin(), found.missing.end(), file.content) != found.missing.end()) continue;
      found.missing.push_back(file.content);
    }
  }
  return found;
}

/// Makes the program's own folder if it needs one: for its libraries if anything of it that the loader reads is not at
/// its path, for its other files if one of them is not.
Result<void> link_files(const std::string& folder, const wire::RegisterJob& program, const Found& found,
                        ProgramHere& here) {
  bool moved_libraries = found.executable_moved;
  bool moved_files = false;
  bool has_libraries = false;
  for (std::size_t i = 0; i < program.files.size(); ++i) {
    const bool library = program.files[i].is_library();
    has_libraries = has_libraries || library;
    if (found.at_their_path[i].empty()) (library ? moved_libraries : moved_files) = true;
  }
  moved_libraries = moved_libraries && has_libraries;
  if (!moved_libraries && !moved_files) return {};
  PHAROS_TRY(OwnFolder own, OwnFolder::make(folder));
  for (std::size_t i = 0; i < program.files.size(); ++i) {
    const auto& file = program.files[i];
    if (!(file.is_library() ? moved_libraries : moved_files)) continue;
    const fs::path within = file.is_library() ? "lib" / fs::path{file.path}.filename() : "files" / fs::path{file.path};
    PHAROS_TRY_VOID(own.add(within, file.content, found.at_their_path[i]));
  }
  if (moved_libraries) here.libraries_folder = own.path("lib");
  if (moved_files) here.folder = own.path("files");
  here.own_folder = std::move(own).keep();
  return {};
}

}  // namespace

std::string own_path_of(const wire::RegisterJob& program, const wire::ProgramFile& file) {
  return file.is_library() ? file.path : program.folder + "/" + file.path;
}

Result<ProgramHere> open_program(const std::string& folder, const wire::RegisterJob& program) {
  PHAROS_TRY_VOID(check_paths(program));
  ProgramHere here;
  Found found = look_for(folder, program);
  here.missing = std::move(found.missing);
  if (!here.missing.empty()) return here;
  if (auto linked = link_files(folder, program, found, here); !linked) {
    // Room may just have been made for another program.
    here.missing = look_for(folder, program).missing;
    if (here.missing.empty()) return std::move(linked).error();
    return here;
  }
  if (here.folder.empty()) {
    PHAROS_TRY(here.folder, folder_for(folder, program));
  }
  here.executable = std::move(found.executable);
  return here;
}

void remove_own_folders(const std::string& folder) {
  std::error_code error;
  fs::remove_all(own_folders(folder), error);
}

}  // namespace pharos::node
