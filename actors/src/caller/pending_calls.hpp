#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <pharos/actors/arguments.hpp>
#include <pharos/actors/codec_context.hpp>
#include <pharos/actors/thrown.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/object_store/store_client.hpp>

#include "results/large_values.hpp"
#include "results/result_cell.hpp"
#include "results/waiting_room.hpp"

namespace pharos::actors {

/// A call whose arguments wait for the results of other calls. Shared by PendingCalls and by the callbacks in those
/// results. PendingCalls completes it, on the strand.
struct IncompleteCall {
  std::uint64_t place = 0;  ///< its number among the incomplete calls
  detail::CellHandle cell;
  std::vector<std::byte> bytes;                  ///< the encoded arguments
  std::shared_ptr<object_store::Object> object;  ///< has the arguments if they are many; `bytes` is then empty
  std::vector<detail::Placeholder> placeholders;
  std::vector<std::shared_ptr<const void>> kept;  ///< what keeps the result of each placeholder in memory
  std::atomic<std::size_t> missing = 0;           ///< number of results that have not come
  async::UniqueFunction<void(std::optional<Error>)> then;
};

/// A caller's calls before they are sent: makes their cells, completes their arguments, and gives them up at their
/// deadlines. Owned by the Caller. Any thread. Failure: an argument that is an error, or that cannot be encoded,
/// becomes the error of the cell. End: fail_all() forgets the calls that wait; their cells fail, and their `then` does
/// not run. forget() does not run it either.
class PendingCalls final : public std::enable_shared_from_this<PendingCalls> {
 public:
  /// Takes a call away from wherever it waits. Returns true if the call has not begun; then it never begins.
  using GiveUp = std::function<bool(detail::ResultCell&)>;

  PendingCalls(async::Executor& executor, std::shared_ptr<WaitingRoom> room, std::shared_ptr<LargeValues> large_values)
      : executor_{executor}, room_{std::move(room)}, large_values_{std::move(large_values)} {}

  /// Called once, before the first call.
  void set_give_up(GiveUp give_up) { give_up_ = std::move(give_up); }

  detail::CellHandle new_cell() const { return detail::ResultCell::make(room_); }
  LargeValues& large_values() const { return *large_values_; }

  /// Returns the call of a function that these options describe, as a part of the call tree of this thread.
  template <class Options>
  static detail::ResultCell::Call describe(const detail::RegisteredFunction& function, const Options& options) {
    return describe(function, options.max_retries, options.retry_on, options.deadline);
  }
  /// Gives the cell its call and its arguments. Returns null if the arguments are complete, or if the cell has failed
  /// because an argument is an error. The cell keeps what the arguments refer to until its result is ready.
  std::shared_ptr<IncompleteCall> prepare(const detail::CellHandle& cell, detail::ResultCell::Call call,
                                          const detail::Arguments& arguments);
  /// Returns the node where most bytes of these arguments are, if going there spares the way of at least 1 MiB; unset
  /// if that is `here`, or no node is worth going to. Refs that are not ready count nothing.
  static NodeId worth_going_to(const std::vector<detail::Placeholder>& arguments, NodeId here);
  /// Runs `then` on the strand once the arguments are complete; with an error if they never will be.
  void complete_later(const std::shared_ptr<IncompleteCall>& incomplete,
                      async::UniqueFunction<void(std::optional<Error>)> then);
  /// Gives the call up at the deadline, with kDeadlineExceeded, unless it has its result by then. Keeps the cell until
  /// the deadline.
  void give_up_at(Deadline deadline, const detail::CellHandle& cell);

  /// Forgets a call that waits for arguments. Returns false if the cell's call does not wait here.
  bool forget(const detail::ResultCell& cell);
  /// Returns the arguments that the cell's call waits for.
  std::vector<detail::CellHandle> missing_arguments(const detail::ResultCell& cell) const;
  void fail_all(const Error& why);

 private:
  static detail::ResultCell::Call describe(const detail::RegisteredFunction& function, std::int32_t max_retries,
                                           const ExceptionTypes& retry_on, Deadline deadline);
  void complete(const std::shared_ptr<IncompleteCall>& incomplete);

  async::Executor& executor_;
  const std::shared_ptr<WaitingRoom> room_;
  const std::shared_ptr<LargeValues> large_values_;
  GiveUp give_up_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<IncompleteCall>> incomplete_;  // by number, oldest first
  std::uint64_t last_incomplete_ = 0;
};

}  // namespace pharos::actors
