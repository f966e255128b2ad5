// Ranks over TCP that disagree, do not come, stop or die; and strangers that connect.

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pharos/net/blocking_io.hpp>
#include <pharos/net/handshake.hpp>

#include "ranks.hpp"
#include "stream/connections.hpp"
#include "stream/stream.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

TEST(StreamDisagreement, IsToldOnAllRanksWithBothDescriptions) {
  run_streams(3, {}, [](Communicator& ranks) {
    std::vector<float> data(ranks.rank() == 1 ? 100'000 : 9, 1);
    const std::string text = message_of<InvalidArgument>([&] { ranks.all_reduce(std::span{data}); });
    EXPECT_SAYS(text, "called all_reduce(sum of 9 f32)");
    EXPECT_SAYS(text, "called all_reduce(sum of 100000 f32)");
    EXPECT_SAYS(text, "operation 1");
    EXPECT_EQ(message_of<InvalidArgument>([&] { ranks.barrier(); }), text);
  });
}

TEST(StreamAbsence, EndsAtTheDeadlineWithTheNameOfWhoIsMissing) {
  run_streams(3, {.timeout = 5s}, [](Communicator& ranks) {
    std::vector<float> data(100'000);
    if (ranks.rank() == 1) return;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_SAYS(message_of<ActorDied>([&] { ranks.all_reduce(std::span{data}); }),
                "rank 1 has left the group, and all_reduce(sum of 100000 f32), operation 1, waits for it");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  });
  run_streams(3, {.timeout = 300ms}, [](Communicator& ranks) {
    std::vector<float> data(100'000);
    if (ranks.rank() == 1) return std::this_thread::sleep_for(1s);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_SAYS(message_of<DeadlineExceeded>([&] { ranks.all_reduce(std::span{data}); }),
                "all_reduce(sum of 100000 f32), operation 1, waits for rank 1");
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 200ms);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 900ms);
  });
  const Join join = join_streams(2, {.timeout = 200ms});
  EXPECT_SAYS(join(0).error().message(), "rank 1 did not join the group in time");
}

TEST(StreamAbsence, WhoGivesUpSaysWhyToTheOthersAtOnce) {
  run_processes(3, {}, join_streams(3, {.timeout = 20s}), [](Communicator& ranks) {
    const auto begin = std::chrono::steady_clock::now();
    if (ranks.rank() == 2) return ranks.abort("the loss is not a number");
    EXPECT_SAYS(message_of<Cancelled>([&] { ranks.barrier(); }), "rank 2 has given up: the loss is not a number");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  });
}

TEST(StreamPace, IsKept) {
  const CommunicatorOptions options{.timeout = 20s, .bytes_per_second = 100'000'000};
  run_streams(2, options, [](Communicator& ranks) {
    std::vector<float> data(5'000'000, 1);  // each rank sends half of it, and half of the sums
    ranks.barrier();
    const auto begin = std::chrono::steady_clock::now();
    ranks.all_reduce(std::span{data});
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 190ms);
    EXPECT_EQ(data[4'999'999], 2);
  });
}

TEST(StreamBf16, IsTheSameBitsOnAllRanks) {
  for (const bool on_machines : {false, true}) {
    const CommunicatorOptions options{.bf16_over_tcp = true};
    const auto rank = [&](Communicator& ranks) {
      for (const std::size_t n : {0UL, 1UL, 1000UL, 100'000UL}) {
        std::vector<float> own(n * ranks.size());
        float sum = 0;
        for (std::uint32_t each = 0; each < ranks.size(); ++each) sum += 1.0F / static_cast<float>(each + 3);
        std::fill(own.begin(), own.end(), 1.0F / static_cast<float>(ranks.rank() + 3));
        std::vector<float> piece(n);
        ranks.reduce_scatter(std::span<const float>{own}, std::span{piece});
        ranks.all_reduce(std::span{own});
        for (const auto& results : {own, piece}) {
          for (const float each : results) ASSERT_NEAR(each, sum, sum / 128) << n;
          for (const float each : results) ASSERT_EQ(each, to_float(to_bfloat16(each))) << n;
        }
        std::vector<float> all(own.size() * ranks.size());
        ranks.all_gather(std::span<const float>{own}, std::span{all});
        for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], own[i % own.size()]);
        std::vector<double> exact(3, 1.0 / 3);
        ranks.all_reduce(std::span{exact}, Reduction::kMax);
        EXPECT_EQ(exact[2], 1.0 / 3);
      }
    };
    on_machines ? run_machines(2, 2, options, rank) : run_streams(3, options, rank);
  }
}

