#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include <pharos/actors/cell_handle.hpp>

#include "results/result_cell.hpp"

namespace pharos::actors {

/// The calls of one connection that are held back, in their order. They have no number yet. Calls that the present
/// worker has returned, because it is about to end, are in front: as long as there are any, nothing may be sent to it.
/// Owned by an OutgoingCalls, whose mutex guards it. The owner limits the number and the bytes of the calls.
/// End: the destructor drops the calls that are left, and their results would stay pending for ever. So the owner takes
/// all calls first and fails them.
class HeldCalls {
 public:
  bool empty() const { return calls_.empty(); }
  /// Returns the size of the arguments of all calls. Arguments that were not complete when their call came count as 0.
  std::size_t bytes() const { return bytes_; }
  void add(detail::CellHandle cell) { insert(calls_.end(), std::move(cell)); }
  /// Puts calls in front of all others.
  void add_in_front(std::vector<detail::CellHandle> cells);
  /// Puts a call behind those that were returned before it, and in front of all others.
  void add_returned(detail::CellHandle cell);
  /// Returns whether calls wait for the next worker.
  bool wait_for_next() const { return returned_ != 0; }
  /// The next worker has come.
  void note_next() { returned_ = 0; }
  bool contains(const detail::ResultCell& cell) const;
  /// Removes a call. Returns false if it is not held back.
  bool remove(const detail::ResultCell& cell);
  std::vector<detail::CellHandle> take_all();

  /// Passes calls to `send` and removes them: those up to the first one whose arguments are not complete, then the
  /// unordered ones behind it whose arguments are, as long as `has_room` says so. Returns false if a call has had no
  /// room.
  template <class HasRoom, class Send>
  bool send_ready(const HasRoom& has_room, const Send& send);

 private:
  struct Held {
    explicit Held(detail::CellHandle held) : cell{std::move(held)}, bytes{cell->arguments().size()} {}
    detail::CellHandle cell;
    std::size_t bytes;  // size of its arguments when it was held back
  };
  void insert(std::deque<Held>::iterator before, detail::CellHandle cell);
  std::deque<Held>::const_iterator find(const detail::ResultCell& cell) const;
  void note_gone(const Held& held);

  std::deque<Held> calls_;
  std::size_t bytes_ = 0;      // sum over calls_
  std::size_t unordered_ = 0;  // number of unordered calls in calls_
  std::size_t returned_ = 0;   // calls at the front that wait for the next worker
};

template <class HasRoom, class Send>
bool HeldCalls::send_ready(const HasRoom& has_room, const Send& send) {
  while (!calls_.empty() && !calls_.front().cell->call().awaits_arguments()) {
    if (!has_room()) return false;
    note_gone(calls_.front());
    detail::CellHandle cell = std::move(calls_.front().cell);
    calls_.pop_front();
    send(std::move(cell));
  }
  if (unordered_ == 0) return true;
  bool all_had_room = true;
  std::erase_if(calls_, [&](Held& held) {
    if (!held.cell->call().unordered || held.cell->call().awaits_arguments()) return false;
    all_had_room = all_had_room && has_room();
    if (!all_had_room) return false;
    note_gone(held);
    send(held.cell);
    return true;
  });
  return all_had_room;
}

}  // namespace pharos::actors
