#pragma once

#include <string>

namespace pharos::storage {

/// One pair of a store. A plain value.
struct KeyValue {
  std::string key;
  std::string value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

}  // namespace pharos::storage
