#pragma once

#include <optional>

#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/id.hpp>

namespace pharos::actors {

/// What a call inherits from the call whose code makes it: it belongs to the same call tree, and its deadline is not
/// later. The callbacks that the code gives to `then()` inherit the same. A value; the functions ask about the thread
/// that calls them, and never fail.
struct InheritedContext {
  TraceId trace;
  async::Deadline deadline = async::Deadline::never();

  /// Returns nullopt if this thread's code belongs to no call.
  static std::optional<InheritedContext> of_this_thread();
  /// Returns the context of this thread, or the beginning of a new call tree.
  static InheritedContext of_new_call();
};

/// Wraps a callback so that it runs as a part of the call whose code this is, on whichever thread it runs.
async::Callback as_continuation(async::Callback then);

}  // namespace pharos::actors
