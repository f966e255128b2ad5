#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include <pharos/actors/cell_handle.hpp>

namespace pharos::actors {

/// The calls of one connection that were sent and have no reply, by number. Numbers follow each other. Owned by an
/// OutgoingCalls, whose mutex guards it. End: the destructor drops the calls that are left, and their results would
/// stay pending for ever. So the owner takes all calls first and fails them.
class SentCalls {
 public:
  /// The first call gets this number.
  explicit SentCalls(std::uint64_t first) : first_{first} {}

  /// Returns the number that the next call gets.
  std::uint64_t next() const { return first_ + calls_.size(); }
  void add(detail::CellHandle cell) { calls_.push_back(std::move(cell)); }
  /// Removes and returns the cell that waits for the reply of this number; an empty handle if none does.
  detail::CellHandle take(std::uint64_t number);
  /// Removes the cells that wait for the replies of these numbers, and adds them to `to`. Returns how many they are.
  /// The numbers may be anything.
  std::size_t take_range(std::uint64_t first, std::uint64_t last, std::vector<detail::CellHandle>& to);
  std::optional<std::uint64_t> number_of(const detail::ResultCell& cell) const;
  /// Returns whether a cell waits for the reply of this number, which may be anything.
  bool has(std::uint64_t number) const;
  /// Returns a number below which every call has been answered.
  std::uint64_t all_answered_below() const { return slow_.empty() ? first_ : slow_.begin()->first; }
  /// Returns all calls, by number. Later calls come into this list, too, when they turn out to be slow.
  const std::map<std::uint64_t, detail::CellHandle>& by_number();
  /// Removes and returns all calls, in their order.
  std::vector<detail::CellHandle> take_all();
  /// Saves memory when most calls of a long range have been answered, but its first call has not. `count` is the number
  /// of calls that wait here or elsewhere.
  void set_slow_aside(std::size_t count);

 private:
  std::uint64_t first_;
  std::deque<detail::CellHandle> calls_;  // by number from first_ on; empty once answered
  // The cells of slow calls, by number; moved out of calls_ so that it does not grow.
  std::map<std::uint64_t, detail::CellHandle> slow_;
};

}  // namespace pharos::actors
