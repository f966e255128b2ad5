#pragma once

#include <memory>

#include <pharos/net/link.hpp>
#include <pharos/net/reactor.hpp>

namespace pharos::net {

/// Tells whether a link receives file descriptors from its peer.
enum class Descriptors : std::uint8_t {
  kRefused,   ///< for call links: the kernel closes descriptors that the peer attaches
  kAccepted,  ///< for control links over a Unix socket
};

/// A Link over a connected stream socket, Unix or TCP. Owns the socket, and reads from it once start() is called. From
/// then on the reactor keeps the link alive until close() or an error. The socket is shut down at once then, and its
/// descriptor is closed with the last reference. The reactor must outlive the link.
class SocketLink : public Link {
 public:
  static std::shared_ptr<SocketLink> make(Reactor& reactor, Fd socket, Descriptors descriptors);
};

}  // namespace pharos::net
