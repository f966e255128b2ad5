#include <algorithm>
#include <iterator>

#include <pharos/base/check.hpp>
#include <pharos/object_store/extents.hpp>

namespace pharos::object_store {

Extents::Extents(std::uint64_t length) : length_{length}, free_{length} {
  if (length != 0) stretches_.emplace(0, length);
}

std::optional<std::uint64_t> Extents::take(std::uint64_t length) {
  PHAROS_CHECK(length != 0);
  auto best = stretches_.end();
  for (auto each = stretches_.begin(); each != stretches_.end(); ++each) {
    if (each->second >= length && (best == stretches_.end() || each->second < best->second)) best = each;
  }
  if (best == stretches_.end()) return std::nullopt;
  const auto [begin, found] = *best;
  stretches_.erase(best);
  if (found != length) stretches_.emplace(begin + length, found - length);
  free_ -= length;
  return begin;
}

void Extents::give_back(std::uint64_t begin, std::uint64_t length) {
  PHAROS_CHECK(length != 0 && begin <= length_ && length <= length_ - begin, begin, length, length_);
  auto next = stretches_.lower_bound(begin);
  PHAROS_CHECK(next == stretches_.end() || begin + length <= next->first, begin, length);
  free_ += length;
  if (next != stretches_.begin()) {
    const auto before = std::prev(next);
    PHAROS_CHECK(before->first + before->second <= begin, begin, length);
    if (before->first + before->second == begin) {
      begin = before->first;
      length += before->second;
      stretches_.erase(before);
    }
  }
  if (next != stretches_.end() && begin + length == next->first) {
    length += next->second;
    stretches_.erase(next);
  }
  stretches_.emplace(begin, length);
}

bool Extents::is_free(std::uint64_t begin, std::uint64_t length) const {
  const auto after = stretches_.upper_bound(begin);
  if (after == stretches_.begin()) return false;
  const auto& [first, found] = *std::prev(after);
  return begin + length <= first + found;
}

std::uint64_t Extents::longest_free() const {
  std::uint64_t longest = 0;
  for (const auto& [begin, length] : stretches_) longest = std::max(longest, length);
  return longest;
}

}  // namespace pharos::object_store
