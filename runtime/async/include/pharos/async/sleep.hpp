#pragma once

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>

namespace pharos::async {

/// Waits for `duration`, by the clock of the coroutine's executor. Callbacks that are already posted run first, even
/// for a duration of zero. Fails only with kCancelled, when the coroutine's group is cancelled (at once if that has
/// happened before).
PHAROS_API Async<Result<void>> sleep(Duration duration);

/// Waits until `when`, like sleep().
PHAROS_API Async<Result<void>> sleep_until(TimePoint when);

}  // namespace pharos::async
