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

/// A result as it was encoded: in one piece, or as a count and the elements that it counts.
struct Encoded {
  std::span<const std::byte> count;  ///< empty: all is in `bytes`
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = nullptr;  ///< keeps the bytes where they are; null: the cell does
};

/// A share in a result that is there or will be.
class PHAROS_API CellHandle {
 public:
  CellHandle() = default;
  explicit CellHandle(ResultCell* cell) : cell_{cell} {}  // takes over one reference
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
  /// Once it is there.
  Result<Encoded> wait(Deadline deadline) const;

  // For combining results: a pending one beside it, what completes that (handles of actors are in its context), and
  // where users' callbacks run.
  CellHandle sibling() const;
  /// One for what will be made of this here: cancel() ends it.
  CellHandle offspring() const;
  void set_value(const Encoder& value) const;
  void set_error(Error error) const;
  /// Quick, on the thread that completes it.
  void when_ready(async::Callback then, const void* watcher = nullptr) const;
  /// What this watcher has left is not wanted any more; it may be running.
  void forget(const void* watcher) const;
  /// A user's code, on the Runtime's thread for callbacks.
  void call_back(async::Callback then) const;
  void cancel() const;
  /// One for each of its parts, which it is cut into when it is there. `find_ends` says where they end; false: the
  /// bytes are no such result.
  std::vector<CellHandle> split(std::size_t parts, bool (*find_ends)(const CellHandle& cell, const Encoded& whole,
                                                                     std::size_t* ends)) const;

  /// Of a result that is a count and so many elements of this size: some of them, in the same way, and in the same
  /// memory.
  CellHandle slice(std::size_t begin, std::size_t count, std::size_t element_bytes) const;

 private:
  void release();
  ResultCell* cell_ = nullptr;
};

/// Then get() does not wait, as long as what this brings is kept. Throws Cancelled when the coroutine is cancelled
/// first.
PHAROS_API async::Async<std::shared_ptr<const void>> until_ready(CellHandle cell);
/// The same for a thread. A result that is an error is ready, too.
PHAROS_API void wait_until_ready(const CellHandle& cell);
/// Its value is the place of the one that was ready first.
PHAROS_API CellHandle first_ready(const std::vector<CellHandle>& cells);
/// Runs it on the thread for callbacks once all of these, one at least, are ready.
PHAROS_API void call_back_when_ready(const std::vector<CellHandle>& cells, async::Callback then);

}  // namespace pharos::detail
