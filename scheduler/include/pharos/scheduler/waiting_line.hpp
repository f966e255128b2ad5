#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <pharos/scheduler/resources.hpp>

namespace pharos::scheduler {

/// A queue of requests for resources, in the order in which they came. Requests for the same amounts share one line, so
/// that a look at the queue examines only the first request of each line, however many wait.
/// Owned by Leases, which limits the length; not thread-safe. The functions that are passed in must not use the queue.
template <class Who>
class WaitingLine {
 public:
  void push(const Resources& demand, Who who) {
    lines_[demand].push_back({++last_number_, std::move(who)});
    ++size_;
  }

  /// Calls `goes_first(demand, who)` for all that wait, in order. Those for which it returns true move to the front of
  /// the queue, behind those that moved there earlier.
  template <class GoesFirst>
  void put_first_if(GoesFirst goes_first) {
    std::map<std::uint64_t, Place> next;  // the next request of each line, by number
    for (auto line = lines_.begin(); line != lines_.end(); ++line)
      next.emplace(line->second.front().number, Place{line, 0});
    std::vector<std::pair<typename Lines::iterator, std::uint64_t>> first;  // with the number of each
    while (!next.empty()) {
      const auto [line, at] = next.extract(next.begin()).mapped();
      if (goes_first(line->first, line->second[at].who)) first.emplace_back(line, line->second[at].number);
      if (at + 1 < line->second.size()) next.emplace(line->second[at + 1].number, Place{line, at + 1});
    }
    for (const auto& [line, number] : first) {
      const auto found = place_of(line->second, number);
      Waiting waiting{++last_first_, std::move(found->who)};
      line->second.erase(found);
      line->second.insert(place_of(line->second, waiting.number), std::move(waiting));
    }
  }
  /// Returns whether `is(who)` is true for any that waits.
  template <class Is>
  bool any_of(Is is) const {
    return std::any_of(lines_.begin(), lines_.end(), [&](const auto& line) {
      return std::any_of(line.second.begin(), line.second.end(), [&](const Waiting& each) { return is(each.who); });
    });
  }

  /// Calls `turn(demand, who)` for those that wait, in order. If `turn` returns true, the request is served and
  /// removed. If `turn` returns false, the requests behind it in the same line are skipped. `turn` itself must keep
  /// count of what it sets aside for a request that is not served.
  template <class Turn>
  void serve(Turn turn) {
    std::map<std::uint64_t, typename Lines::iterator> next;  // the first request of each line, by number
    for (auto line = lines_.begin(); line != lines_.end(); ++line) next.emplace(line->second.front().number, line);
    while (!next.empty()) {
      const auto line = next.extract(next.begin()).mapped();
      if (!turn(line->first, line->second.front().who)) continue;
      line->second.pop_front();
      --size_;
      if (line->second.empty()) {
        lines_.erase(line);
      } else {
        next.emplace(line->second.front().number, line);
      }
    }
  }

  /// Removes all for which `leaves(demand, who)` is true.
  template <class Leaves>
  void erase_if(Leaves leaves) {
    for (auto line = lines_.begin(); line != lines_.end();) {
      size_ -= std::erase_if(line->second, [&](const Waiting& waiting) { return leaves(line->first, waiting.who); });
      line = line->second.empty() ? lines_.erase(line) : std::next(line);
    }
  }

  /// Returns how many wait for each demand: at most `max` lines, the longest first.
  std::vector<std::pair<Resources, std::size_t>> longest(std::size_t max) const {
    std::vector<std::pair<Resources, std::size_t>> all;
    for (const auto& [demand, line] : lines_) all.emplace_back(demand, line.size());
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    all.resize(std::min(all.size(), max));
    return all;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Waiting {
    std::uint64_t number;
    Who who;
  };
  using Line = std::deque<Waiting>;  // sorted by number
  using Lines = std::map<Resources, Line>;
  using Place = std::pair<typename Lines::iterator, std::size_t>;

  // Requests that were moved to the front have smaller numbers.
  static constexpr std::uint64_t kFirstNumber = std::uint64_t{1} << 62;

  /// Returns the first request whose number is not below `number`.
  static typename Line::iterator place_of(Line& line, std::uint64_t number) {
    return std::lower_bound(line.begin(), line.end(), number,
                            [](const Waiting& each, std::uint64_t sought) { return each.number < sought; });
  }

  Lines lines_;  // no line is empty
  std::uint64_t last_number_ = kFirstNumber;
  std::uint64_t last_first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace pharos::scheduler
