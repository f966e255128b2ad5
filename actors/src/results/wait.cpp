#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include <pharos/actors/wait.hpp>

#include "results/result_cell.hpp"

namespace pharos::detail {

struct ReadyQueue::State {
  std::mutex mutex;
  std::vector<CellHandle> cells;  // by place; empty in a free place
  std::vector<std::size_t> free;  // free places
  std::vector<std::size_t> ready;
  std::atomic<std::size_t> ready_count = 0;
  std::size_t wanted = 0;  // how many ready cells wake the thread that waits
  CellHandle wakes;        // the cell that this thread waits for, which is completed then
  CellHandle any;          // some cell of the queue, for making cells of the same Runtime

  std::size_t place(const CellHandle& cell) {
    const std::lock_guard lock{mutex};
    if (!any) any = cell.sibling();
    if (free.empty()) {
      cells.push_back(cell);
      return cells.size() - 1;
    }
    const std::size_t place = free.back();
    free.pop_back();
    cells[place] = cell;
    return place;
  }

  void push(std::size_t place) {
    CellHandle woken;
    {
      const std::lock_guard lock{mutex};
      ready.push_back(place);
      ready_count.store(ready.size(), std::memory_order_relaxed);
      if (wakes && ready.size() >= wanted) woken = std::exchange(wakes, {});
    }
    if (woken) woken.set_value({});
  }

  // Called under the mutex.
  std::vector<CellHandle> take_ready() {
    std::vector<CellHandle> taken;
    for (const std::size_t place : ready) {
      taken.push_back(std::exchange(cells[place], {}));
      free.push_back(place);
    }
    ready.clear();
    ready_count.store(0, std::memory_order_relaxed);
    return taken;
  }
};

ReadyQueue::ReadyQueue() : state_{std::make_shared<State>()} {}
ReadyQueue::ReadyQueue(ReadyQueue&&) noexcept = default;
ReadyQueue& ReadyQueue::operator=(ReadyQueue&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

ReadyQueue::~ReadyQueue() {
  if (state_ == nullptr) return;
  std::vector<CellHandle> left;
  {
    const std::lock_guard lock{state_->mutex};
    left.swap(state_->cells);
  }
  for (const CellHandle& cell : left) {
    if (cell) cell.forget(state_.get());
  }
}

void ReadyQueue::add(CellHandle cell) {
  const std::size_t place = state_->place(cell);
  const auto push = [state = std::weak_ptr{state_}, place] {
    if (const auto queue = state.lock()) queue->push(place);
  };
  cell.when_ready(push, state_.get());
}

std::size_t ReadyQueue::ready() const {
  return state_->ready_count.load(std::memory_order_relaxed);
}

std::vector<CellHandle> ReadyQueue::take(const WaitOptions& options) {
  CellHandle waited;
  {
    const std::lock_guard lock{state_->mutex};
    if (state_->ready.size() >= options.count) return state_->take_ready();
    waited = state_->any.sibling();
    state_->wakes = waited;
    state_->wanted = options.count;
  }
  const auto woken = waited.wait(options.deadline);
  const std::lock_guard lock{state_->mutex};
  state_->wakes = {};
  if (!woken && woken.error().code() == ErrorCode::kCancelled && state_->ready.size() < options.count) {
    throw_error(woken.error());
  }
  return state_->take_ready();  // also at the deadline
}

namespace {

/// What the cells of a wait_for_values() tell its thread. Their callbacks share it.
struct Awaited {
  Awaited(std::size_t cells, CellHandle waited) : pending{cells}, wakes{std::move(waited)} {}
  std::atomic<std::size_t> pending;
  CellHandle wakes;

  void take(bool is_error) {
    if (pending.fetch_sub(1) == 1 || is_error) wakes.set_value({});
  }
};

}  // namespace

void wait_for_values(const std::vector<CellHandle>& cells, Deadline deadline) {
  const auto throw_first_error = [&] {
    for (const CellHandle& cell : cells) {
      if (cell.ready() && cell->error() != nullptr) throw_error(*cell->error());
    }
  };
  std::size_t first = 0;  // that is pending
  while (first < cells.size() && cells[first].ready()) {
    if (cells[first]->error() != nullptr) throw_error(*cells[first]->error());
    ++first;
  }
  if (first == cells.size()) return;

  const auto awaited = std::make_shared<Awaited>(cells.size() - first, cells[first].sibling());
  for (std::size_t i = first; i < cells.size(); ++i) {
    const ResultCell* const cell = cells[i].operator->();
    cells[i].when_ready([awaited, cell] { awaited->take(cell->error() != nullptr); }, awaited.get());
  }
  const auto woken = awaited->wakes.wait(deadline);
  for (std::size_t i = first; i < cells.size(); ++i) cells[i].forget(awaited.get());
  throw_first_error();
  if (woken || woken.error().code() != ErrorCode::kCancelled) return;  // the deadline is told by get()
  for (const CellHandle& cell : cells) cell.cancel();
  throw_error(woken.error());
}

namespace {

/// The cell of a when_any(), which the watchers of the results complete as long as the cell exists.
struct First {
  std::mutex mutex;
  ResultCell* cell;  // null once the cell is completed or destroyed

  CellHandle take() {
    const std::lock_guard lock{mutex};
    ResultCell* const taken = std::exchange(cell, nullptr);
    return taken != nullptr && taken->retain_if_held() ? CellHandle{taken} : CellHandle{};
  }
};

/// Kept by the cell of a when_any() until that cell is ready or destroyed. Its destructor removes the watchers from the
/// results that are still pending.
struct Watching {
  std::shared_ptr<First> first;
  std::vector<CellHandle> cells;

  Watching(std::shared_ptr<First> of, std::vector<CellHandle> watched)
      : first{std::move(of)}, cells{std::move(watched)} {}
  Watching(Watching&&) = delete;
  ~Watching() {
    {
      const std::lock_guard lock{first->mutex};
      first->cell = nullptr;
    }
    for (const CellHandle& cell : cells) cell.forget(first.get());
  }
};

}  // namespace

void fail_with_first(const CellHandle& made, const std::vector<CellHandle>& cells) {
  for (std::size_t rank = 0; rank < cells.size(); ++rank) {
    cells[rank].when_ready([made, rank, cell = &*cells[rank]] {
      if (cell->error() == nullptr) return;
      made.set_error(Error{*cell->error()}.with("rank " + std::to_string(rank)));
    });
  }
}

CellHandle first_ready(const std::vector<CellHandle>& cells) {
  CellHandle made = cells.front().offspring();
  const auto first = std::make_shared<First>();
  first->cell = &*made;
  made->call().keep(std::make_shared<Watching>(first, cells));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i].when_ready(
        [first, i] {
          const CellHandle cell = first->take();
          if (!cell) return;
          Encoder place;
          Codec<std::size_t>::encode(i, place);
          cell.set_value(place);
        },
        first.get());
  }
  // The cell may have become ready before the last results were watched. Their watchers are removed here.
  if (made.ready()) {
    for (const CellHandle& cell : cells) cell.forget(first.get());
  }
  return made;
}

}  // namespace pharos::detail
