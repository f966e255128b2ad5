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

/// How two processes prove to each other that they know the cluster's token, before either parses anything else.
///
///   initiator                                acceptor
///   hello (64 bytes, nonce i)          ->
///                                      <-    hello (64 bytes, nonce a), proof of (acceptor, both hellos)
///   proof of (initiator, both hellos)  ->
///
/// A proof is HMAC-SHA256 under the key, over a label of the direction and both hellos whole: so it cannot be sent
/// back (labels differ), replayed (nonces are new), or bound to another role, id or version. All sizes are fixed.
/// The key is the cluster's token, or what was derived from it for one zygote or worker: those never see the token.
namespace pharos::net {

using Key = std::array<std::byte, 32>;

enum class Role : std::uint8_t { kNode = 1, kDriver, kZygote, kWorker };

/// Who the other side said it was, and has proved to know the key for.
struct Identity {
  Role role{};
  std::uint64_t id = 0;
};

/// The credential of one zygote or worker. From it the token cannot be found.
Key derive_key(const Key& token, Role role, std::uint64_t id);

inline constexpr std::size_t kHelloBytes = 64;
inline constexpr std::size_t kProofBytes = 32;

/// The initiator's steps, without a socket.
class Initiator {
 public:
  Initiator(const Key& key, Identity self);

  std::span<const std::byte, kHelloBytes> hello() const { return hello_; }
  /// The proof to send; kPermissionDenied when the acceptor does not know the key, kUnsupported when it speaks another
  /// protocol version.
  Result<std::array<std::byte, kProofBytes>> answer(std::span<const std::byte, kHelloBytes + kProofBytes> answer);
  /// Once answer() gave a proof.
  Identity peer() const { return peer_; }

 private:
  Key key_;
  std::array<std::byte, kHelloBytes> hello_;
  Identity peer_;
};

/// The acceptor's steps, without a socket.
class Acceptor {
 public:
  /// The key that this initiator has to know; nothing if no such initiator is expected.
  using KeyFor = async::UniqueFunction<std::optional<Key>(Identity)>;

  explicit Acceptor(Identity self) : self_{self} {}

  /// What to send back. With another protocol version or an unexpected initiator that is a hello with an empty proof,
  /// so that the initiator can say what is wrong; finish() then fails.
  std::array<std::byte, kHelloBytes + kProofBytes> answer(std::span<const std::byte, kHelloBytes> hello,
                                                          KeyFor key_for);
  /// Why no proof can help, once answer() has found that.
  const std::optional<Error>& refused() const { return refused_; }
  Result<Identity> finish(std::span<const std::byte, kProofBytes> proof) const;

 private:
  Identity self_;
  Identity peer_;
  std::optional<Key> key_;
  std::optional<Error> refused_;
  std::array<std::byte, kHelloBytes> theirs_{};
  std::array<std::byte, kHelloBytes> ours_{};
};

/// Both sides over a connected socket, for a thread that has nothing else to do.
Result<Identity> initiate(int socket, const Key& key, Identity self, async::Deadline deadline);
Result<Identity> accept(int socket, Identity self, Acceptor::KeyFor key_for, async::Deadline deadline);

/// Both sides for an event loop. The socket is non-blocking and not watched by anybody else.
async::Async<Result<Identity>> initiate(Reactor* reactor, int socket, Key key, Identity self, async::Deadline deadline);
async::Async<Result<Identity>> accept(Reactor* reactor, int socket, Identity self, Acceptor::KeyFor key_for,
                                      async::Deadline deadline);

/// So many bytes, and not one more, for an event loop: what a fixed-size message behind the handshake needs, whose
/// socket may go to another process then.
async::Async<Result<void>> receive_exactly(Reactor* reactor, int socket, std::span<std::byte> to,
                                           async::Deadline deadline);

}  // namespace pharos::net
