#include <mutex>
#include <optional>

#include <pharos/actors/wait.hpp>

namespace pharos::detail {

struct ReadyQueue::State {
  std::mutex mutex;
  std::vector<std::size_t> ready;
  std::size_t wanted = 0;  // so many wake who waits
  CellHandle wakes;        // a cell that is completed then
  CellHandle any;          // one that was added: a sibling of it is waited for in the same way

  void push(std::size_t number) {
    CellHandle woken;
    {
      const std::lock_guard lock{mutex};
      ready.push_back(number);
      if (wakes && ready.size() >= wanted) woken = std::exchange(wakes, {});
    }
    if (woken) woken.set_value({});
  }
};

ReadyQueue::ReadyQueue() : state_{std::make_shared<State>()} {}

void ReadyQueue::add(const CellHandle& cell, std::size_t number) {
  if (!state_->any) state_->any = cell;
  cell.when_ready([state = std::weak_ptr{state_}, number] {
    if (const auto queue = state.lock()) queue->push(number);
  });
}

std::vector<std::size_t> ReadyQueue::take(const WaitOptions& options) {
  CellHandle waited;
  {
    const std::lock_guard lock{state_->mutex};
    if (state_->ready.size() >= options.count) return std::exchange(state_->ready, {});
    waited = state_->any.sibling();
    state_->wakes = waited;
    state_->wanted = options.count;
  }
  // Woken or not: what has come has come.
  [[maybe_unused]] const auto woken = waited.wait(options.deadline);
  const std::lock_guard lock{state_->mutex};
  state_->wakes = {};
  return std::exchange(state_->ready, {});
}

}  // namespace pharos::detail
