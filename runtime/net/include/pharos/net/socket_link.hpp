#pragma once

#include <memory>

#include <pharos/net/link.hpp>
#include <pharos/net/reactor.hpp>

namespace pharos::net {

enum class Descriptors : std::uint8_t {
  kRefused,   ///< a call link: whatever the peer attaches is closed by the kernel
  kAccepted,  ///< a control link over a Unix socket
};

/// A Link over a connected stream socket, Unix or TCP. Takes the socket over, and reads from it once start() is called.
class SocketLink : public Link {
 public:
  static std::shared_ptr<SocketLink> make(Reactor& reactor, Fd socket, Descriptors descriptors);
};

}  // namespace pharos::net
