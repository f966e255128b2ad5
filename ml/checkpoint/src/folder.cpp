#include "folder.hpp"

#include <dirent.h>
#include <ftw.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include <pharos/base/log.hpp>

#include "part_file.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kIdDigits = "0123456789abcdef";
constexpr std::size_t kStepDigits = 12;
constexpr std::size_t kIdLength = 8;
constexpr std::string_view kBegun = ".begun";
constexpr std::string_view kGone = ".gone";
constexpr std::string_view kAside = ".aside";

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

/// Returns whether this is the name of a checkpoint, with nothing after its id.
bool is_name(std::string_view name) {
  if (!name.starts_with(kStep)) return false;
  name.remove_prefix(kStep.size());
  const std::size_t digits = name.find_first_not_of(kDigits);
  if (digits == std::string_view::npos || digits < kStepDigits || name[digits] != '-') return false;
  const std::string_view id = name.substr(digits + 1);
  return id.size() == kIdLength && id.find_first_not_of(kIdDigits) == std::string_view::npos;
}

/// Returns the name without its id; such names sort by their steps.
std::string step_of(const std::string& name) {
  return name.substr(0, name.rfind('-'));
}

Error cannot_look_into(const fs::path& folder, int error_number) {
  return disk_error("looking into " + folder.string(), error_number);
}

// The standard library iterates over folders in functions that are noexcept, which end the process if there is no
// memory. So the C functions are used here.

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

Result<std::vector<std::string>> names_in(const fs::path& folder) {
  const std::unique_ptr<DIR, CloseFolder> opened{::opendir(folder.c_str())};
  if (opened == nullptr) return cannot_look_into(folder, errno);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const each = ::readdir(opened.get());
    if (each == nullptr) break;
    std::string name = each->d_name;
    if (name.starts_with(kStep)) names.push_back(std::move(name));
  }
  if (errno != 0) return cannot_look_into(folder, errno);
  return names;
}

/// Removes a file, or a folder with its contents. Returns 0, also if the path does not exist, or errno.
int remove_tree(const fs::path& path) {
  constexpr int kOpenMax = 8;
  const auto remove = [](const char* each, const struct stat*, int, FTW*) {
    return ::remove(each) == 0 || errno == ENOENT ? 0 : -1;
  };
  if (::nftw(path.c_str(), remove, kOpenMax, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return 0;
  return errno;
}

/// Returns when the manifest was written. A checkpoint that has lost its manifest counts as older than others of the
/// same step. Returns nullopt if the path is not a folder.
Result<std::optional<fs::file_time_type>> time_of(const fs::path& checkpoint) {
  std::error_code error;
  const auto time = fs::last_write_time(checkpoint / kManifestFile, error);
  if (!error) return std::optional{time};
  const auto is_not_there = [&error] {
    return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  };
  if (!is_not_there()) return cannot_look_into(checkpoint, error.value());
  const bool is_folder = fs::is_directory(checkpoint, error);
  if (error && !is_not_there()) return cannot_look_into(checkpoint, error.value());
  return is_folder ? std::optional{fs::file_time_type::min()} : std::nullopt;
}

}  // namespace

std::string folder_name(std::uint64_t step, const std::string& id) {
  return formatted("step-%012llu-%s", static_cast<unsigned long long>(step), id.c_str());
}
std::string begun_name(const std::string& name) {
  return name + std::string{kBegun};
}
std::string part_file_name(std::uint32_t rank) {
  return formatted("rank-%05u.safetensors", rank);
}
std::string part_text_name(std::uint32_t rank) {
  return formatted("rank-%05u.json", rank);
}

Result<std::vector<std::string>> complete_in(const fs::path& folder) {
  struct Found {
    std::string step;
    fs::file_time_type time;
    std::string name;
  };
  std::vector<Found> found;
  PHAROS_TRY(const std::vector<std::string> all, names_in(folder));
  for (const std::string& each : all) {
    if (!is_name(each)) continue;
    PHAROS_TRY(const auto time, time_of(folder / each));
    if (time) found.push_back({step_of(each), *time, each});
  }
  // There are two checkpoints of a step if a training went back and came to the same step again.
  std::ranges::sort(found, std::ranges::greater{}, [](const Found& each) {
    return std::tuple{each.step, each.time, each.name};
  });
  std::vector<std::string> names;
  for (Found& each : found) names.push_back(std::move(each.name));
  return names;
}

bool is_later(const std::string& name, const std::string& than) {
  return step_of(name) > step_of(than);
}

Result<std::vector<std::string>> incomplete_in(const fs::path& folder) {
  PHAROS_TRY(std::vector<std::string> names, names_in(folder));
  std::erase_if(names, [](const std::string& each) { return !each.ends_with(kBegun) && !each.ends_with(kGone); });
  return names;
}

Result<void> make_complete(const fs::path& folder, const std::string& name) {
  std::error_code error;
  fs::rename(folder / begun_name(name), folder / name, error);
  if (error) return disk_error("naming " + (folder / name).string(), error.value());
  return {};
}

Result<void> set_aside(const fs::path& folder, const std::vector<std::string>& newest_first) {
  Result<void> all_synced;
  for (auto name = newest_first.rbegin(); name != newest_first.rend(); ++name) {
    const fs::path aside = folder / (*name + std::string{kAside});
    std::error_code error;
    fs::rename(folder / *name, aside, error);
    if (error) return disk_error("setting " + (folder / *name).string() + " aside", error.value());
    if (auto synced = sync_folder(folder); !synced) all_synced = std::move(synced);
    log(LogLevel::kWarn, "a checkpoint does not count any more: the training goes on from an earlier step",
        {kv("now", aside.string())});
  }
  return all_synced;
}

Result<void> remove_checkpoint(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  const fs::path gone = name.ends_with(kGone) ? path : folder / (name + std::string{kGone});
  int error = remove_tree(gone);
  if (error == 0 && gone != path) {
    if (::rename(path.c_str(), gone.c_str()) == 0) {
      error = remove_tree(gone);
    } else if (errno != ENOENT) {
      error = errno;
    }
  }
  if (error != 0) return disk_error("removing " + path.string(), error);
  return {};
}

Result<Manifest> read_manifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifestFile;
  const auto text = read_text(path);
  if (!text && text.error().code() == ErrorCode::kNotFound) {
    return Error{ErrorCode::kCorrupt, path.string() + " is missing"};
  }
  if (!text) return text.error();
  auto manifest = parse_manifest(*text);
  if (!manifest) return std::move(manifest).error().with(path.string());
  return manifest;
}

}  // namespace pharos::ml
