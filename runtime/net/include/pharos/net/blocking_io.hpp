#pragma once

#include <cstddef>
#include <span>

#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

/// For a thread that has nothing else to do until some bytes have come or gone: start-up and handshakes.
/// The socket may be blocking or not; no call waits past its deadline (kDeadlineExceeded).
namespace pharos::net {

Result<void> send_all(int socket, std::span<const std::byte> bytes, async::Deadline deadline);
Result<void> receive_all(int socket, std::span<std::byte> bytes, async::Deadline deadline);
/// What is there now, at least one byte unless there is nothing (0); kUnavailable at the peer's end.
Result<std::size_t> receive_some(int socket, std::span<std::byte> bytes);

struct SocketPair {
  Fd first;
  Fd second;
};
/// Two connected Unix stream sockets, non-blocking, closed on exec.
Result<SocketPair> socket_pair();

}  // namespace pharos::net
