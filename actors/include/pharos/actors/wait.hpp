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

/// When a wait for several results ends: with enough results or at the deadline, whichever comes first. If the call
/// that waits is cancelled before, the wait throws Cancelled, and takes no result.
struct WaitOptions {
  std::size_t count = 1;  ///< the wait ends when this many results are ready
  Deadline deadline = Deadline::never();
};

namespace detail {

/// A queue of cells, which come out in the order in which they become ready. Owned by a RefSet or by a call of wait().
/// One thread uses it; any thread may complete the cells. add() throws InvalidArgument for a handle that was moved
/// from.
class PHAROS_API ReadyQueue {
 public:
  ReadyQueue();
  ReadyQueue(ReadyQueue&&) noexcept;
  ReadyQueue& operator=(ReadyQueue&&) noexcept;
  /// Drops the queue's callbacks in the cells that are pending.
  ~ReadyQueue();

  void add(CellHandle cell);
  /// Number of cells that are ready and have not been taken.
  std::size_t ready() const;
  /// Waits until `count` cells are ready, or until the deadline. Takes all cells that are ready. Throws Cancelled,
  /// without taking any, if the call that waits is cancelled before. `count` is at most the number of cells in the
  /// queue.
  std::vector<CellHandle> take(const WaitOptions& options);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace detail

/// A set of results that a program takes as they come. Each result costs the same, however many there are. The program
/// owns it, and one thread uses it. Destroying it does not cancel the calls, and the Refs need not outlive it. add()
/// throws InvalidArgument for a Ref that was moved from.
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
  /// Number of results that have not been taken.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// Waits for `count` results, or for all that are left if these are fewer, but no longer than the deadline. Takes and
  /// returns all that are ready, in the order in which they came. A result that is an error is ready, too. Throws
  /// Cancelled in a call that is cancelled; all results are then still in the set.
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

/// The answer of wait(): the Refs that are ready, and the others.
template <class T>
struct Waited {
  std::vector<Ref<T>> ready;
  std::vector<Ref<T>> pending;
};

/// Waits for some of the results: `wait(refs, {.count = 2, .deadline = …})`. Both lists of the answer are in the order
/// of `refs`. A result that is an error is ready, too. Any thread may call it. A list that is not needed afterwards is
/// moved in. Throws Cancelled in a call that is cancelled, and InvalidArgument if it must wait and a Ref was moved
/// from. It cancels no call. To take the results of a long list one by one, use a RefSet, which costs less.
template <class T>
Waited<T> wait(std::vector<Ref<T>> refs, const WaitOptions& options = {}) {
  const std::size_t count = std::min(options.count, refs.size());
  std::size_t there = 0;
  const auto is_last_wanted = [&](const Ref<T>& ref) { return ref.ready() && ++there == count; };
  if (std::none_of(refs.begin(), refs.end(), is_last_wanted)) {
    detail::ReadyQueue queue;
    // If results come fast, enough are ready before all have been added.
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

/// Waits until all cells are ready, until one of them has an error, or until the deadline. Throws the error of the
/// first cell that has one; and Cancelled if the call that waits is cancelled, which cancels the calls of the cells.
/// Throws InvalidArgument for a handle that was moved from.
PHAROS_API void wait_for_values(const std::vector<CellHandle>& cells, Deadline deadline);

/// Which error the combination of several results has.
enum class Failure : std::uint8_t {
  kInOrder,  ///< the first error in the order of the list, once all results are ready
  kInTime,   ///< the error that comes first, as soon as it comes; its context is "rank" and the index in the list
};
/// Completes `made` with an error as soon as one of the cells has an error, on the thread that completes that cell.
PHAROS_API void fail_with_first(const CellHandle& made, const std::vector<CellHandle>& cells);

/// Runs `make` on the thread for callbacks when all cells are ready. The returned Ref has what `make` returns or
/// throws; or the error, if one of the cells has one, and `make` does not run. Neither does it run if the returned Ref
/// was cancelled before. Throws InvalidArgument if `cells` is empty or has a handle that was moved from.
template <class R, class Make>
Ref<R> when_ready(const std::vector<CellHandle>& cells, Make make, Failure failure = Failure::kInOrder) {
  if (cells.empty()) {
    throw_error(Error{ErrorCode::kInvalidArgument, "the list of Refs is empty", "Pass at least one Ref."});
  }
  CellHandle made = cells.front().offspring();
  if (failure == Failure::kInTime) fail_with_first(made, cells);
  call_back_when_ready(cells, [made, cells, make = std::move(make)] {
    if (made.ready()) return;  // it was cancelled, or has failed
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

/// Waits for all results, and returns copies of them in the order of `refs`: a vector, or nothing for Ref<void>. As
/// soon as one of them is an error, throws that error, the first of the list if there are several; the other calls go
/// on. Throws DeadlineExceeded if the results have not come by then. In a call that is cancelled it throws Cancelled,
/// and cancels the calls that it waits for. Any thread.
template <class T>
auto get(const std::vector<Ref<T>>& refs, Deadline deadline = Deadline::never()) {
  detail::wait_for_values(detail::cells_of(refs), deadline);
  if constexpr (std::is_void_v<T>) {
    for (const Ref<T>& ref : refs) ref.get(deadline);
  } else {
    std::vector<T> results;
    results.reserve(refs.size());
    for (const Ref<T>& ref : refs) results.push_back(ref.get(deadline));
    return results;
  }
}

/// Combines results to one, in their order. Once all are ready, the returned Ref is ready: if some are errors, with the
/// first error in that order. Any thread. Returns at once; throws InvalidArgument if there is no Ref in the list, or
/// one that was moved from. cancel() of the returned Ref does not cancel the calls.
template <class T>
auto when_all(const std::vector<Ref<T>>& refs) {
  return detail::all_of(refs, detail::Failure::kInOrder);
}
template <class... T>
Ref<std::tuple<T...>> when_all(const Ref<T>&... refs) {
  return detail::when_ready<std::tuple<T...>>({refs.cell()...}, [refs...] { return std::tuple<T...>{refs.get()...}; });
}

/// Returns a Ref of the index of the result that is ready first, be it a value or an error. Any thread. Returns at
/// once; throws InvalidArgument if the list is empty or has a Ref that was moved from. cancel() of the returned Ref
/// does not cancel the calls.
template <class T>
Ref<std::size_t> when_any(const std::vector<Ref<T>>& refs) {
  const std::vector<detail::CellHandle> cells = detail::cells_of(refs);
  if (cells.empty()) {
    throw_error(Error{ErrorCode::kInvalidArgument, "the list of Refs is empty", "Pass at least one Ref."});
  }
  return Ref<std::size_t>{detail::first_ready(cells)};
}

}  // namespace pharos
