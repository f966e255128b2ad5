#pragma once

#include <algorithm>
#include <string_view>

namespace pharos::scheduler {

constexpr std::size_t kNameBytesMax = 64;
constexpr const char* kNameRule = "a name has 1 to 64 letters, digits, or one of _-.:/";

/// Returns whether the text is a valid name of a resource or of a label, or a valid value of a label.
inline bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view{"_-.:/"}.find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= kNameBytesMax && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace pharos::scheduler
