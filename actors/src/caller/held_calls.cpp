#include "caller/held_calls.hpp"

#include <algorithm>
#include <utility>

namespace pharos::actors {

using detail::CellHandle;
using detail::ResultCell;

void HeldCalls::insert(std::deque<Held>::iterator before, CellHandle cell) {
  if (cell->call().unordered) ++unordered_;
  bytes_ += calls_.emplace(before, std::move(cell))->bytes;
}

// Must be called when a call is about to leave calls_.
void HeldCalls::note_gone(const Held& held) {
  if (held.cell->call().unordered) --unordered_;
  bytes_ -= held.bytes;
}

void HeldCalls::add_in_front(std::vector<CellHandle> cells) {
  for (auto cell = cells.rbegin(); cell != cells.rend(); ++cell) insert(calls_.begin(), std::move(*cell));
}

void HeldCalls::add_returned(CellHandle cell) {
  insert(calls_.begin() + static_cast<std::ptrdiff_t>(returned_++), std::move(cell));
}

std::deque<HeldCalls::Held>::const_iterator HeldCalls::find(const ResultCell& cell) const {
  return std::find_if(calls_.begin(), calls_.end(), [&](const Held& each) { return &*each.cell == &cell; });
}

bool HeldCalls::contains(const ResultCell& cell) const {
  return find(cell) != calls_.end();
}

bool HeldCalls::remove(const ResultCell& cell) {
  const auto held = find(cell);
  if (held == calls_.end()) return false;
  if (static_cast<std::size_t>(held - calls_.begin()) < returned_) --returned_;
  note_gone(*held);
  calls_.erase(held);
  return true;
}

std::vector<CellHandle> HeldCalls::take_all() {
  std::vector<CellHandle> all;
  for (Held& held : calls_) all.push_back(std::move(held.cell));
  calls_.clear();
  bytes_ = 0;
  unordered_ = 0;
  returned_ = 0;
  return all;
}

}  // namespace pharos::actors
