#include "order.hpp"

#include <algorithm>
#include <utility>

namespace pharos::simulated {

void Clock::join(const Clock& other) {
  if (pieces_.size() < other.pieces_.size()) pieces_.resize(other.pieces_.size());
  for (std::size_t i = 0; i < other.pieces_.size(); ++i) pieces_[i] = std::max(pieces_[i], other.pieces_[i]);
}

std::uint64_t Clock::advance(QueueNumber queue) {
  if (pieces_.size() <= queue) pieces_.resize(queue + 1);
  return ++pieces_[queue];
}

QueueNumber OrderChecker::add_queue() {
  const std::lock_guard lock{mutex_};
  clocks_.emplace_back();
  return clocks_.size() - 1;
}

OrderChecker::Piece OrderChecker::begin(QueueNumber queue) {
  const std::lock_guard lock{mutex_};
  join_host(queue);
  return {queue, clocks_[queue].advance(queue)};
}

void OrderChecker::check(const Clock& known, const AccessLog& log, const AccessLog::Access& access) {
  for (const auto& earlier : log.accesses) {
    const bool overlap = earlier.from < access.to && access.from < earlier.to;
    if (!overlap || !(earlier.writes || access.writes) || known.covers(earlier.queue, earlier.piece)) continue;
    reports_.push_back(access.name + (access.writes ? " writes" : " reads") + " what " + earlier.name +
                       (earlier.writes ? " writes" : " reads") + " on another stream, and nothing orders the two");
  }
}

void OrderChecker::note(const Piece& piece, AccessLog& log, std::size_t from, std::size_t to, bool writes,
                        const std::string& name) {
  const std::lock_guard lock{mutex_};
  const AccessLog::Access access{from, to, piece.queue, piece.number, writes, name};
  check(clocks_[piece.queue], log, access);
  // Whoever comes after this access comes also after those that it replaces.
  std::erase_if(log.accesses, [&](const AccessLog::Access& earlier) {
    const bool inside = from <= earlier.from && earlier.to <= to;
    return inside && (writes || (!earlier.writes && earlier.queue == piece.queue));
  });
  log.accesses.push_back(access);
}

void OrderChecker::note_free(QueueNumber queue, const std::vector<QueueNumber>& users, AccessLog& log,
                             std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  join_host(queue);
  Clock known = clocks_[queue];
  for (const QueueNumber user : users) known.join(clocks_[user]);
  check(known, log, {0, bytes, queue, 0, true, "freeing"});
  log.accesses.clear();
  // Memory that no other stream uses comes back to its own queue at once, so the next use must come after this one.
  if (users.empty()) log.accesses.push_back({0, bytes, queue, clocks_[queue].advance(queue), true, "freeing"});
}

Clock OrderChecker::now(QueueNumber queue) {
  const std::lock_guard lock{mutex_};
  join_host(queue);
  return clocks_[queue];
}

void OrderChecker::wait(QueueNumber queue, const Clock& event) {
  const std::lock_guard lock{mutex_};
  clocks_[queue].join(event);
}

void OrderChecker::host_waited(const Clock& for_what) {
  const std::lock_guard lock{mutex_};
  host_.join(for_what);
}

std::vector<std::string> OrderChecker::take_reports() {
  const std::lock_guard lock{mutex_};
  return std::exchange(reports_, {});
}

OrderChecker& order() {
  static auto& checker = *new OrderChecker;
  return checker;
}

}  // namespace pharos::simulated
