#include <pharos/base/check.hpp>
#include <pharos/scheduler/hand_overs.hpp>

namespace pharos::scheduler {

// A slow worker gets no more sockets: the ones on their way to it are enough to show that it takes sockets again.
bool HandOvers::has_room_for(const Worker& worker) const {
  return !worker.slow && worker.under_way < kOfWorkerMax && under_way_ < kUnderWayMax;
}

void HandOvers::begin(Worker& worker, TimePoint now) {
  if (worker.under_way++ == 0) worker.since = now;
  ++under_way_;
}

HandOvers::Turn HandOvers::add(WorkerId worker, std::uint64_t number, TimePoint now) {
  Worker& to = workers_[worker];
  if (to.line.empty() && has_room_for(to)) {
    begin(to, now);
    return Turn::kNow;
  }
  if (waiting_ >= kWaitingMax) {
    if (to.under_way == 0 && to.line.empty()) workers_.erase(worker);
    return Turn::kRefused;
  }
  to.line.emplace_back(++last_place_, number);
  ++waiting_;
  return Turn::kLater;
}

std::vector<std::uint64_t> HandOvers::taken(WorkerId worker, TimePoint now) {
  const auto found = workers_.find(worker);
  PHAROS_CHECK(found != workers_.end() && found->second.under_way > 0, worker);
  Worker& by = found->second;
  if (by.slow) {
    by.slow = false;
    under_way_ += by.under_way;
  }
  --by.under_way;
  --under_way_;
  by.since = now;
  if (by.under_way == 0 && by.line.empty()) workers_.erase(found);
  return begin_those_that_may(now);
}

std::vector<std::uint64_t> HandOvers::tick(TimePoint now) {
  for (auto& [id, worker] : workers_) {
    if (worker.slow || worker.under_way == 0 || now - worker.since < kSlowTime) continue;
    worker.slow = true;
    under_way_ -= worker.under_way;
  }
  return begin_those_that_may(now);
}

std::vector<std::uint64_t> HandOvers::begin_those_that_may(TimePoint now) {
  std::vector<std::uint64_t> may;
  while (waiting_ != 0) {
    Worker* next = nullptr;
    for (auto& [id, worker] : workers_) {
      const bool can = !worker.line.empty() && has_room_for(worker);
      if (can && (next == nullptr || worker.line.front().first < next->line.front().first)) next = &worker;
    }
    if (next == nullptr) break;
    may.push_back(next->line.front().second);
    next->line.pop_front();
    --waiting_;
    begin(*next, now);
  }
  return may;
}

}  // namespace pharos::scheduler
