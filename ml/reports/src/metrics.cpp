#include <algorithm>
#include <array>
#include <charconv>

#include <pharos/ml/metrics.hpp>

namespace pharos::ml {
namespace {

std::string text_of(double value) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

}  // namespace

const double* Metrics::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& each) { return each.first == name; });
  return found == entries_.end() ? nullptr : &found->second;
}

void Metrics::set(std::string_view name, double value) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& each) { return each.first == name; });
  if (found != entries_.end()) {
    found->second = value;
  } else {
    entries_.emplace_back(name, value);
  }
}

std::string Metrics::to_string() const {
  std::string text;
  for (const auto& [name, value] : entries_) {
    text += (text.empty() ? "" : " ") + name + (name.empty() ? "" : "=") + text_of(value);
  }
  return text;
}

}  // namespace pharos::ml
