#pragma once

#include <cstdint>
#include <optional>

#include <pharos/async/deadline.hpp>
#include <pharos/base/error.hpp>
#include <pharos/wire/encoder.hpp>
#include <pharos/wire/frame.hpp>
#include <pharos/wire/message.hpp>

#include "caller/call_notes.hpp"

namespace pharos::actors {

/// Where a call came from, and where its reply goes: the connection of its caller, an IncomingCalls. It lives until its
/// calls have ended. No function fails: a reply that the caller cannot receive any more is dropped, or kept for a
/// caller on another machine. Used by the code that runs the call, on its thread, unless a function says otherwise.
class CallOrigin {
 public:
  virtual ~CallOrigin() = default;
  /// Returns whether the caller has cancelled the call of this number. Any thread.
  virtual bool cancelled(std::uint64_t number) const = 0;
  virtual async::Deadline deadline_of(std::uint64_t number) const = 0;
  virtual Retries retries_of(std::uint64_t number) const = 0;
  /// Returns the resources that the caller's tasks hold here.
  virtual const wire::WorkerResources& holding() const = 0;
  /// Returns ComputeThreads::number_for() these resources.
  virtual int compute_threads() const = 0;
  /// The running task waits: tells the node, and returns the tasks behind it to their callers. Does nothing if another
  /// task of this worker waits already.
  virtual void block() = 0;
  /// Sends the reply of a coroutine that has ended; at once, unless further calls follow.
  virtual void conclude(const wire::FrameHeader& call, const std::optional<Error>& error, Encoder& result,
                        bool more_follow) = 0;
  /// Writes the replies that are queued.
  virtual void write_replies() = 0;
};

}  // namespace pharos::actors
