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

/// Those who wait for resources, in the order in which they came. Who asks for the same waits in the same line, so that
/// however many wait, only the first of each kind is looked at.
template <class Who>
class WaitingLine {
 public:
  void push(const Resources& demand, Who who) {
    lines_[demand].push_back({++last_number_, std::move(who)});
    ++size_;
  }

  /// Offers each a turn, in order. One whose `turn(demand, who)` is true is served; else those behind it that ask for
  /// the same have no turn, and what it may set aside for it is the caller's to know.
  template <class Turn>
  void serve(Turn turn) {
    std::map<std::uint64_t, typename Lines::iterator> next;  // the first of each line, by number
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

  /// `leaves(demand, who)`.
  template <class Leaves>
  void erase_if(Leaves leaves) {
    for (auto line = lines_.begin(); line != lines_.end();) {
      size_ -= std::erase_if(line->second, [&](const Waiting& waiting) { return leaves(line->first, waiting.who); });
      line = line->second.empty() ? lines_.erase(line) : std::next(line);
    }
  }

  /// How many wait for each demand: the longest lines first, no more than so many.
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
  using Lines = std::map<Resources, std::deque<Waiting>>;

  Lines lines_;  // none is empty
  std::uint64_t last_number_ = 0;
  std::size_t size_ = 0;
};

}  // namespace pharos::scheduler
