#include "caller/sent_calls.hpp"

#include <algorithm>
#include <utility>

namespace pharos::actors {
namespace {

using detail::CellHandle;
using detail::ResultCell;

// calls_ covers a range of numbers, which grows while one slow call stays in it: an actor's coroutine may wait for
// days. A range of at least this length, most of which is answered, is cleared, and its calls are set aside.
constexpr std::size_t kRangeMax = 1024;

}  // namespace

CellHandle SentCalls::take(std::uint64_t number) {
  if (number < first_) [[unlikely]] {
    const auto slow = slow_.find(number);
    if (slow == slow_.end()) return {};
    return std::move(slow_.extract(slow).mapped());
  }
  if (number - first_ >= calls_.size()) return {};
  CellHandle cell = std::move(calls_[number - first_]);
  while (!calls_.empty() && !calls_.front()) {
    calls_.pop_front();
    ++first_;
  }
  return cell;
}

std::size_t SentCalls::take_range(std::uint64_t first, std::uint64_t last, std::vector<CellHandle>& to) {
  const std::size_t before = to.size();
  const std::uint64_t end = std::min(last + 1, next());
  for (std::uint64_t number = std::max(first, all_answered_below()); number < end; ++number) {
    if (CellHandle cell = take(number)) to.push_back(std::move(cell));
  }
  return to.size() - before;
}

bool SentCalls::has(std::uint64_t number) const {
  if (number < first_) return slow_.contains(number);
  return number - first_ < calls_.size() && calls_[number - first_];
}

std::optional<std::uint64_t> SentCalls::number_of(const ResultCell& cell) const {
  const auto sent =
      std::find_if(calls_.begin(), calls_.end(), [&](const auto& each) { return each && &*each == &cell; });
  if (sent != calls_.end()) return first_ + static_cast<std::uint64_t>(sent - calls_.begin());
  const auto slow = std::find_if(slow_.begin(), slow_.end(), [&](const auto& each) { return &*each.second == &cell; });
  return slow == slow_.end() ? std::nullopt : std::optional{slow->first};
}

const std::map<std::uint64_t, CellHandle>& SentCalls::by_number() {
  for (CellHandle& cell : calls_) {
    if (cell) slow_.emplace(first_, std::move(cell));
    ++first_;
  }
  calls_.clear();
  return slow_;
}

std::vector<CellHandle> SentCalls::take_all() {
  by_number();
  std::vector<CellHandle> all;
  for (auto& [number, cell] : slow_) all.push_back(std::move(cell));
  slow_.clear();
  return all;
}

void SentCalls::set_slow_aside(std::size_t count) {
  if (calls_.size() >= kRangeMax && count - slow_.size() < calls_.size() / 4) by_number();
}

}  // namespace pharos::actors
