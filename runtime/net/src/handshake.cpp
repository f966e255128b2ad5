#include <sodium.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <pharos/base/random.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/wire/frame.hpp>

#include "ready.hpp"

namespace pharos::net {
namespace {

constexpr char kMagic[8] = {'p', 'h', 'a', 'r', 'o', 's', '\n', '\0'};
constexpr std::string_view kInitiatorLabel = "pharos initiator proves";
constexpr std::string_view kAcceptorLabel = "pharos acceptor proves";

struct Hello {
  char magic[8];
  std::uint32_t version;
  Role role;
  std::uint8_t reserved[3];
  std::uint64_t id;
  std::byte nonce[32];
  std::uint64_t key_name;
};
static_assert(sizeof(Hello) == kHelloBytes);

using HelloBytes = std::span<const std::byte, kHelloBytes>;
using Proof = std::array<std::byte, kProofBytes>;

std::array<std::byte, kHelloBytes> make_hello(Identity self, std::uint64_t key_name) {
  Hello hello{};
  std::memcpy(hello.magic, kMagic, sizeof kMagic);
  hello.version = wire::kProtocolVersion;
  hello.role = self.role;
  hello.id = self.id;
  hello.key_name = key_name;
  fill_random(hello.nonce);
  std::array<std::byte, kHelloBytes> bytes;
  std::memcpy(bytes.data(), &hello, sizeof hello);
  return bytes;
}

Result<Identity> read_hello(HelloBytes bytes) {
  Hello hello;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  if (std::memcmp(hello.magic, kMagic, sizeof kMagic) != 0) {
    return Error{ErrorCode::kCorrupt, "the peer does not speak Pharos's protocol",
                 "Check the address: something else answers there."};
  }
  if (hello.version != wire::kProtocolVersion) {
    return Error{ErrorCode::kUnsupported,
                 "the peer speaks protocol version " + std::to_string(hello.version) + ", this process version " +
                     std::to_string(wire::kProtocolVersion),
                 "Run the same Pharos version on both sides."};
  }
  if (hello.role < Role::kNode || hello.role > Role::kWorker) {
    return Error{ErrorCode::kCorrupt, "the peer names a role that does not exist"};
  }
  return Identity{hello.role, hello.id};
}

std::uint64_t key_name_in(HelloBytes bytes) {
  Hello hello;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  return hello.key_name;
}

const unsigned char* as_chars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

Proof hmac(const Key& key, std::span<const std::byte> message) {
  static_assert(sizeof(Key) == crypto_auth_hmacsha256_KEYBYTES && kProofBytes == crypto_auth_hmacsha256_BYTES);
  Proof proof;
  ::crypto_auth_hmacsha256(reinterpret_cast<unsigned char*>(proof.data()), as_chars(message.data()), message.size(),
                           as_chars(key.data()));
  return proof;
}

Proof prove(const Key& key, std::string_view label, HelloBytes initiator, HelloBytes acceptor) {
  std::vector<std::byte> message;
  const auto* const begin = reinterpret_cast<const std::byte*>(label.data());
  message.insert(message.end(), begin, begin + label.size());
  message.insert(message.end(), initiator.begin(), initiator.end());
  message.insert(message.end(), acceptor.begin(), acceptor.end());
  return hmac(key, message);
}

bool same(std::span<const std::byte, kProofBytes> a, const Proof& b) {
  return ::sodium_memcmp(a.data(), b.data(), kProofBytes) == 0;  // takes the same time wherever they differ
}

Error wrong_token() {
  return {ErrorCode::kPermissionDenied, "the peer does not know this cluster's token",
          "Use the token of the cluster that you connect to: PHAROS_TOKEN_FILE names its file."};
}

}  // namespace

std::uint64_t name_of(const Key& key) {
  const Key derived = derive_key(key, "pharos names a key");
  std::uint64_t name = 0;
  std::memcpy(&name, derived.data(), sizeof name);
  return name;
}

Key derive_key(const Key& token, std::string_view purpose) {
  return hmac(token, std::as_bytes(std::span{purpose}));
}

Key derive_key(const Key& token, Role role, std::uint64_t id) {
  return derive_key(token, "pharos credential " + std::to_string(static_cast<int>(role)) + " " + std::to_string(id));
}

Initiator::Initiator(const Key& key, Identity self) : key_{key}, hello_{make_hello(self, name_of(key))} {}

Result<Proof> Initiator::answer(std::span<const std::byte, kHelloBytes + kProofBytes> answer) {
  const HelloBytes theirs = answer.first<kHelloBytes>();
  PHAROS_TRY(peer_, read_hello(theirs));
  if (!same(answer.last<kProofBytes>(), prove(key_, kAcceptorLabel, hello_, theirs))) return wrong_token();
  return prove(key_, kInitiatorLabel, hello_, theirs);
}

std::array<std::byte, kHelloBytes + kProofBytes> Acceptor::answer(HelloBytes hello, KeyFor key_for) {
  std::array<std::byte, kHelloBytes + kProofBytes> answer{};
  const std::uint64_t key_name = key_name_in(hello);
  ours_ = make_hello(self_, key_name);
  std::memcpy(theirs_.data(), hello.data(), hello.size());
  std::memcpy(answer.data(), ours_.data(), ours_.size());
  auto peer = read_hello(hello);
  if (!peer) {
    refused_ = std::move(peer).error();
    return answer;
  }
  peer_ = *peer;
  key_ = key_for(peer_, key_name);
  if (!key_) {
    refused_ = wrong_token();
    return answer;
  }
  const Proof proof = prove(*key_, kAcceptorLabel, theirs_, ours_);
  std::memcpy(answer.data() + kHelloBytes, proof.data(), proof.size());
  return answer;
}

Result<Identity> Acceptor::finish(std::span<const std::byte, kProofBytes> proof) const {
  if (refused_) return *refused_;
  if (!same(proof, prove(*key_, kInitiatorLabel, theirs_, ours_))) return wrong_token();
  return peer_;
}

Result<Identity> initiate(int socket, const Key& key, Identity self, async::Deadline deadline) {
  Initiator initiator{key, self};
  PHAROS_TRY_VOID(send_all(socket, initiator.hello(), deadline));
  std::array<std::byte, kHelloBytes + kProofBytes> answer;
  PHAROS_TRY_VOID(receive_all(socket, answer, deadline));
  PHAROS_TRY(const Proof proof, initiator.answer(answer));
  PHAROS_TRY_VOID(send_all(socket, proof, deadline));
  return initiator.peer();
}

Result<Identity> accept(int socket, Identity self, Acceptor::KeyFor key_for, async::Deadline deadline) {
  Acceptor acceptor{self};
  std::array<std::byte, kHelloBytes> hello;
  PHAROS_TRY_VOID(receive_all(socket, hello, deadline));
  PHAROS_TRY_VOID(send_all(socket, acceptor.answer(hello, std::move(key_for)), deadline));
  if (acceptor.refused()) return *acceptor.refused();
  Proof proof;
  PHAROS_TRY_VOID(receive_all(socket, proof, deadline));
  return acceptor.finish(proof);
}

async::Async<Result<void>> receive_exactly(Reactor* reactor, int socket, std::span<std::byte> to,
                                           async::Deadline deadline) {
  while (!to.empty()) {
    PHAROS_CO_TRY_VOID(co_await wait_until_ready(reactor, socket, EPOLLIN, deadline));
    PHAROS_CO_TRY(const std::size_t n, receive_some(socket, to));
    to = to.subspan(n);
  }
  co_return {};
}

async::Async<Result<Identity>> initiate(Reactor* reactor, int socket, Key key, Identity self,
                                        async::Deadline deadline) {
  Initiator initiator{key, self};
  // The send does not wait: the empty buffer of a new socket has room for these bytes.
  PHAROS_CO_TRY_VOID(send_all(socket, initiator.hello(), async::Deadline::at(reactor->now())));
  std::array<std::byte, kHelloBytes + kProofBytes> answer;
  PHAROS_CO_TRY_VOID(co_await receive_exactly(reactor, socket, answer, deadline));
  PHAROS_CO_TRY(const Proof proof, initiator.answer(answer));
  PHAROS_CO_TRY_VOID(send_all(socket, proof, async::Deadline::at(reactor->now())));
  co_return initiator.peer();
}

async::Async<Result<Identity>> accept(Reactor* reactor, int socket, Identity self, Acceptor::KeyFor key_for,
                                      async::Deadline deadline) {
  Acceptor acceptor{self};
  std::array<std::byte, kHelloBytes> hello;
  PHAROS_CO_TRY_VOID(co_await receive_exactly(reactor, socket, hello, deadline));
  const auto answer = acceptor.answer(hello, std::move(key_for));
  // The send does not wait: the empty buffer of a new socket has room for these bytes. If there is no room, the peer
  // misbehaves and the handshake fails.
  PHAROS_CO_TRY_VOID(send_all(socket, answer, async::Deadline::at(reactor->now())));
  if (acceptor.refused()) co_return *acceptor.refused();
  Proof proof;
  PHAROS_CO_TRY_VOID(co_await receive_exactly(reactor, socket, proof, deadline));
  co_return acceptor.finish(proof);
}

}  // namespace pharos::net
