#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace pharos::ml::xgboost {

/// Returns the JSON text that tells XGBoost where an array lies in memory. `columns` is 0 for an array of one
/// dimension, else a divisor of the size. The numbers must stay where they are as long as XGBoost may read them.
inline std::string array_interface(std::span<const float> numbers, std::size_t columns) {
  const std::string shape = columns == 0 ? std::to_string(numbers.size())
                                         : std::to_string(numbers.size() / columns) + ", " + std::to_string(columns);
  return R"({"data": [)" + std::to_string(reinterpret_cast<std::uintptr_t>(numbers.data())) + R"(, true], "shape": [)" +
         shape + R"(], "strides": null, "typestr": "<f4", "version": 3})";
}

}  // namespace pharos::ml::xgboost