TEST(StreamStop, IsADeadlineWithTheRank) {
  run_processes(2, {.timeout = 1s}, join_streams(2, {.timeout = 20s}), [](Communicator& ranks) {
    std::int64_t process = ::getpid();
    std::vector<std::int64_t> all(2);
    ranks.all_gather(std::span<const std::int64_t>{&process, 1}, std::span{all});
    if (ranks.rank() == 1) {
      message_of<DeadlineExceeded>([&] {
        for (;;) ranks.barrier();
      });
      return;
    }
    ::kill(static_cast<pid_t>(all[1]), SIGSTOP);
    EXPECT_SAYS(message_of<DeadlineExceeded>([&] {
                  for (;;) ranks.barrier();
                }),
                "waits for rank 1");
    ::kill(static_cast<pid_t>(all[1]), SIGCONT);
  });
}

TEST(StreamStrangers, WithoutTheKeyAreNobodyAndRanksFindEachOther) {
  auto first = net::listen_at({.unix_socket = false, .place = "127.0.0.1", .port = 0});
  auto second = net::listen_at({.unix_socket = false, .place = "127.0.0.1", .port = 0});
  ASSERT_TRUE(first && second);
  const net::Address address = *net::bound_address(first->get());
  const std::vector<std::string> addresses{address.to_string(), net::bound_address(second->get())->to_string()};
  net::Key key;
  net::Key wrong;
  fill_random(key);
  fill_random(wrong);
  const auto silent = net::connect_to(address, Deadline::in(1s));
  const auto liar = net::connect_to(address, Deadline::in(1s));
  std::thread lies{[&] {
    EXPECT_FALSE(net::initiate(liar->get(), wrong, {net::Role::kWorker, 2}, Deadline::in(10s)));
  }};
  std::thread other{[&] {
    const auto backend = StreamBackend::make(*second, addresses, key, 1, {.timeout = 20s});
    EXPECT_TRUE(backend);
  }};
  EXPECT_TRUE(StreamBackend::make(*first, addresses, key, 0, {.timeout = 20s}));
  lies.join();
  other.join();
}

TEST(StreamForming, EndsWhenARankDiesThatWasThereAlready) {
  auto first = net::listen_at({.unix_socket = false, .place = "127.0.0.1", .port = 0});
  ASSERT_TRUE(first);
  const net::Address address = *net::bound_address(first->get());
  net::Key key;
  fill_random(key);
  std::thread dying{[&] {
    auto socket = net::connect_to(address, Deadline::in(5s));
    ASSERT_TRUE(socket);
    ASSERT_TRUE(net::initiate(socket->get(), key, {net::Role::kWorker, PeerSockets::kStreams}, Deadline::in(5s)));
  }};
  const auto begin = std::chrono::steady_clock::now();
  const auto backend = StreamBackend::make(*first, {3, address.to_string()}, key, 0, {.timeout = 20s});
  ASSERT_FALSE(backend);
  EXPECT_SAYS(backend.error().message(), "rank 1 has died before all ranks had joined the group");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  dying.join();
}

/// What the ranks of a group of four know when they look for each other. All of them look at the socket of rank 0.
struct Four {
  Four() { fill_random(key); }
  net::Key key{};
  const Result<Fd> listener = net::listen_at({.unix_socket = false, .place = "127.0.0.1", .port = 0});
  const net::Address address = *net::bound_address(listener->get());
  const std::vector<std::string> addresses{4, address.to_string()};
};

/// Returns a socket that rank 0 takes for a socket of `rank`.
Fd come_to(const net::Address& address, const net::Key& key, std::uint64_t rank) {
  auto socket = net::connect_to(address, Deadline::in(5s));
  EXPECT_TRUE(socket);
  const net::Identity self{net::Role::kWorker, rank};
  EXPECT_TRUE(net::initiate(socket->get(), key, self, Deadline::in(5s)));
  return *std::move(socket);
}

/// Rank 3 never comes. The message that rank 0 sends to rank 1 is then sent to rank 1 of another group.
TEST(StreamForming, WhoGivesUpTellsThoseItHasFoundWhy) {
  const Four four;
  std::optional<Result<Connections>> looked;
  std::jthread rank_0{
      [&] { looked = connect_ranks(*four.listener, four.addresses, four.key, 0, 1, Deadline::in(20s)); }};
  const auto begin = std::chrono::steady_clock::now();
  const Fd rank_1 = come_to(four.address, four.key, 1);
  come_to(four.address, four.key, 2);  // this connection is closed at once
  StreamMessage message;
  ASSERT_TRUE(net::receive_all(rank_1.get(), std::as_writable_bytes(std::span{&message, 1}), Deadline::in(10s)));
  EXPECT_EQ(message.kind, StreamMessage::Kind::kGaveUp);
  ASSERT_TRUE(message.makes_sense());
  std::string text(message.bytes, ' ');
  ASSERT_TRUE(net::receive_all(rank_1.get(), std::as_writable_bytes(std::span{text}), Deadline::in(10s)));
  EXPECT_SAYS(text, "rank 2 has died before all ranks had joined the group");
  rank_0.join();
  ASSERT_FALSE(*looked);

  std::jthread rank_1_of_others{[&] {
    const auto others = net::listen_at({.unix_socket = false, .place = "127.0.0.1", .port = 0});
    ASSERT_TRUE(others);
    looked = connect_ranks(*others, four.addresses, four.key, 1, 1, Deadline::in(20s));
  }};
  pollfd comes{.fd = four.listener->get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&comes, 1, 5000), 1);
  const Fd guest{::accept4(four.listener->get(), nullptr, nullptr, SOCK_CLOEXEC)};
  ASSERT_TRUE(net::accept(
      guest.get(), {net::Role::kWorker, 0}, [&](net::Identity, std::uint64_t) { return four.key; }, Deadline::in(5s)));
  ASSERT_TRUE(net::send_all(guest.get(), std::as_bytes(std::span{&message, 1}), Deadline::in(5s)));
  ASSERT_TRUE(net::send_all(guest.get(), std::as_bytes(std::span{text}), Deadline::in(5s)));
  ::shutdown(guest.get(), SHUT_WR);
  rank_1_of_others.join();
  ASSERT_FALSE(*looked);
  EXPECT_EQ(looked->error().code(), ErrorCode::kActorDied);
  EXPECT_SAYS(looked->error().message(), "rank 2 has died before all ranks had joined the group");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

