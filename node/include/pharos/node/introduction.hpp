#pragma once

#include <cstdint>

namespace pharos::node {

/// The first bytes on a connection to a node, sent once both ends have proved that they know the token. They say what
/// the connection is for; what follows depends on the purpose.
/// A value, in the byte order of the machine. The size is fixed, because the receiver must not read past the end: the
/// socket may be handed on to a worker. The receiver closes the connection without an answer if the introduction does
/// not come within 5 s, or if the purpose is unknown.
struct Introduction {
  enum class Purpose : std::uint32_t {
    kJoin = 1,         ///< the sender joins the head
    kServeCaller = 2,  ///< `caller` wants a connection to a worker here; closed if there is no such worker
    kClaims = 3,       ///< the sender claims objects; `caller` is the id of the sending node
    kPull = 4,         ///< the sender pulls one object
    kAsk = 5,          ///< a user's question follows; the sender may be a command instead of a node
    kProgram = 6,      ///< the sender fetches an executable; `caller` is the id of its job
  };

  Purpose purpose{};
  std::uint32_t incarnation = 0;  ///< of `actor`
  std::uint64_t caller = 0;
  std::uint64_t actor = 0;   ///< the actor whose worker is wanted; 0: `worker` is wanted
  std::uint64_t worker = 0;  ///< the worker that the caller has leased

  /// Returns whether the connection leads to a leased worker. A task cannot be sent again to the worker that runs it,
  /// so such a connection has to outlast a cut of the network. Each end hears from its own node when the other end is
  /// lost.
  bool leads_to_leased_worker() const { return purpose == Purpose::kServeCaller && actor == 0; }
};
static_assert(sizeof(Introduction) == 32);

}  // namespace pharos::node
