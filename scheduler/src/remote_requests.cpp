#include <algorithm>
#include <utility>

#include <pharos/scheduler/remote_requests.hpp>

namespace pharos::scheduler {

void RemoteRequests::add(const Demand& demand, LeaseRequestId request) {
  Line& line = lines_[demand];
  if (line.waiting.size() >= line.look_through_at) {
    std::erase_if(line.waiting, [this](LeaseRequestId each) { return !waits_(each); });
    line.look_through_at = std::max<std::size_t>(64, 2 * line.waiting.size());
  }
  line.waiting.push_back(request);
}

std::optional<LeaseRequestId> RemoteRequests::next() {
  for (std::size_t left = lines_.size(); left > 0 && asked_.size() < kAskedMax; --left) {
    auto turn = last_ ? lines_.upper_bound(*last_) : lines_.begin();
    if (turn == lines_.end()) turn = lines_.begin();
    auto& [demand, line] = *turn;
    last_ = demand;
    while (!line.waiting.empty() && !waits_(line.waiting.front())) line.waiting.pop_front();
    if (line.waiting.empty() && line.asked == 0) {
      lines_.erase(turn);
      continue;
    }
    if (!may_ask(line)) continue;
    if (line.found_none) ++again_;
    line.last_round = round_;
    const LeaseRequestId request = line.waiting.front();
    line.waiting.pop_front();
    ++line.asked;
    asked_.emplace(request, demand);
    return request;
  }
  return std::nullopt;
}

bool RemoteRequests::may_ask(const Line& line) const {
  if (line.waiting.empty() || line.asked >= line.asked_max) return false;
  return !line.found_none || (line.last_round != round_ && again_ < kAgainMax);
}

void RemoteRequests::found_room(LeaseRequestId request) {
  if (Line* const line = answered(request)) {
    line->asked_max = kAskedMax;
    line->found_none = false;
  }
}

void RemoteRequests::found_none(LeaseRequestId request) {
  if (Line* const line = answered(request)) {
    line->waiting.push_front(request);
    line->asked_max = 1;
    line->found_none = true;
  }
}

void RemoteRequests::forget(LeaseRequestId request) {
  answered(request);
}

RemoteRequests::Line* RemoteRequests::answered(LeaseRequestId request) {
  const auto asked = asked_.extract(request);
  if (asked.empty()) return nullptr;
  Line& line = lines_.at(asked.mapped());
  --line.asked;
  return &line;
}

std::size_t RemoteRequests::kept() const {
  std::size_t all = 0;
  for (const auto& [demand, line] : lines_) all += line.waiting.size();
  return all;
}

void RemoteRequests::begin_round() {
  ++round_;
  again_ = 0;
}

}  // namespace pharos::scheduler
