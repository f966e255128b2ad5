#pragma once

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>

namespace pharos::async {

/// Goes on after that time, by the executor's clock. Lets what is ready run first, even for a time of zero.
/// Ends early with kCancelled, and in no other way.
PHAROS_API Async<Result<void>> sleep(Duration duration);

/// Goes on at that moment.
PHAROS_API Async<Result<void>> sleep_until(TimePoint when);

}  // namespace pharos::async