/// Rank 1 has connected, and its handshake is over only once rank 2 has died. Rank 3 never comes.
TEST(StreamForming, WhoGivesUpTellsThoseThatHaveJustComeWhy) {
  const Four four;
  std::jthread rank_0{
      [&] { EXPECT_FALSE(connect_ranks(*four.listener, four.addresses, four.key, 0, 1, Deadline::in(20s))); }};
  const auto rank_1 = net::connect_to(four.address, Deadline::in(5s));
  ASSERT_TRUE(rank_1);
  come_to(four.address, four.key, 2);  // this connection is closed at once
  ASSERT_TRUE(net::initiate(rank_1->get(), four.key, {net::Role::kWorker, 1}, Deadline::in(5s)));
  StreamMessage message;
  ASSERT_TRUE(net::receive_all(rank_1->get(), std::as_writable_bytes(std::span{&message, 1}), Deadline::in(10s)));
  ASSERT_EQ(message.kind, StreamMessage::Kind::kGaveUp);
  ASSERT_TRUE(message.makes_sense());
  std::string text(message.bytes, ' ');
  ASSERT_TRUE(net::receive_all(rank_1->get(), std::as_writable_bytes(std::span{text}), Deadline::in(10s)));
  EXPECT_SAYS(text, "rank 2 has died before all ranks had joined the group");
}

/// A peer that has the key but sends nonsense.
TEST(StreamStrangers, BytesThatMakeNoSenseEndTheGroupAndAllocateNothing) {
  auto first = net::listen_at({.unix_socket = false, .place = "127.0.0.1", .port = 0});
  ASSERT_TRUE(first);
  const net::Address address = *net::bound_address(first->get());
  net::Key key;
  fill_random(key);
  const std::vector<StreamMessage> nonsense{
      {.kind = static_cast<StreamMessage::Kind>(77)},
      {.kind = StreamMessage::Kind::kData, .number = 1, .bytes = std::uint64_t{1} << 60},
      {.kind = StreamMessage::Kind::kFailed, .bytes = std::uint64_t{1} << 40},
      {.kind = StreamMessage::Kind::kBegun, .number = std::uint64_t{1} << 50},
      {.kind = StreamMessage::Kind::kBegun, .operation = {.kind = static_cast<Operation::Kind>(99)}},
      {.kind = StreamMessage::Kind::kBegun, .number = 0},
  };
  for (const StreamMessage& message : nonsense) {
    std::thread stranger{[&] {
      std::vector<Fd> sockets;
      for (std::uint32_t stream = 0; stream < PeerSockets::kStreams; ++stream) {
        auto socket = net::connect_to(address, Deadline::in(5s));
        ASSERT_TRUE(socket);
        const net::Identity self{net::Role::kWorker, PeerSockets::kStreams + stream};
        ASSERT_TRUE(net::initiate(socket->get(), key, self, Deadline::in(5s)));
        sockets.push_back(*std::move(socket));
      }
      EXPECT_TRUE(net::send_all(sockets[0].get(), std::as_bytes(std::span{&message, 1}), Deadline::in(1s)));
      // The messages of the rank before it leaves, until the connection ends.
      std::vector<std::byte> said(1 << 20);
      EXPECT_FALSE(net::receive_all(sockets[0].get(), said, Deadline::in(10s)));
    }};
    auto backend = StreamBackend::make(*first, {address.to_string(), address.to_string()}, key, 0, {.timeout = 20s});
    ASSERT_TRUE(backend);
    const auto work = (*backend)->begin({.kind = Operation::Kind::kBarrier}, {});
    const auto ended = (*backend)->finish(*work, 20s);
    ASSERT_FALSE(ended);
    EXPECT_SAYS(ended.error().message(), "rank 1 cannot be reached any more: it ");
    backend->reset();
    stranger.join();
  }
}

}  // namespace
}  // namespace pharos::ml
