#pragma once

#include <cstdlib>
#include <string>
#include <vector>

namespace pharos::cluster::examples {

/// Returns the numbers that follow `text`, at each place where `text` occurs.
inline std::vector<double> numbers_after(const std::string& text, const std::string& output) {
  std::vector<double> numbers;
  for (std::size_t at = 0; (at = output.find(text, at)) != std::string::npos;) {
    at += text.size();
    numbers.push_back(std::strtod(output.c_str() + at, nullptr));
  }
  return numbers;
}

}  // namespace pharos::cluster::examples
