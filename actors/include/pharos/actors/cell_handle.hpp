#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/encoder.hpp>

namespace pharos::detail {

class ResultCell;

/// The encoded bytes of a result: in one piece, or as a count and the elements that it counts. The spans are valid as
/// long as a handle of the cell and `owner` are kept.
struct Encoded {
  std::span<const std::byte> count;  ///< empty if everything is in `bytes`
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = nullptr;  ///< keeps the bytes in place; null if the cell itself does
};

/// A share in a cell (ResultCell), which holds one result that is ready or will come. A counted reference: the cell
/// lives as long as a handle or a pending call refers to it. Any thread.
/// Failure: wait() of a handle without a cell (moved from) returns kInvalidArgument, and ready() returns false. The
/// other functions throw InvalidArgument; set_value(), set_error(), forget(), * and -> must not be used then.
/// End: a pending cell whose last handle is gone drops its callbacks, which never run. A cell may outlive its Runtime,
/// whose end fails the calls of pending cells with kRuntimeStopped.
class PHAROS_API CellHandle {
 public:
  CellHandle() = default;
  explicit CellHandle(ResultCell* cell) : cell_{cell} {}  // takes over one reference of the caller
  CellHandle(const CellHandle& other);
  CellHandle(CellHandle&& other) noexcept : cell_{std::exchange(other.cell_, nullptr)} {}
  CellHandle& operator=(CellHandle other) noexcept {
    std::swap(cell_, other.cell_);
    return *this;
  }
  ~CellHandle() {
    if (cell_ != nullptr) release();
  }

  explicit operator bool() const { return cell_ != nullptr; }
  ResultCell& operator*() const { return *cell_; }
  ResultCell* operator->() const { return cell_; }
  ResultCell* detach() { return std::exchange(cell_, nullptr); }

  bool ready() const;
  /// Waits for the result and returns its bytes, or its error; kDeadlineExceeded at the deadline, kCancelled if the
  /// call that waits is cancelled, kRuntimeStopped in a child of fork(). The deadline does not limit the time in which
  /// a large value is brought from disk or from another node.
  Result<Encoded> wait(Deadline deadline) const;

  // The functions below are for combining results.
  /// Makes a new, pending cell of the same Runtime, whose result can be waited for in the same way.
  CellHandle sibling() const;
  /// The same, for a result that this process will make of this one: cancel() completes it with Cancelled.
  CellHandle offspring() const;
  /// Completes the cell. Only the first completion of a cell counts. Handles of actors are in the context of `value`.
  /// If `value` could not be encoded, the cell gets that error.
  void set_value(const Encoder& value) const;
  void set_error(Error error) const;
  /// Runs `then` when the cell is ready, on the thread that completes it; at once, if it is ready. `then` must be quick
  /// and must not throw.
  void when_ready(async::Callback then, const void* watcher = nullptr) const;
  /// Drops the callbacks that when_ready() was given with this watcher. One of them may be running.
  void forget(const void* watcher) const;
  /// Runs a user's code when the cell is ready, on the Runtime's thread for callbacks; after the Runtime's end at once,
  /// on the thread that completes the cell or calls this. An exception of `then` ends the process.
  void call_back(async::Callback then) const;
  /// Gives up the call that brings the result: one that has not begun gets kCancelled, and the worker of one that runs
  /// is told; with `force`, the worker of a task is killed. Does nothing if the result is ready, or if no call brings
  /// it and the cell is no offspring().
  void cancel(bool force = false) const;
  /// Returns a cell for each part. The result is cut into parts when it is ready. `find_ends` finds where the parts
  /// end; it returns false if the bytes are no result of that type; the parts then get kCorrupt. An error of the whole
  /// is the error of each part.
  std::vector<CellHandle> split(std::size_t parts, bool (*find_ends)(const CellHandle& cell, const Encoded& whole,
                                                                     std::size_t* ends)) const;

  /// For a result that is a count and that many elements of `element_bytes` each: returns a cell for some of the
  /// elements, as a count and elements, which lie in the same memory and keep it. The returned cell gets
  /// kInvalidArgument if the result has too few elements, and kCorrupt if it is no such result.
  CellHandle slice(std::size_t begin, std::size_t count, std::size_t element_bytes) const;

 private:
  void release();
  ResultCell* cell_ = nullptr;
};

/// Waits, in a coroutine, until get() would not wait. That holds as long as the returned pointer is kept, since it
/// keeps a large value in memory. Throws Cancelled if the coroutine is cancelled first. An error of the result is not
/// thrown here, but by get().
PHAROS_API async::Async<std::shared_ptr<const void>> until_ready(CellHandle cell);
/// Waits, in a thread, until the cell is ready: with a value or with an error. Throws if the wait ends before that:
/// Cancelled in a call that is cancelled, RuntimeStopped in a child of fork().
PHAROS_API void wait_until_ready(const CellHandle& cell);
/// Returns a cell whose value is the index of the cell that was ready first. `cells` is not empty. The list is kept
/// until the returned cell is ready or gone.
PHAROS_API CellHandle first_ready(const std::vector<CellHandle>& cells);
/// Runs `then` as call_back() does, once all cells are ready. `cells` is not empty.
PHAROS_API void call_back_when_ready(const std::vector<CellHandle>& cells, async::Callback then);

}  // namespace pharos::detail
