#include "folder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "part_file.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "step-";
constexpr std::string_view kGone = ".gone";
constexpr std::string_view kAside = ".aside";

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

/// The name without its id: as texts they are in the order of their steps.
std::string step_of(const std::string& name) {
  return name.substr(0, name.rfind('-'));
}

}  // namespace

std::string folder_name(std::uint64_t step, const std::string& id) {
  return formatted("step-%012llu-%s", static_cast<unsigned long long>(step), id.c_str());
}
std::string part_file_name(std::uint32_t rank) {
  return formatted("rank-%05u.safetensors", rank);
}
std::string part_text_name(std::uint32_t rank) {
  return formatted("rank-%05u.json", rank);
}

std::vector<std::string> complete_in(const fs::path& folder) {
  struct Found {
    std::string step;
    fs::file_time_type time;
    std::string name;
  };
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator each{folder, error}; !error && each != fs::directory_iterator{}; each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(kBegin) || name.ends_with(kGone) || name.ends_with(kAside)) continue;
    std::error_code none;
    const auto time = fs::last_write_time(each->path() / kManifestFile, none);
    if (!none) found.push_back({step_of(name), time, name});
  }
  // A training that went back and came to the same step again has two of it.
  std::ranges::sort(found, std::ranges::greater{}, [](const Found& each) {
    return std::tuple{each.step, each.time, each.name};
  });
  std::vector<std::string> names;
  for (Found& each : found) names.push_back(std::move(each.name));
  return names;
}

std::vector<std::string> later_in(const fs::path& folder, const std::string& name) {
  std::vector<std::string> names = complete_in(folder);
  std::erase_if(names, [&name](const std::string& each) { return step_of(each) <= step_of(name); });
  return names;
}

void remove_incomplete(const fs::path& folder) {
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator each{folder, error}; !error && each != fs::directory_iterator{}; each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(kBegin) || name.ends_with(kAside)) continue;
    if (name.ends_with(kGone) || !fs::exists(each->path() / kManifestFile)) left.push_back(each->path());
  }
  for (const fs::path& each : left) fs::remove_all(each, error);
}

Result<std::string> set_aside(const fs::path& folder, const std::string& name) {
  std::string aside = name + std::string{kAside};
  std::error_code error;
  fs::rename(folder / name, folder / aside, error);
  if (error) return disk_error("setting " + (folder / name).string() + " aside", error.value());
  PHAROS_TRY_VOID(sync_folder(folder));
  return aside;
}

Result<void> remove_checkpoint(const fs::path& folder, const std::string& name) {
  const fs::path gone = folder / (name + std::string{kGone});
  std::error_code error;
  fs::rename(folder / name, gone, error);
  if (!error) fs::remove_all(gone, error);
  if (error) return disk_error("removing " + (folder / name).string(), error.value());
  return {};
}

Result<Manifest> read_manifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifestFile;
  PHAROS_TRY(const std::string text, read_text(path));
  auto manifest = parse_manifest(text);
  if (!manifest) return std::move(manifest).error().with(path.string());
  return manifest;
}

}  // namespace pharos::ml
