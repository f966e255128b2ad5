#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/actors/ref.hpp>
#include <pharos/base/export.hpp>

/// Waiting for several results at once.
namespace pharos {

struct WaitOptions {
  std::size_t count = 1;  ///< come back when so many are there
  Deadline deadline = Deadline::never();
};

namespace detail {

/// Cells come out in the order in which they become ready.
class PHAROS_API ReadyQueue {
 public:
  ReadyQueue();
  ReadyQueue(ReadyQueue&&) noexcept;
  ReadyQueue& operator=(ReadyQueue&&) noexcept;
  /// Leaves nothing behind in those that are still pending.
  ~ReadyQueue();

  void add(CellHandle cell);
  /// How many have come out and were not taken.
  std::size_t ready() const;
  /// All of them; waits until there are `count`, or for the deadline.
  std::vector<CellHandle> take(const WaitOptions& options);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace detail

/// Results to be waited for again and again, as they come: each costs the same, however many there are.
/// One thread.
template <class T>
class RefSet {
 public:
  RefSet() = default;
  explicit RefSet(const std::vector<Ref<T>>& refs) {
    for (const Ref<T>& ref : refs) add(ref);
  }

  void add(const Ref<T>& ref) {
    queue_.add(ref.cell());
    ++size_;
  }
  /// Those that have not been taken.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// Takes those that are there, in the order in which they came: at least `count`, or all that are left, unless the
  /// deadline comes first.
  std::vector<Ref<T>> wait(WaitOptions options = {}) {
    options.count = std::min(options.count, size_);
    std::vector<Ref<T>> ready;
    for (detail::CellHandle& cell : queue_.take(options)) ready.emplace_back(std::move(cell));
    size_ -= ready.size();
    return ready;
  }

 private:
  detail::ReadyQueue queue_;
  std::size_t size_ = 0;
};

template <class T>
struct Waited {
  std::vector<Ref<T>> ready;
  std::vector<Ref<T>> pending;
};

/// Waits for some of them: `wait(refs, {.count = 2, .deadline = …})`. Both lists are in the order of `refs`; a list
/// that is not needed afterwards is moved in. To take a long list apart one by one, wait on a RefSet.
template <class T>
Waited<T> wait(std::vector<Ref<T>> refs, const WaitOptions& options = {}) {
  const std::size_t count = std::min(options.count, refs.size());
  std::size_t there = 0;
  const auto is_last_wanted = [&](const Ref<T>& ref) { return ref.ready() && ++there == count; };
  if (std::none_of(refs.begin(), refs.end(), is_last_wanted)) {
    detail::ReadyQueue queue;
    // Where results come fast, enough are there before all have been looked at.
    for (auto ref = refs.begin(); ref != refs.end() && queue.ready() < count; ++ref) queue.add(ref->cell());
    static_cast<void>(queue.take({count, options.deadline}));
  }
  Waited<T> waited;
  waited.pending.reserve(refs.size());
  for (Ref<T>& ref : refs) (ref.ready() ? waited.ready : waited.pending).push_back(std::move(ref));
  return waited;
}
template <class T>
std::vector<Ref<T>> wait(RefSet<T>& refs, const WaitOptions& options = {}) {
  return refs.wait(options);
}

namespace detail {

/// Which error a result of several has.
enum class Failure : std::uint8_t {
  kInOrder,  ///< that of the first in the list, when all are ready
  kInTime,   ///< the one that came first, at once; it says "rank" and the place in the list
};
/// As soon as one of the cells has an error, `made` has it too.
PHAROS_API void fail_with_first(const CellHandle& made, const std::vector<CellHandle>& cells);

/// Runs `make` on the thread for callbacks when all cells are ready; what it returns or throws is the result. An error
/// among the cells passes by.
template <class R, class Make>
Ref<R> when_ready(const std::vector<CellHandle>& cells, Make make, Failure failure = Failure::kInOrder) {
  if (cells.empty()) {
    throw_error(Error{ErrorCode::kInvalidArgument, "there is no Ref here to wait for", "Give it at least one."});
  }
  CellHandle made = cells.front().offspring();
  if (failure == Failure::kInTime) fail_with_first(made, cells);
  call_back_when_ready(cells, [made, cells, make = std::move(make)] {
    if (made.ready()) return;  // cancelled, or failed
    for (const CellHandle& cell : cells) {
      if (auto bytes = cell.wait(Deadline::never()); !bytes) return made.set_error(std::move(bytes).error());
    }
    complete_with<R>(made, make);
  });
  return Ref<R>{std::move(made)};
}

template <class T>
std::vector<CellHandle> cells_of(const std::vector<Ref<T>>& refs) {
  std::vector<CellHandle> cells;
  for (const Ref<T>& ref : refs) cells.push_back(ref.cell());
  return cells;
}

template <class T>
auto all_of(const std::vector<Ref<T>>& refs, Failure failure) {
  if constexpr (std::is_void_v<T>) {
    const auto make = [refs] {
      for (const Ref<void>& ref : refs) ref.get();
    };
    return when_ready<void>(cells_of(refs), make, failure);
  } else {
    const auto make = [refs] {
      std::vector<T> results;
      for (const Ref<T>& ref : refs) results.push_back(ref.get());
      return results;
    };
    return when_ready<std::vector<T>>(cells_of(refs), make, failure);
  }
}

}  // namespace detail

/// All results in one, in their order; the first error in that order, if there is one, once all have ended.
template <class T>
auto when_all(const std::vector<Ref<T>>& refs) {
  return detail::all_of(refs, detail::Failure::kInOrder);
}
template <class... T>
Ref<std::tuple<T...>> when_all(const Ref<T>&... refs) {
  return detail::when_ready<std::tuple<T...>>({refs.cell()...}, [refs...] { return std::tuple<T...>{refs.get()...}; });
}

/// Which of them was ready first, by its place: also one that failed.
template <class T>
Ref<std::size_t> when_any(const std::vector<Ref<T>>& refs) {
  const std::vector<detail::CellHandle> cells = detail::cells_of(refs);
  if (cells.empty()) {
    throw_error(Error{ErrorCode::kInvalidArgument, "there is no Ref here to wait for", "Give it at least one."});
  }
  return Ref<std::size_t>{detail::first_ready(cells)};
}

}  // namespace pharos
