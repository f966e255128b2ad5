#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/byte_count.hpp>

namespace pharos::storage {

/// Puts and deletes that are applied all together or not at all. They are applied in the order in which they were
/// added, so that the last change of a key counts. A plain value. Keys and values may be any bytes, including empty
/// strings.
class Batch {
 public:
  struct Change {
    std::string key;
    std::optional<std::string> value;  ///< nullopt deletes the key
  };

  Batch& put(std::string key, std::string value) { return add({std::move(key), std::move(value)}); }
  /// Deleting a key that does not exist is not an error.
  Batch& erase(std::string key) { return add({std::move(key), std::nullopt}); }

  const std::vector<Change>& changes() const { return changes_; }
  bool empty() const { return changes_.empty(); }
  /// The size of all keys and values together.
  ByteCount bytes() const { return bytes_; }

 private:
  Batch& add(Change change) {
    bytes_ = bytes_ + ByteCount{change.key.size() + (change.value ? change.value->size() : 0)};
    changes_.push_back(std::move(change));
    return *this;
  }

  std::vector<Change> changes_;
  ByteCount bytes_;
};

}  // namespace pharos::storage
