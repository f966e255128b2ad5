#include "store/pull_queue.hpp"

#include <algorithm>
#include <utility>

namespace pharos::node {

PullQueue::Aside::Aside(PullQueue& queue, NodeId origin) : queue_{queue}, origin_{origin} {
  ++queue_.aside_[origin_];
  --queue_.under_way_;
}

PullQueue::Aside::~Aside() {
  if (--queue_.aside_[origin_] == 0) queue_.aside_.erase(origin_);
  ++queue_.under_way_;
}

void PullQueue::add(Pull pull, Urgency urgency) {
  (urgency == Urgency::kAhead ? ahead_ : waited_for_).push_back(std::move(pull));
}

bool PullQueue::hurry(const object_store::Place& here) {
  const auto pull =
      std::find_if(ahead_.begin(), ahead_.end(), [&](const Pull& each) { return each.body.location.place == here; });
  if (pull == ahead_.end()) return false;
  waited_for_.push_back(std::move(*pull));
  ahead_.erase(pull);
  return true;
}

std::optional<PullQueue::Pull> PullQueue::next() {
  std::optional<Pull> pull;
  if (under_way_ < kAtOnce) pull = next_of(waited_for_);
  if (!pull && under_way_ < kAheadAtOnce) pull = next_of(ahead_);
  if (pull) ++under_way_;
  return pull;
}

std::optional<PullQueue::Pull> PullQueue::next_of(std::deque<Pull>& pulls) {
  const auto first =
      std::find_if(pulls.begin(), pulls.end(), [this](const Pull& each) { return !aside_.contains(each.origin); });
  if (first == pulls.end()) return std::nullopt;
  std::optional<Pull> pull{std::move(*first)};
  pulls.erase(first);
  return pull;
}

}  // namespace pharos::node
