#pragma once

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace pharos::ml {

using Json = nlohmann::json;

/// Reads a JSON file of tests/tune/data.
inline Json recorded(const std::string& name) {
  std::ifstream file{std::string{ROOT} + "/tests/tune/data/" + name};
  return Json::parse(file);
}

}  // namespace pharos::ml
