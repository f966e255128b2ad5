#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <pharos/base/clock.hpp>
#include <pharos/base/error.hpp>
#include <pharos/base/result.hpp>

#include "stream/stream_operation.hpp"

namespace pharos::ml {

/// What the owner of a StreamBackend asks of the backend's thread, and what the thread tells the owner. The first group
/// of functions is called by the owner, and the second one by the backend's thread. Owned by StreamBackend, which calls
/// close() and joins the thread before it destroys this object. Operations that were asked for and not taken are
/// dropped then. After a failure has_ended() and wait_for() return that error, except for an operation that had ended
/// before.
class StreamRequests {
 public:
  using WhoIsMissing = std::function<std::optional<std::uint32_t>()>;

  /// `wake` wakes the backend's thread, so that it takes the requests. `heard` is called on the backend's thread when
  /// an operation has ended or all have failed, and must not throw; it may be empty.
  StreamRequests(std::function<void()> wake, std::function<void()> heard)
      : wake_{std::move(wake)}, heard_{std::move(heard)} {}
  StreamRequests(StreamRequests&&) = delete;

  /// Asks for an operation. Does nothing after a failure.
  void add(std::shared_ptr<StreamOperation> operation);
  /// Returns whether the operation has ended. Fails if all operations have failed before it ended.
  Result<bool> has_ended(const StreamOperation& operation) const;
  /// Waits until the operation has ended or all operations have failed. At the deadline it asks the thread to find the
  /// rank that is late, and waits on: the thread then makes all operations fail, after about 0.7 seconds, unless the
  /// operation ends before.
  Result<void> wait_for(const StreamOperation& operation, TimePoint deadline);
  /// Says what the owner waits for until waits_no_more(): an operation, or something else, where `who` returns the rank
  /// that it waits for. `who` is called on the backend's thread, and not after waits_no_more() has returned. This
  /// object is locked during the call, so `who` must not call this object.
  void waits_for(const OperationId& order);
  void waits_for(WhoIsMissing who);
  void waits_no_more();
  /// The owner has waited too long for `what`, such as "barrier, operation 7,". Does not wait: failure() has the result
  /// later.
  void say_overdue(const std::string& what);
  /// Asks the thread to make all operations fail, and returns when they have failed, after about 0.2 seconds at most.
  /// The error is another one if there was an earlier failure.
  void fail(const Error& why);
  std::optional<Error> failure() const;
  /// Asks the thread to end. Does not wait for that.
  void close();

  struct Taken {
    std::deque<std::shared_ptr<StreamOperation>> operations{};  ///< New ones, in the order in which they were begun.
    std::optional<Error> fails{};                               ///< The error with which all operations are to fail.
    std::optional<std::string> overdue{};                       ///< What the owner has waited for too long.
  };
  /// Returns what the owner asks for; nullopt once it has called close().
  std::optional<Taken> take_new();
  /// Returns the rank that the owner waits for; nullopt if there is none. `missing` finds it for an operation.
  std::optional<std::uint32_t> whom_the_owner_waits_for(
      const std::function<std::optional<std::uint32_t>(const OperationId&)>& missing) const;
  void say_ended(StreamOperation& operation);
  /// All operations have failed. No operation's memory is in use any more.
  void say_failed(const Error& why);
  void wait_for_close();

 private:
  void tell_owner();

  struct Waiting {
    std::optional<OperationId>
        order{};  // the operation that the owner waits for; without it, `who` names the missing rank
    WhoIsMissing who{};
  };

  const std::function<void()> wake_;
  const std::function<void()> heard_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Taken new_;
  std::optional<Waiting> waiting_;
  bool closes_ = false;
  std::optional<Error> failed_;
};

}  // namespace pharos::ml
