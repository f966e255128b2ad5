#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/reactor.hpp>

/// The handshake: two processes prove to each other that they know the cluster's token, before either of them parses
/// any other data.
///
///   initiator                                acceptor
///   hello (64 bytes, nonce i)          ->
///                                      <-    hello (64 bytes, nonce a), proof of (acceptor, both hellos)
///   proof of (initiator, both hellos)  ->
///
/// A proof is an HMAC-SHA256 with the key, over a label for the direction and both complete hellos. A proof therefore
/// cannot be sent back to its maker (the labels differ), cannot be replayed (the nonces are new), and is valid for one
/// role, id and protocol version only. All sizes are fixed. A hello names the key with which its process proves itself,
/// because several tokens of a cluster may be valid at a time. The key is the cluster's token, or a key that was
/// derived from the token for one zygote or worker: zygotes and workers never see the token.
namespace pharos::net {

using Key = std::array<std::byte, 32>;

enum class Role : std::uint8_t { kNode = 1, kDriver, kZygote, kWorker };

/// The role and id of a process. After a handshake the other side has proved that it knows the key for its identity.
struct Identity {
  Role role{};
  std::uint64_t id = 0;
};

/// Returns a name for a key, from which the key cannot be computed. Of two keys, it is practically never the same.
std::uint64_t name_of(const Key& key);
/// Derives a key for one purpose from the token. The token cannot be computed from the derived key.
Key derive_key(const Key& token, std::string_view purpose);
/// Derives the key of one zygote or worker from the token. The token cannot be computed from the derived key.
Key derive_key(const Key& token, Role role, std::uint64_t id);

inline constexpr std::size_t kHelloBytes = 64;
inline constexpr std::size_t kProofBytes = 32;

/// The initiator's side of the handshake as a state machine without a socket. Made by initiate(), for one handshake.
/// Belongs to one thread at a time.
class Initiator {
 public:
  Initiator(const Key& key, Identity self);

  std::span<const std::byte, kHelloBytes> hello() const { return hello_; }
  /// Checks the acceptor's answer and returns the proof to send. Fails with kPermissionDenied if the acceptor does not
  /// know the key, kUnsupported if it speaks another protocol version, and kCorrupt if it does not speak this protocol.
  Result<std::array<std::byte, kProofBytes>> answer(std::span<const std::byte, kHelloBytes + kProofBytes> answer);
  /// The acceptor's identity, valid after answer() has succeeded. The acceptor may be of any role: the caller compares
  /// it if that matters.
  Identity peer() const { return peer_; }

 private:
  Key key_;
  std::array<std::byte, kHelloBytes> hello_;
  Identity peer_;
};

/// The acceptor's side of the handshake as a state machine without a socket. Made by accept(), for one handshake:
/// answer() first, then finish(). Belongs to one thread at a time.
class Acceptor {
 public:
  /// Returns the key that this initiator must know, or nullopt if no such initiator is expected. `name` is what it says
  /// of its key: name_of(). Called once at most, inside answer().
  using KeyFor = async::UniqueFunction<std::optional<Key>(Identity, std::uint64_t name)>;

  explicit Acceptor(Identity self) : self_{self} {}

  /// Returns the bytes to send back. If the initiator is unexpected or speaks another protocol version, these are a
  /// hello with a proof of zeros, so that the initiator can report the reason; finish() then fails.
  std::array<std::byte, kHelloBytes + kProofBytes> answer(std::span<const std::byte, kHelloBytes> hello,
                                                          KeyFor key_for);
  /// The reason if answer() has refused the initiator, so that no proof can be valid; otherwise nullopt.
  const std::optional<Error>& refused() const { return refused_; }
  /// Checks the initiator's proof, after answer(). Returns the initiator's identity, the reason of the refusal, or
  /// kPermissionDenied if the proof is wrong.
  Result<Identity> finish(std::span<const std::byte, kProofBytes> proof) const;

 private:
  Identity self_;
  Identity peer_;
  std::optional<Key> key_;
  std::optional<Error> refused_;
  std::array<std::byte, kHelloBytes> theirs_{};
  std::array<std::byte, kHelloBytes> ours_{};
};

/// Both sides of the handshake over a connected socket. They block the calling thread until the deadline at most. The
/// errors are those of Initiator and Acceptor, those of blocking_io.hpp, and kDeadlineExceeded. A peer that is gone
/// gives kUnavailable. The caller keeps the socket, and closes it after a failure. An acceptor that refuses still sends
/// its answer first.
Result<Identity> initiate(int socket, const Key& key, Identity self, async::Deadline deadline);
Result<Identity> accept(int socket, Identity self, Acceptor::KeyFor key_for, async::Deadline deadline);

/// Both sides of the handshake for a coroutine of any executor. The socket must be non-blocking, stay open meanwhile,
/// and not be registered in the reactor, which outlives the call. The errors are the same, and kCancelled. The sends
/// never wait: a socket without room for them gives kDeadlineExceeded.
async::Async<Result<Identity>> initiate(Reactor* reactor, int socket, Key key, Identity self, async::Deadline deadline);
async::Async<Result<Identity>> accept(Reactor* reactor, int socket, Identity self, Acceptor::KeyFor key_for,
                                      async::Deadline deadline);

/// Receives exactly as many bytes as `to` has, for a coroutine, under the same conditions. `to` must stay valid until
/// the coroutine has ended. Fails with kUnavailable if the peer closes the connection before, kDeadlineExceeded or
/// kCancelled. For a message of fixed size after the handshake: no later byte is read, because the socket may be handed
/// to another process afterwards.
async::Async<Result<void>> receive_exactly(Reactor* reactor, int socket, std::span<std::byte> to,
                                           async::Deadline deadline);

}  // namespace pharos::net
