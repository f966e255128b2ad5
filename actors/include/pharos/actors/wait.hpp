#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
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

/// Numbers of cells that have become ready, in that order.
class PHAROS_API ReadyQueue {
 public:
  ReadyQueue();
  /// `number` comes out once the cell is ready.
  void add(const CellHandle& cell, std::size_t number);
  /// All that have come out and were not taken; waits until there are `count`, or for the deadline.
  std::vector<std::size_t> take(const WaitOptions& options);

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

  void add(Ref<T> ref) {
    queue_.add(ref.cell(), refs_.size());
    refs_.push_back(std::move(ref));
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
    for (const std::size_t number : queue_.take(options)) {
      ready.push_back(refs_[number]);
      refs_[number] = Ref<T>{{}};
      --size_;
    }
    return ready;
  }

 private:
  detail::ReadyQueue queue_;
  std::vector<Ref<T>> refs_;  // empty once taken
  std::size_t size_ = 0;
};

template <class T>
struct Waited {
  std::vector<Ref<T>> ready;
  std::vector<Ref<T>> pending;
};

/// Waits for some of them: `wait(refs, {.count = 2, .deadline = …})`. Both lists are in the order of `refs`. To take a
/// long list apart one by one, wait on a RefSet.
template <class T>
Waited<T> wait(const std::vector<Ref<T>>& refs, const WaitOptions& options = {}) {
  const std::size_t there =
      static_cast<std::size_t>(std::count_if(refs.begin(), refs.end(), [](const Ref<T>& ref) { return ref.ready(); }));
  if (there < std::min(options.count, refs.size())) {
    RefSet<T> set{refs};
    static_cast<void>(set.wait(options));
  }
  Waited<T> waited;
  for (const Ref<T>& ref : refs) (ref.ready() ? waited.ready : waited.pending).push_back(ref);
  return waited;
}
template <class T>
std::vector<Ref<T>> wait(RefSet<T>& refs, const WaitOptions& options = {}) {
  return refs.wait(options);
}

}  // namespace pharos
