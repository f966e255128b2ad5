#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <pharos/async/block_on.hpp>
#include <pharos/base/random.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/wire/frame.hpp>

#include "pollers.hpp"
#include "seed.hpp"

namespace pharos::net {
namespace {

using namespace std::chrono_literals;

constexpr Identity kNode{Role::kNode, 7};
constexpr Identity kDriver{Role::kDriver, 9};

Key some_key() {
  Key key;
  fill_random(key);
  return key;
}

Acceptor::KeyFor expecting(Key key) {
  return [key](Identity, std::uint64_t) { return std::optional{key}; };
}

using Hello = std::array<std::byte, kHelloBytes>;
using Proof = std::array<std::byte, kProofBytes>;
using Answer = std::array<std::byte, kHelloBytes + kProofBytes>;

Hello hello_of(const Initiator& initiator) {
  Hello hello;
  std::copy(initiator.hello().begin(), initiator.hello().end(), hello.begin());
  return hello;
}

// Tests without sockets: which attacks on the handshake fail.

TEST(Handshake, BothSidesLearnWhoTheOtherIs) {
  const Key key = some_key();
  Initiator initiator{key, kDriver};
  Acceptor acceptor{kNode};
  const Answer answer = acceptor.answer(initiator.hello(), [&](Identity who, std::uint64_t name) {
    EXPECT_EQ(name, name_of(key));
    EXPECT_EQ(who.role, kDriver.role);
    EXPECT_EQ(who.id, kDriver.id);
    return std::optional{key};
  });
  EXPECT_EQ(acceptor.refused(), std::nullopt);
  const auto proof = initiator.answer(answer);
  ASSERT_TRUE(proof.ok()) << proof.error().to_string();
  EXPECT_EQ(initiator.peer().role, kNode.role);
  EXPECT_EQ(initiator.peer().id, kNode.id);
  const auto peer = acceptor.finish(*proof);
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->role, kDriver.role);
  EXPECT_EQ(peer->id, kDriver.id);
}

TEST(Handshake, AnotherKeyIsRefusedByBothSides) {
  const Key key = some_key();
  Initiator initiator{some_key(), kDriver};
  Acceptor acceptor{kNode};
  const Answer answer = acceptor.answer(initiator.hello(), expecting(key));
  EXPECT_EQ(initiator.answer(answer).error().code(), ErrorCode::kPermissionDenied);
  Proof guess;
  fill_random(guess);
  EXPECT_EQ(acceptor.finish(guess).error().code(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(acceptor.finish(Proof{}).error().code(), ErrorCode::kPermissionDenied);
}

TEST(Handshake, EveryChangedBitOfWhatTravelsIsRefused) {
  const Key key = some_key();
  for (std::size_t bit = 0; bit < kHelloBytes * 8; ++bit) {
    Initiator initiator{key, kDriver};
    Acceptor acceptor{kNode};
    Hello hello = hello_of(initiator);
    hello[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto proof = initiator.answer(acceptor.answer(hello, expecting(key)));
    EXPECT_FALSE(proof.ok()) << "bit " << bit << " of the initiator's hello";
  }
  for (std::size_t bit = 0; bit < (kHelloBytes + kProofBytes) * 8; ++bit) {
    Initiator initiator{key, kDriver};
    Acceptor acceptor{kNode};
    Answer answer = acceptor.answer(initiator.hello(), expecting(key));
    answer[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(initiator.answer(answer).ok()) << "bit " << bit << " of the acceptor's answer";
  }
  for (std::size_t bit = 0; bit < kProofBytes * 8; ++bit) {
    Initiator initiator{key, kDriver};
    Acceptor acceptor{kNode};
    Proof proof = *initiator.answer(acceptor.answer(initiator.hello(), expecting(key)));
    proof[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(acceptor.finish(proof).ok()) << "bit " << bit << " of the initiator's proof";
  }
}

TEST(Handshake, AReflectedHelloProvesNothing) {
  const Key key = some_key();
  Initiator initiator{key, kDriver};
  Answer reflected{};
  std::copy(initiator.hello().begin(), initiator.hello().end(), reflected.begin());
  EXPECT_EQ(initiator.answer(reflected).error().code(), ErrorCode::kPermissionDenied);
}

TEST(Handshake, AReflectedProofProvesNothing) {
  const Key key = some_key();
  Initiator initiator{key, kDriver};
  Acceptor acceptor{kNode};
  const Answer answer = acceptor.answer(initiator.hello(), expecting(key));
  Proof reflected;
  std::copy(answer.begin() + kHelloBytes, answer.end(), reflected.begin());
  EXPECT_EQ(acceptor.finish(reflected).error().code(), ErrorCode::kPermissionDenied);
}

TEST(Handshake, TheAcceptorsAnswerToItsOwnKindIsNoProofOfAnInitiator) {
  // An attacker without the key passes messages between two of our acceptors.
  const Key key = some_key();
  Initiator initiator{key, kDriver};
  Acceptor first{kNode};
  Acceptor second{kNode};
  const Answer from_first = first.answer(initiator.hello(), expecting(key));
  Hello hello_of_first;
  std::copy_n(from_first.begin(), kHelloBytes, hello_of_first.begin());
  const Answer from_second = second.answer(hello_of_first, expecting(key));
  Proof proof;
  std::copy(from_second.begin() + kHelloBytes, from_second.end(), proof.begin());
  EXPECT_FALSE(first.finish(proof).ok());
}

TEST(Handshake, AReplayedTranscriptProvesNothing) {
  const Key key = some_key();
  Initiator initiator{key, kDriver};
  Acceptor acceptor{kNode};
  const Answer recorded = acceptor.answer(initiator.hello(), expecting(key));
  const Proof proof = *initiator.answer(recorded);
  ASSERT_TRUE(acceptor.finish(proof).ok());

  Acceptor later{kNode};
  later.answer(initiator.hello(), expecting(key));
  EXPECT_EQ(later.finish(proof).error().code(), ErrorCode::kPermissionDenied) << "the initiator's side again";
  Initiator other{key, kDriver};
  EXPECT_EQ(other.answer(recorded).error().code(), ErrorCode::kPermissionDenied) << "the acceptor's side again";
}

TEST(Handshake, AnotherVersionIsNamedWithOursByBothSides) {
  const Key key = some_key();
  Initiator initiator{key, kDriver};
  Acceptor acceptor{kNode};
  Hello newer = hello_of(initiator);
  const std::uint32_t version = wire::kProtocolVersion + 41;
  std::memcpy(newer.data() + 8, &version, sizeof version);
  Answer answer = acceptor.answer(newer, expecting(key));
  const std::string theirs = "version " + std::to_string(version);
  const std::string ours = "version " + std::to_string(wire::kProtocolVersion);
  ASSERT_TRUE(acceptor.refused().has_value());
  EXPECT_EQ(acceptor.refused()->code(), ErrorCode::kUnsupported);
  EXPECT_NE(acceptor.refused()->message().find(theirs), std::string::npos);
  EXPECT_NE(acceptor.refused()->message().find(ours), std::string::npos);
  EXPECT_EQ(acceptor.finish(Proof{}).error().code(), ErrorCode::kUnsupported);
  EXPECT_TRUE(std::all_of(answer.begin() + kHelloBytes, answer.end(), [](std::byte b) { return b == std::byte{0}; }));

  std::memcpy(answer.data() + 8, &version, sizeof version);
  const auto refused = initiator.answer(answer);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message().find(theirs), std::string::npos);
  EXPECT_NE(refused.error().message().find(ours), std::string::npos);
}

TEST(Handshake, AnInitiatorThatIsNotExpectedGetsNoProof) {
  Initiator initiator{some_key(), kDriver};
  Acceptor acceptor{kNode};
  const Answer answer =
      acceptor.answer(initiator.hello(), [](Identity, std::uint64_t) { return std::optional<Key>{}; });
  EXPECT_EQ(acceptor.refused()->code(), ErrorCode::kPermissionDenied);
  EXPECT_TRUE(std::all_of(answer.begin() + kHelloBytes, answer.end(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(initiator.answer(answer).error().code(), ErrorCode::kPermissionDenied);
}

TEST(Handshake, ARoleThatDoesNotExistIsRefusedBeforeAnyKeyIsLookedFor) {
  Initiator initiator{some_key(), kDriver};
  for (const int role : {0, 5, 255}) {
    Hello hello = hello_of(initiator);
    hello[12] = static_cast<std::byte>(role);
    Acceptor acceptor{kNode};
    acceptor.answer(hello, [](Identity, std::uint64_t) -> std::optional<Key> {
      ADD_FAILURE() << "asked for a key";
      return std::nullopt;
    });
    EXPECT_EQ(acceptor.refused()->code(), ErrorCode::kCorrupt) << role;
  }
}

TEST(DeriveKey, DiffersByTokenRoleAndIdAndIsNotTheToken) {
  const Key token = some_key();
  std::set<Key> keys{token};
  for (const Role role : {Role::kNode, Role::kDriver, Role::kZygote, Role::kWorker}) {
    for (const std::uint64_t id : {0ull, 1ull, 11ull, 111ull, ~0ull}) keys.insert(derive_key(token, role, id));
  }
  keys.insert(derive_key(some_key(), Role::kNode, 0));
  EXPECT_EQ(keys.size(), 1u + 4 * 5 + 1);
  EXPECT_EQ(derive_key(token, Role::kWorker, 3), derive_key(token, Role::kWorker, 3));
}

// Tests over a socket. The acceptor blocks a thread, or is a coroutine on a reactor.

enum class Style { kBlocking, kEventLoop };

class AcceptingTest : public SeededTest, public testing::WithParamInterface<Style> {
 protected:
  /// Returns the acceptor's result, while `peer` runs on another thread.
  Result<Identity> accept_from(const std::function<void(int socket)>& peer, Acceptor::KeyFor key_for,
                               Duration time = 20s) {
    ends_ = *socket_pair();
    std::thread other{[&] { peer(ends_.second.get()); }};
    const auto deadline = async::Deadline::after(time, SteadyClock{});
    auto result = run(std::move(key_for), deadline);
    if (!result) ::shutdown(ends_.first.get(), SHUT_RDWR);  // as the owner of the socket does
    other.join();
    return result;
  }

  SocketPair ends_;

 private:
  Result<Identity> run(Acceptor::KeyFor key_for, async::Deadline deadline) {
    if (GetParam() == Style::kBlocking) return accept(ends_.first.get(), kNode, std::move(key_for), deadline);
    Reactor reactor;
    const Pollers pollers{reactor, 1};
    return async::block_on(reactor, accept(&reactor, ends_.first.get(), kNode, std::move(key_for), deadline));
  }
};
INSTANTIATE_TEST_SUITE_P(Both, AcceptingTest, testing::Values(Style::kBlocking, Style::kEventLoop),
                         [](const auto& chosen) { return chosen.param == Style::kBlocking ? "Thread" : "EventLoop"; });

TEST_P(AcceptingTest, TheRightKeyLetsBothIn) {
  const Key key = some_key();
  std::optional<Result<Identity>> seen;
  const auto peer = accept_from([&](int socket) { seen = initiate(socket, key, kDriver, soon()); }, expecting(key));
  ASSERT_TRUE(peer.ok()) << peer.error().to_string();
  EXPECT_EQ(peer->id, kDriver.id);
  ASSERT_TRUE(seen->ok());
  EXPECT_EQ((*seen)->id, kNode.id);
}

TEST_P(AcceptingTest, AnInitiatorOnAnEventLoopProvesTheSame) {
  const Key key = some_key();
  std::optional<Result<Identity>> seen;
  const auto initiate_on_a_loop = [&seen](int socket, const Key& with) {
    Reactor reactor;
    const Pollers pollers{reactor, 1};
    seen = async::block_on(reactor, initiate(&reactor, socket, with, kDriver, soon()));
    ::shutdown(socket, SHUT_WR);
  };
  const auto peer = accept_from([&](int socket) { initiate_on_a_loop(socket, key); }, expecting(key));
  ASSERT_TRUE(peer.ok()) << peer.error().to_string();
  EXPECT_EQ((*seen)->id, kNode.id);
  EXPECT_FALSE(accept_from([&](int socket) { initiate_on_a_loop(socket, some_key()); }, expecting(key)).ok());
  EXPECT_EQ(seen->error().code(), ErrorCode::kPermissionDenied);
}

TEST_P(AcceptingTest, BytesAfterTheProofAreLeftForTheLink) {
  const Key key = some_key();
  const auto peer = accept_from(
      [&](int socket) {
        EXPECT_TRUE(initiate(socket, key, kDriver, soon()).ok());
        EXPECT_TRUE(send_all(socket, std::as_bytes(std::span{"frame", 5}), soon()).ok());
      },
      expecting(key));
  ASSERT_TRUE(peer.ok());
  char text[5];
  EXPECT_TRUE(receive_all(ends_.first.get(), std::as_writable_bytes(std::span{text}), soon()).ok());
  EXPECT_EQ(std::string_view(text, 5), "frame");
}

TEST_P(AcceptingTest, AWrongKeyIsRefused) {
  std::optional<Result<Identity>> seen;
  const Key mine = some_key();
  const auto peer = accept_from(
      [&](int socket) {
        seen = initiate(socket, some_key(), kDriver, soon());
        ::shutdown(socket, SHUT_RDWR);
      },
      expecting(mine));
  EXPECT_FALSE(peer.ok());
  EXPECT_EQ(seen->error().code(), ErrorCode::kPermissionDenied);
}

TEST_P(AcceptingTest, AWrongProofIsRefusedAndNothingBehindItIsRead) {
  const auto peer = accept_from(
      [&](int socket) {
        const Initiator initiator{some_key(), kDriver};
        std::vector<std::byte> all{initiator.hello().begin(), initiator.hello().end()};
        all.resize(all.size() + kProofBytes + 1000);
        EXPECT_TRUE(send_all(socket, all, soon()).ok());
      },
      expecting(some_key()));
  EXPECT_EQ(peer.error().code(), ErrorCode::kPermissionDenied);
  std::vector<std::byte> rest(2000);
  EXPECT_EQ(*receive_some(ends_.first.get(), rest), 1000u) << "all of it, untouched";
}

TEST_P(AcceptingTest, AnotherVersionIsRefusedAtOnceNamingBoth) {
  const TimePoint begin = SteadyClock{}.now();
  const auto peer = accept_from(
      [&](int socket) {
        Hello hello = hello_of(Initiator{some_key(), kDriver});
        hello[8] = std::byte{77};
        EXPECT_TRUE(send_all(socket, hello, soon()).ok());
        Answer answer;
        EXPECT_TRUE(receive_all(socket, answer, soon()).ok()) << "it is told our version";
        std::byte one[1];
        EXPECT_FALSE(receive_all(socket, one, soon()).ok());  // the acceptor closes the connection at once
      },
      expecting(some_key()));
  EXPECT_EQ(peer.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(peer.error().message().find("version 77"), std::string::npos) << peer.error().to_string();
  EXPECT_NE(peer.error().message().find("version " + std::to_string(wire::kProtocolVersion)), std::string::npos);
  EXPECT_LT(SteadyClock{}.now() - begin, 15s);
}

TEST_P(AcceptingTest, GarbageIsRefusedAtOnceAndNothingBehindItIsRead) {
  const TimePoint begin = SteadyClock{}.now();
  const auto peer = accept_from(
      [&](int socket) { EXPECT_TRUE(send_all(socket, bytes(kHelloBytes + 500), soon()).ok()); }, expecting(some_key()));
  EXPECT_EQ(peer.error().code(), ErrorCode::kCorrupt);
  EXPECT_LT(SteadyClock{}.now() - begin, 15s);
  std::vector<std::byte> rest(2000);
  EXPECT_EQ(*receive_some(ends_.first.get(), rest), 500u);
}

TEST_P(AcceptingTest, ATruncatedHelloIsTheEnd) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kHelloBytes - 1}) {
    const auto peer = accept_from(
        [&](int socket) {
          const Initiator initiator{some_key(), kDriver};
          EXPECT_TRUE(send_all(socket, initiator.hello().first(size), soon()).ok());
          ::shutdown(socket, SHUT_WR);
        },
        expecting(some_key()));
    EXPECT_EQ(peer.error().code(), ErrorCode::kUnavailable) << size;
  }
}

TEST_P(AcceptingTest, SilenceIsRefusedAtTheDeadline) {
  const Key key = some_key();
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, kHelloBytes}) {
    const TimePoint begin = SteadyClock{}.now();
    const auto peer = accept_from(
        [&](int socket) {
          const Initiator initiator{key, kDriver};
          EXPECT_TRUE(send_all(socket, initiator.hello().first(size), soon()).ok());
        },
        expecting(key), 30ms);
    EXPECT_EQ(peer.error().code(), ErrorCode::kDeadlineExceeded) << size;
    const Duration took = SteadyClock{}.now() - begin;
    EXPECT_GE(took, 30ms);
    EXPECT_LT(took, 10s);
  }
}

TEST_P(AcceptingTest, BytesThatComeOneByOneAreEnough) {
  const Key key = some_key();
  const auto peer = accept_from(
      [&](int socket) {
        Initiator initiator{key, kDriver};
        for (const std::byte byte : hello_of(initiator))
          EXPECT_TRUE(send_all(socket, std::span{&byte, 1}, soon()).ok());
        Answer answer;
        ASSERT_TRUE(receive_all(socket, answer, soon()).ok());
        const auto proof = initiator.answer(answer);
        ASSERT_TRUE(proof.ok());
        for (const std::byte byte : *proof) EXPECT_TRUE(send_all(socket, std::span{&byte, 1}, soon()).ok());
      },
      expecting(key));
  EXPECT_TRUE(peer.ok());
}

TEST_P(AcceptingTest, AnInitiatorThatIsNotExpectedIsRefused) {
  const Key key = some_key();
  std::optional<Result<Identity>> seen;
  const auto peer = accept_from([&](int socket) { seen = initiate(socket, key, kDriver, soon()); },
                                [&](Identity who, std::uint64_t) -> std::optional<Key> {
                                  if (who.role == Role::kZygote) return key;
                                  return std::nullopt;
                                });
  EXPECT_EQ(peer.error().code(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(seen->error().code(), ErrorCode::kPermissionDenied);
}

TEST(Initiating, EndsAtItsDeadlineWhenNobodyAnswers) {
  const SocketPair ends = *socket_pair();
  const auto deadline = async::Deadline::after(20ms, SteadyClock{});
  EXPECT_EQ(initiate(ends.first.get(), some_key(), kDriver, deadline).error().code(), ErrorCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace pharos::net
