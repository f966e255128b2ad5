#pragma once

#include <optional>

#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/id.hpp>

namespace pharos::actors {

/// What calls inherit from the call whose code makes them: they belong to its tree, and have no longer than it has.
/// That is also so in what it leaves to `then()`.
struct Lineage {
  TraceId trace;
  async::Deadline deadline = async::Deadline::never();

  /// None in code that belongs to no call.
  static std::optional<Lineage> of_this_thread();
  /// The same, or the beginning of a new tree.
  static Lineage of_new_call();
};

/// Runs it as a part of the call whose code this is, on whichever thread.
async::Callback as_continuation(async::Callback then);

}  // namespace pharos::actors
