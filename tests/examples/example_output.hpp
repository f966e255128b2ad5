#pragma once

#include <cstdlib>
#include <string>
#include <vector>

namespace pharos::cluster::examples {

/// The numbers that follow `text`, in all lines that have it.
inline std::vector<double> numbers_after(const std::string& text, const std::string& output) {
  std::vector<double> numbers;
  for (std::size_t at = 0; (at = output.find(text, at)) != std::string::npos;) {
    at += text.size();
    numbers.push_back(std::strtod(output.c_str() + at, nullptr));
  }
  return numbers;
}

}  // namespace pharos::cluster::examples
