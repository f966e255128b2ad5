#include <algorithm>
#include <cstddef>
#include <numeric>

#include <pharos/ml/similar_name.hpp>

namespace pharos::ml {
namespace {

constexpr std::size_t kAbbreviationMin = 3;  // letters

/// The number of letters that have to be added, removed or replaced to make one name of the other (Levenshtein).
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);  // distances of the letters of `one` so far from each beginning
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// Returns true if all letters of `brief` come in `whole`, in that order and from its first letter on.
bool abbreviates(std::string_view brief, std::string_view whole) {
  if (brief.size() < kAbbreviationMin || brief.front() != whole.front()) return false;
  for (const char letter : whole) {
    if (!brief.empty() && brief.front() == letter) brief.remove_prefix(1);
  }
  return brief.empty();
}

}  // namespace

std::optional<std::string> similar_name(std::string_view asked, const std::vector<std::string>& names) {
  std::optional<std::string> found;
  std::size_t least = 0;
  for (const std::string& each : names) {
    if (each.empty() || asked.empty()) continue;
    const std::size_t differs = distance(asked, each);
    const bool is_similar = 3 * differs <= std::max(asked.size(), each.size()) || abbreviates(asked, each);
    if (!is_similar || (found && differs >= least)) continue;
    found = each;
    least = differs;
  }
  return found;
}

}  // namespace pharos::ml
