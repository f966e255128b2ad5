#pragma once

#include <cstdint>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/reactor.hpp>

namespace pharos::net {

/// Waits until a descriptor is ready for one of these events (EPOLLIN, EPOLLOUT), or has an error or its end, which the
/// next read or write shows. Runs on any executor. The descriptor must not be registered in the reactor (the process
/// aborts if it is), and must stay open until the wait has ended. The reactor outlives the wait. Fails with
/// kDeadlineExceeded or kCancelled.
async::Async<Result<void>> wait_until_ready(Reactor* reactor, int fd, std::uint32_t events, async::Deadline deadline);

}  // namespace pharos::net
