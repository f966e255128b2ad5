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
/// The handler is not kept alive: when it is gone the link
/// closes itself.
class SocketLink : public Link {
 public:
  static std::shared_ptr<SocketLink> make(Reactor& reactor, Fd socket, Descriptors descriptors);

  virtual void start(const std::shared_ptr<Handler>& handler) = 0;
  /// Reads on, where reading stopped to let the handler work or because it wanted no more.
  virtual void resume() = 0;
};

}  // namespace pharos::net
