#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/byte_count.hpp>

namespace pharos::storage {

/// Puts and deletes that are applied together or not at all, in the order in which they were added: of two changes of
/// one key the later one stands. A value; keys and values are any bytes, the empty string included.
class Batch {
 public:
  struct Change {
    std::string key;
    std::optional<std::string> value;  ///< none: the key is deleted
  };

  Batch& put(std::string key, std::string value) { return add({std::move(key), std::move(value)}); }
  /// Deleting what is not there is no error.
  Batch& erase(std::string key) { return add({std::move(key), std::nullopt}); }

  const std::vector<Change>& changes() const { return changes_; }
  bool empty() const { return changes_.empty(); }
  /// Of all keys and values.
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
