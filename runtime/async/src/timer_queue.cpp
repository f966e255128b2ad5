#include <algorithm>
#include <utility>

#include <pharos/async/timer_queue.hpp>

namespace pharos::async {

bool TimerQueue::later(const Entry& a, const Entry& b) {
  return std::pair{a.when, a.timer} > std::pair{b.when, b.timer};
}

TimerId TimerQueue::add(TimePoint when, Callback work) {
  const TimerId timer{++last_};
  work_.emplace(timer, std::move(work));
  heap_.push_back({when, timer});
  std::push_heap(heap_.begin(), heap_.end(), later);
  return timer;
}

Callback TimerQueue::cancel(TimerId timer) {
  const auto found = work_.find(timer);
  if (found == work_.end()) return {};
  Callback work = std::move(found->second);
  work_.erase(found);
  drop_cancelled();
  return work;
}

std::optional<TimePoint> TimerQueue::next() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front().when;
}

Callback TimerQueue::take_due(TimePoint now) {
  if (heap_.empty() || heap_.front().when > now) return {};
  auto found = work_.find(heap_.front().timer);
  Callback work = std::move(found->second);
  work_.erase(found);
  pop();
  drop_cancelled();
  return work;
}

void TimerQueue::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  heap_.pop_back();
}

void TimerQueue::drop_cancelled() {
  const auto cancelled = [this](const Entry& entry) { return !work_.contains(entry.timer); };
  if (heap_.size() > 2 * work_.size()) {
    std::erase_if(heap_, cancelled);
    std::make_heap(heap_.begin(), heap_.end(), later);
  }
  while (!heap_.empty() && cancelled(heap_.front())) pop();
}

}  // namespace pharos::async
