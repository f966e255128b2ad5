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

  /// Shows all who wait, in order. Those for whom `goes_first(demand, who)` is true are put before all others, behind
  /// those for whom it was true earlier.
  template <class GoesFirst>
  void put_first_if(GoesFirst goes_first) {
    std::map<std::uint64_t, Place> next;  // the next one of each line, by number
    for (auto line = lines_.begin(); line != lines_.end(); ++line)
      next.emplace(line->second.front().number, Place{line, 0});
    std::vector<std::pair<typename Lines::iterator, std::uint64_t>> first;  // and their numbers
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
  /// Whether it is so of anybody who waits.
  template <class Is>
  bool any_of(Is is) const {
    return std::any_of(lines_.begin(), lines_.end(), [&](const auto& line) {
      return std::any_of(line.second.begin(), line.second.end(), [&](const Waiting& each) { return is(each.who); });
    });
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
  using Line = std::deque<Waiting>;  // by number
  using Lines = std::map<Resources, Line>;
  using Place = std::pair<typename Lines::iterator, std::size_t>;

  static constexpr std::uint64_t kFirstNumber = std::uint64_t{1} << 62;  // those below are of who was put first

  /// Finds the first one whose number is not below this.
  static typename Line::iterator place_of(Line& line, std::uint64_t number) {
    return std::lower_bound(line.begin(), line.end(), number,
                            [](const Waiting& each, std::uint64_t sought) { return each.number < sought; });
  }

  Lines lines_;  // none is empty
  std::uint64_t last_number_ = kFirstNumber;
  std::uint64_t last_first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace pharos::scheduler
