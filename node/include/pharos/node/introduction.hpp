#pragma once

#include <cstdint>

namespace pharos::node {

/// What a node says first, and all that it says before it is answered, on a connection to another node once both have
/// proved that they know the token. Of a fixed size: nothing behind it may be read here, because the socket goes on to
/// a worker.
struct Introduction {
  enum class Purpose : std::uint32_t {
    kJoin = 1,
    kServeCaller = 2,
    kClaims = 3,   ///< of objects; the caller is the node
    kPull = 4,     ///< of one
    kAsk = 5,      ///< no node, but a person's question
    kProgram = 6,  ///< an executable; the caller is its job
  };

  Purpose purpose{};
  std::uint32_t incarnation = 0;
  std::uint64_t caller = 0;
  std::uint64_t actor = 0;   ///< whose worker is meant; 0: the one that is named
  std::uint64_t worker = 0;  ///< leased by the caller

  /// A task cannot be sent again to the worker that runs it, so this connection has to outlast a cut of the network.
  /// Both ends hear from their nodes when the other one is lost.
  bool leads_to_leased_worker() const { return purpose == Purpose::kServeCaller && actor == 0; }
};
static_assert(sizeof(Introduction) == 32);

}  // namespace pharos::node
