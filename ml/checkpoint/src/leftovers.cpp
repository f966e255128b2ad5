#include "leftovers.hpp"

#include <optional>
#include <utility>

#include "folder.hpp"

namespace pharos::ml {

Leftovers::Leftovers(std::filesystem::path folder) : folder_{std::move(folder)} {
  known_.reserve(kKnownMax);
}

void Leftovers::expect(const std::string& name) {
  const std::lock_guard lock{mutex_};
  if (!has_looked_) expected_.insert(name);
}

void Leftovers::add(std::string name) {
  const std::lock_guard lock{mutex_};
  if (known_.size() == known_.capacity()) known_.erase(known_.begin());
  known_.push_back(std::move(name));
}

Result<void> Leftovers::remove_all() {
  PHAROS_TRY_VOID(look());
  std::vector<std::string> names;
  {
    const std::lock_guard lock{mutex_};
    names = known_;
  }
  std::optional<Error> failed;
  for (const std::string& each : names) {
    const auto removed = remove_checkpoint(folder_, each);
    if (!removed && !failed) failed = removed.error();
  }
  const std::lock_guard lock{mutex_};
  if (known_.size() > kKnownMax) {
    known_.erase(known_.begin(), known_.end() - static_cast<std::ptrdiff_t>(kKnownMax));
  }
  if (failed) return *failed;
  return {};
}

Result<void> Leftovers::look() {
  {
    const std::lock_guard lock{mutex_};
    if (has_looked_) return {};
  }
  PHAROS_TRY(const std::vector<std::string> found, incomplete_in(folder_));
  const std::lock_guard lock{mutex_};
  for (const std::string& each : found) {
    if (!expected_.contains(each)) known_.push_back(each);
  }
  expected_.clear();
  has_looked_ = true;
  return {};
}

}  // namespace pharos::ml
