#include "search.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace pharos::ml::xgboost {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInPackage = "xgboost/lib/libxgboost.so";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string{} : value;
}

void add_if_there(const fs::path& file, std::vector<std::string>& places) {
  std::error_code failure;
  if (fs::exists(file, failure)) places.push_back(file);
}

/// Adds the libraries that pip has installed in `prefix`/lib/python3.*/`packages`, those of the newest Python first.
void add_packages(const fs::path& prefix, std::string_view packages, std::vector<std::string>& places) {
  std::error_code failure;
  std::vector<std::string> pythons;
  for (const auto& each : fs::directory_iterator{prefix / "lib", failure}) {
    if (each.path().filename().string().starts_with("python3")) pythons.push_back(each.path());
  }
  std::sort(pythons.begin(), pythons.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a > b;  // 3.11 is newer than 3.9
  });
  for (const auto& python : pythons) add_if_there(fs::path{python} / packages / kInPackage, places);
}

}  // namespace

std::vector<std::string> places_to_look() {
  if (std::string named = variable("PHAROS_XGBOOST"); !named.empty()) return {named};
  std::vector<std::string> places{"libxgboost.so.0", "libxgboost.so"};
  for (const char* const active : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const fs::path prefix = variable(active);
    if (prefix.empty()) continue;
    add_packages(prefix, "site-packages", places);
    add_if_there(prefix / "lib/libxgboost.so", places);
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    add_packages(fs::path{home} / ".local", "site-packages", places);
  }
  add_packages("/usr/local", "dist-packages", places);
  add_packages("/usr/local", "site-packages", places);
  return places;
}

}  // namespace pharos::ml::xgboost
