#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace bench {

/// Both ends of a TCP connection over loopback.
/// The destructor closes them.
class PlainStream {
 public:
  PlainStream() {
    const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listening, generic, size) != 0 || ::listen(listening, 1) != 0 ||
        ::getsockname(listening, generic, &size) != 0) {
      throw std::runtime_error{"no socket"};
    }
    from = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(from, generic, size) != 0) throw std::runtime_error{"no connection"};
    to = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    ::close(listening);
  }
  PlainStream(PlainStream&&) = delete;
  ~PlainStream() {
    ::close(from);
    ::close(to);
  }
  int from = -1;
  int to = -1;
};

}  // namespace bench
