#include "results/uncounted_holds.hpp"

#include <algorithm>
#include <iterator>

#include <pharos/base/check.hpp>

namespace pharos::actors {

std::uint64_t UncountedHolds::add() {
  const std::lock_guard lock{mutex_};
  numbers_.insert(++last_);
  count_.store(numbers_.size(), std::memory_order_release);
  return last_;
}

void UncountedHolds::counted(std::uint64_t number) {
  std::vector<std::pair<std::uint64_t, async::Callback>> ready;
  {
    const std::lock_guard lock{mutex_};
    PHAROS_CHECK(numbers_.erase(number) == 1, number);
    count_.store(numbers_.size(), std::memory_order_release);
    const auto first_left = std::find_if(waiting_.begin(), waiting_.end(), [this](const auto& each) {
      return !numbers_.empty() && *numbers_.begin() <= each.first;
    });
    ready.assign(std::move_iterator{waiting_.begin()}, std::move_iterator{first_left});
    waiting_.erase(waiting_.begin(), first_left);
  }
  for (auto& [last, then] : ready) then();
}

void UncountedHolds::when_counted(async::Callback then) {
  {
    const std::lock_guard lock{mutex_};
    if (!numbers_.empty()) {
      waiting_.emplace_back(last_, std::move(then));
      return;
    }
  }
  then();
}

}  // namespace pharos::actors
