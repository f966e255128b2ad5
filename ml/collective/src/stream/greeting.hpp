#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/handshake.hpp>

namespace pharos::ml {

/// Accepts connections at a listening socket, and lets in peers that prove to know the key. All handshakes go on at the
/// same time, so that a stranger who says nothing delays no other peer. Bounded: at most 256 handshakes at once; a
/// further connection replaces the oldest. While this process has no descriptor left, connections wait. A peer whose
/// handshake fails is dropped silently. connect_ranks() and the rank 0 of meet_at() each own one for the time of their
/// call. One thread. The listener, which does not block, outlives it. The destructor closes the connections whose
/// handshakes have not ended.
class Greeting {
 public:
  /// A peer that has proved to know the key. A value that owns the socket.
  struct Guest {
    std::uint64_t id = 0;  ///< The id that is part of its proof.
    Fd socket{};
  };

  Greeting(const Fd& listener, const net::Key& key, net::Identity self);
  Greeting(Greeting&&) = delete;
  ~Greeting();

  /// Waits for the next peer. Returns nullopt at the deadline, or when the peer of one of the sockets `those` has
  /// closed its end.
  std::optional<Guest> next(Deadline deadline, std::span<const int> those = {});

  /// Whether a peer has connected whose handshake goes on.
  bool has_begun();

 private:
  static constexpr std::size_t kHeardMax = 256;
  struct Heard;

  bool accept_all();
  bool hear(Heard& heard, std::optional<Guest>& guest) const;

  const Fd& listener_;
  const net::Key key_;
  const net::Identity self_;
  std::vector<std::unique_ptr<Heard>> heard_;
};

}  // namespace pharos::ml
