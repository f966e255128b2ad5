#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <latch>
#include <thread>
#include <vector>

#include <pharos/net/address.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/socket_link.hpp>

#include "allocation_watch.hpp"
#include "pollers.hpp"
#include "seed.hpp"

namespace pharos::net {
namespace {

using wire::FrameHeader;
using wire::FrameKind;

enum class Transport { kUnix, kTcp };

SocketPair connected(Transport transport) {
  if (transport == Transport::kUnix) return *socket_pair();
  const Fd listening = *listen_at({.place = "127.0.0.1"});
  Fd first = *connect_to(*bound_address(listening.get()), soon());
  Fd second{::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  PHAROS_CHECK(second);
  return {std::move(first), std::move(second)};
}

struct Frame {
  FrameHeader header;
  std::vector<std::byte> payload;
};

struct Heard {
  std::vector<Frame> frames;
  std::vector<Fd> descriptors;
  std::vector<Error> closed;
  int idle = 0;
  int room = 0;
};

/// Records the events of a link.
class Listener : public Link::Handler, public Watched<Heard> {
 public:
  explicit Listener(std::function<void()> idle = {}) : idle_{std::move(idle)} {}

  void on_frames(FrameBatch batch, std::vector<Fd> descriptors) override {
    EXPECT_FALSE(inside_.exchange(true)) << "two calls at once";
    change([&](Heard& heard) {
      while (!batch.empty()) {
        const wire::FrameView frame = batch.next();
        heard.frames.push_back({frame.header, {frame.payload.begin(), frame.payload.end()}});
      }
      std::move(descriptors.begin(), descriptors.end(), std::back_inserter(heard.descriptors));
    });
    inside_ = false;
  }
  void on_idle() override {
    change([](Heard& heard) { ++heard.idle; });
    if (idle_) idle_();
  }
  void on_room() override {
    change([](Heard& heard) { ++heard.room; });
  }
  void on_closed(Error why) override {
    change([&](Heard& heard) { heard.closed.push_back(std::move(why)); });
  }

  bool wait_for_frames(std::size_t count) {
    return wait([count](const Heard& heard) { return heard.frames.size() >= count; });
  }
  bool wait_for_end() {
    return wait([](const Heard& heard) { return !heard.closed.empty(); });
  }

 private:
  std::function<void()> idle_;
  std::atomic<bool> inside_ = false;
};

/// Bytes that differ from frame to frame, and are cheap to make.
std::vector<std::byte> payload_of(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> payload(size);
  std::uint64_t state = number * 0x9e3779b97f4a7c15 + 1;
  for (std::byte& byte : payload) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return payload;
}

FrameHeader call(std::uint64_t number, std::size_t payload_bytes = 0) {
  FrameHeader header;
  header.kind = FrameKind::kCall;
  header.number = number;
  header.payload_bytes = static_cast<std::uint32_t>(payload_bytes);
  return header;
}

void append(std::vector<std::byte>& to, const FrameHeader& header, std::span<const std::byte> payload) {
  const auto bytes = std::as_bytes(std::span{&header, 1});
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.insert(to.end(), payload.begin(), payload.end());
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

/// Tests that run on every transport that a link supports.
class SocketLinkTest : public SeededTest, public testing::WithParamInterface<Transport> {
 protected:
  std::shared_ptr<SocketLink> link_on(Fd socket, const std::shared_ptr<Link::Handler>& handler) {
    auto link = SocketLink::make(reactor_, std::move(socket), Descriptors::kRefused);
    link->start(handler);
    return link;
  }

  Reactor reactor_;
  SocketPair ends_ = connected(GetParam());
  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
};
INSTANTIATE_TEST_SUITE_P(Every, SocketLinkTest, testing::Values(Transport::kUnix, Transport::kTcp),
                         [](const auto& chosen) { return chosen.param == Transport::kUnix ? "Unix" : "Tcp"; });

TEST_P(SocketLinkTest, FramesArriveWholeAndInOrderHoweverTheirBytesAreSplit) {
  constexpr std::size_t kFrames = 60;
  const Pollers pollers{reactor_, 2};
  const auto link = link_on(std::move(ends_.first), listener_);
  std::vector<std::byte> stream;
  std::vector<std::size_t> sizes;
  for (std::uint64_t number = 0; number < kFrames; ++number) {
    sizes.push_back(chance(3) ? between(0, 100) : between(0, 300 << 10));
    append(stream, call(number, sizes.back()), payload_of(number, sizes.back()));
  }
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t most = std::min<std::size_t>(stream.size() - at, chance(2) ? 100 : 100'000);
    const std::size_t size = between(1, most);
    ASSERT_TRUE(send_all(ends_.second.get(), std::span{stream}.subspan(at, size), soon()).ok());
    at += size;
  }
  ASSERT_TRUE(listener_->wait_for_frames(kFrames));
  listener_->look([&](const Heard& heard) {
    ASSERT_EQ(heard.frames.size(), kFrames);
    for (std::uint64_t number = 0; number < kFrames; ++number) {
      ASSERT_EQ(heard.frames[number].header.number, number);
      ASSERT_EQ(heard.frames[number].payload, payload_of(number, sizes[number])) << number;
    }
    EXPECT_TRUE(heard.closed.empty());
  });
  link->close();
}

TEST_P(SocketLinkTest, AHeaderArrivesAsItWasSent) {
  const Pollers pollers{reactor_, 1};
  const auto link = link_on(std::move(ends_.first), listener_);
  const auto sender = link_on(std::move(ends_.second), std::make_shared<Listener>());
  FrameHeader header;
  header.kind = FrameKind::kReply;
  header.flags = wire::kUnordered;
  header.attempt = 3;
  header.status = wire::ReplyStatus::kError;
  header.caller = 4;
  header.number = 5;
  header.actor = 6;
  header.incarnation = 7;
  header.function = 8;
  header.trace = 9;
  header.time = -10;
  header.acknowledged = 11;
  header.payload_bytes = 12345;  // send() replaces this value by the size of the payload
  const std::byte payload[3] = {};
  ASSERT_TRUE(sender->send(header, payload));
  sender->flush();
  ASSERT_TRUE(listener_->wait_for_frames(1));
  header.payload_bytes = 3;
  const FrameHeader arrived = [&] {
    FrameHeader first;
    listener_->look([&](const Heard& heard) { first = heard.frames.front().header; });
    return first;
  }();
  EXPECT_EQ(std::memcmp(&arrived, &header, sizeof header), 0);
  link->close();
  sender->close();
}

TEST_P(SocketLinkTest, ALargePayloadArrivesWhole) {
  constexpr std::size_t kSize = std::size_t{20} << 20;
  const Pollers pollers{reactor_, 2};
  const auto link = link_on(std::move(ends_.first), listener_);
  const auto sender = link_on(std::move(ends_.second), std::make_shared<Listener>());
  const auto payload = payload_of(1, kSize);
  ASSERT_TRUE(sender->send(call(1), payload));
  ASSERT_TRUE(sender->send(call(2), {}));
  sender->flush();
  ASSERT_TRUE(listener_->wait_for_frames(2));
  listener_->look([&](const Heard& heard) {
    EXPECT_EQ(heard.frames[0].payload, payload);
    EXPECT_EQ(heard.frames[1].header.number, 2u);
  });
  EXPECT_EQ(sender->queued(), 0u);
  link->close();
  sender->close();
}

TEST_P(SocketLinkTest, TwoThreadsSendWithoutMixingTheirFrames) {
  constexpr std::uint64_t kEach = 3000;
  const Pollers pollers{reactor_, 2};
  const auto link = link_on(std::move(ends_.first), listener_);
  const auto sender = link_on(std::move(ends_.second), std::make_shared<Listener>());
  std::vector<std::thread> threads;
  for (std::uint64_t caller = 0; caller < 2; ++caller) {
    threads.emplace_back([&, caller] {
      for (std::uint64_t number = 0; number < kEach; ++number) {
        FrameHeader header = call(number);
        header.caller = caller;
        const auto payload = payload_of(number * 2 + caller, number % 700);
        ASSERT_TRUE(sender->send(header, payload));
        if (number % 3 == caller) sender->flush();
      }
      sender->flush();
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(listener_->wait_for_frames(2 * kEach));
  listener_->look([&](const Heard& heard) {
    std::uint64_t next[2] = {};
    for (const Frame& frame : heard.frames) {
      const std::uint64_t caller = frame.header.caller;
      ASSERT_LT(caller, 2u);
      ASSERT_EQ(frame.header.number, next[caller]);
      ASSERT_EQ(frame.payload, payload_of(next[caller] * 2 + caller, next[caller] % 700));
      ++next[caller];
    }
  });
  link->close();
  sender->close();
}

TEST_P(SocketLinkTest, ThePeersEndIsToldOnceAfterAllThatItSent) {
  const auto link = SocketLink::make(reactor_, std::move(ends_.first), Descriptors::kRefused);
  std::vector<std::byte> stream;
  for (std::uint64_t number = 0; number < 5; ++number) append(stream, call(number, 10), payload_of(number, 10));
  ASSERT_TRUE(send_all(ends_.second.get(), stream, soon()).ok());
  ends_.second.reset();  // so that the bytes and the end arrive in one event
  link->start(listener_);
  {
    const Pollers pollers{reactor_, 2};
    ASSERT_TRUE(listener_->wait_for_end());
    EXPECT_FALSE(link->send(call(9), {}));
  }
  const Pollers again{reactor_, 1};
  Watched<bool> ran;
  reactor_.post([&] { ran.change([](bool& value) { value = true; }); });
  EXPECT_TRUE(ran.wait([](bool value) { return value; }));
  listener_->look([](const Heard& heard) {
    EXPECT_EQ(heard.frames.size(), 5u);
    ASSERT_EQ(heard.closed.size(), 1u);
    EXPECT_EQ(heard.closed[0].code(), ErrorCode::kUnavailable);
  });
}

TEST_P(SocketLinkTest, AnEndInTheMiddleOfAFrameIsAnEnd) {
  const Pollers pollers{reactor_, 1};
  const auto link = link_on(std::move(ends_.first), listener_);
  std::vector<std::byte> stream;
  append(stream, call(0, 100), payload_of(0, 50));
  ASSERT_TRUE(send_all(ends_.second.get(), stream, soon()).ok());
  ends_.second.reset();
  ASSERT_TRUE(listener_->wait_for_end());
  listener_->look([](const Heard& heard) { EXPECT_TRUE(heard.frames.empty()); });
}

TEST_P(SocketLinkTest, AClaimOfAGibibyteTakesMemoryAsItsBytesCome) {
  constexpr std::size_t kSize = 50 << 20;
  const Pollers pollers{reactor_, 1};
  SocketPair ends = connected(GetParam());
  const auto listener = std::make_shared<Listener>();
  const auto link = link_on(std::move(ends.first), listener);
  largest_allocation();
  FrameHeader large = call(0);
  large.payload_bytes = kSize;
  std::vector<std::byte> stream;
  append(stream, large, std::vector<std::byte>(kSize));
  FrameHeader claim = call(1);
  claim.payload_bytes = 1 << 30;
  append(stream, claim, std::vector<std::byte>(100));
  largest_allocation();
  ASSERT_TRUE(send_all(ends.second.get(), stream, soon()).ok());
  ends.second = {};
  ASSERT_TRUE(listener->wait_for_end());
  EXPECT_LT(largest_allocation(), 2 * kSize);
  listener->look([&](const Heard& heard) {
    ASSERT_EQ(heard.frames.size(), 1u);
    EXPECT_EQ(heard.frames[0].payload.size(), kSize);
  });
}

TEST_P(SocketLinkTest, ABadHeaderEndsItBeforeAnythingIsAllocatedForItsPayload) {
  FrameHeader no_kind = call(1, 1 << 29);
  no_kind.kind = static_cast<FrameKind>(99);
  FrameHeader too_large = call(1, 0);
  too_large.payload_bytes = ~std::uint32_t{0};
  FrameHeader control = call(1, 512 << 20);
  control.kind = FrameKind::kControl;
  FrameHeader no_status = call(1, 512 << 20);
  no_status.status = static_cast<wire::ReplyStatus>(4);
  FrameHeader cancel = call(1, 512 << 20);
  cancel.kind = FrameKind::kCancel;
  const Pollers pollers{reactor_, 1};
  for (const FrameHeader& bad : {no_kind, too_large, control, no_status, cancel}) {
    SocketPair ends = connected(GetParam());
    const auto listener = std::make_shared<Listener>();
    const auto link = link_on(std::move(ends.first), listener);
    largest_allocation();
    std::vector<std::byte> stream;
    append(stream, call(0), {});
    append(stream, bad, {});
    ASSERT_TRUE(send_all(ends.second.get(), stream, soon()).ok());
    ASSERT_TRUE(listener->wait_for_end());
    EXPECT_LT(largest_allocation(), std::size_t{1} << 20);
    listener->look([](const Heard& heard) {
      ASSERT_EQ(heard.closed.size(), 1u);
      EXPECT_EQ(heard.closed[0].code(), ErrorCode::kCorrupt);
      EXPECT_LE(heard.frames.size(), 1u);
    });
    std::byte one[1];
    EXPECT_FALSE(receive_all(ends.second.get(), one, soon()).ok()) << "the peer sees the end";
  }
}

TEST_P(SocketLinkTest, ReadingGoesOnOnAnotherThreadWhileOnIdleBlocks) {
  std::atomic<bool> first = true;
  std::latch blocked{1};
  std::weak_ptr<Listener> itself;
  const auto listener = std::make_shared<Listener>([&] {
    if (!first.exchange(false)) return;
    blocked.count_down();
    EXPECT_TRUE(itself.lock()->wait_for_frames(2)) << "nobody read on";
  });
  itself = listener;
  const Pollers pollers{reactor_, 2};
  const auto link = link_on(std::move(ends_.first), listener);
  std::vector<std::byte> frame;
  append(frame, call(0), {});
  ASSERT_TRUE(send_all(ends_.second.get(), frame, soon()).ok());
  blocked.wait();
  ASSERT_TRUE(send_all(ends_.second.get(), frame, soon()).ok());
  EXPECT_TRUE(listener->wait_for_frames(2));
  link->close();
}

TEST_P(SocketLinkTest, ResumeReadsOnWhatWasLeftForTheHandlerToWorkFirst) {
  constexpr std::size_t kFrames = 100;
  std::atomic<bool> first = true;
  std::latch blocked{1};
  std::weak_ptr<Listener> itself;
  const auto listener = std::make_shared<Listener>([&] {
    if (!first.exchange(false)) return;
    blocked.count_down();
    EXPECT_TRUE(itself.lock()->wait_for_frames(kFrames)) << "nobody read on";
  });
  itself = listener;
  const auto link = SocketLink::make(reactor_, std::move(ends_.first), Descriptors::kRefused);
  std::vector<std::byte> stream;  // more than one buffer; all bytes arrive before reading begins
  for (std::uint64_t number = 0; number < kFrames; ++number)
    append(stream, call(number, 1000), payload_of(number, 1000));
  ASSERT_TRUE(send_all(ends_.second.get(), stream, soon()).ok());
  link->start(listener);
  const Pollers pollers{reactor_, 1};
  blocked.wait();
  link->resume();
  EXPECT_TRUE(listener->wait_for_frames(kFrames));
  link->close();
}

TEST_P(SocketLinkTest, WhatThePeerDoesNotReadIsQueuedUpToABoundAndThenItEnds) {
  const Pollers pollers{reactor_, 1};
  const auto link = link_on(std::move(ends_.first), listener_);
  const std::vector<std::byte> payload(std::size_t{1} << 20);
  std::size_t sent = 0;
  std::size_t queued = 0;
  while (sent < 1000 && link->send(call(sent), payload)) {
    queued = std::max(queued, link->queued());
    link->flush();
    ++sent;
  }
  EXPECT_LT(sent, 1000u) << "no bound";
  EXPECT_GT(queued, 2 * Link::kQueuedMax);
  EXPECT_LE(queued, 2 * Link::kQueuedMax + 2 * payload.size());
  EXPECT_FALSE(link->send(call(0), {}));
  ASSERT_TRUE(listener_->wait_for_end());
  listener_->look([](const Heard& heard) {
    ASSERT_EQ(heard.closed.size(), 1u);
    EXPECT_EQ(heard.closed[0].code(), ErrorCode::kOverloaded) << heard.closed[0].to_string();
  });
}

TEST_P(SocketLinkTest, WhatIsQueuedGoesOnceThePeerReads) {
  constexpr std::size_t kFrames = 30;
  const Pollers pollers{reactor_, 1};
  const auto link = link_on(std::move(ends_.first), listener_);
  const std::vector<std::byte> payload = payload_of(7, std::size_t{1} << 20);
  for (std::uint64_t number = 0; number < kFrames; ++number) ASSERT_TRUE(link->send(call(number), payload));
  link->flush();
  EXPECT_GT(link->queued(), 0u);
  for (std::uint64_t number = 0; number < kFrames; ++number) {
    FrameHeader header;
    std::vector<std::byte> received(payload.size());
    ASSERT_TRUE(receive_all(ends_.second.get(), std::as_writable_bytes(std::span{&header, 1}), soon()).ok());
    ASSERT_TRUE(receive_all(ends_.second.get(), received, soon()).ok());
    ASSERT_EQ(header.number, number);
    ASSERT_EQ(received, payload);
  }
  link->close();
}

TEST_P(SocketLinkTest, WhatWasSentBeforeTheStartGoesOnAfterIt) {
  constexpr std::size_t kFrames = 30;
  const Pollers pollers{reactor_, 1};
  const auto link = SocketLink::make(reactor_, std::move(ends_.first), Descriptors::kRefused);
  const std::vector<std::byte> payload = payload_of(7, std::size_t{1} << 20);
  for (std::uint64_t number = 0; number < kFrames; ++number) ASSERT_TRUE(link->send(call(number), payload));
  link->flush();
  EXPECT_GT(link->queued(), 0u);
  link->start(listener_);
  std::vector<std::byte> received(sizeof(FrameHeader) + payload.size());
  for (std::uint64_t number = 0; number < kFrames; ++number) {
    ASSERT_TRUE(receive_all(ends_.second.get(), received, soon()).ok()) << number;
  }
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), received.begin() + sizeof(FrameHeader)));
  link->close();
}

TEST_P(SocketLinkTest, WhoHasQueuedTooMuchHearsOnceThatThereIsRoom) {
  // 1 MiB each; together more than kQueuedMax and what the kernel may take over TCP, which is 36 MiB by default.
  constexpr std::size_t kFrames = 110;
  const Pollers pollers{reactor_, 1};
  const auto link = link_on(std::move(ends_.first), listener_);
  std::vector<std::byte> frame(std::size_t{1} << 20);
  for (int round = 1; round <= 2; ++round) {
    for (std::uint64_t number = 0; number < kFrames; ++number) ASSERT_TRUE(link->send(call(number), frame));
    link->flush();
    ASSERT_GT(link->queued(), Link::kQueuedMax);
    // A thread that has told of room goes on writing, so the queue may have had room in between while this thread sent.
    int before = 0;
    listener_->look([&](const Heard& heard) { before = heard.room; });
    EXPECT_GE(before, round - 1);
    std::vector<std::byte> received(sizeof(FrameHeader) + frame.size());
    for (std::uint64_t number = 0; number < kFrames; ++number) {
      ASSERT_TRUE(receive_all(ends_.second.get(), received, soon()).ok());
    }
    EXPECT_TRUE(listener_->wait([&](const Heard& heard) { return heard.room == before + 1; }));
    // What the writing thread has not counted as written yet would end the link, with all that the next round queues.
    link->wait_for_room(0, soon());
    ASSERT_EQ(link->queued(), 0u);
  }
  link->close();
}

TEST_P(SocketLinkTest, CloseEndsItForThePeerAndItsOwnHandlerHearsNothing) {
  {
    const Pollers pollers{reactor_, 1};
    const auto link = link_on(std::move(ends_.first), listener_);
    link->close();
    link->close();
    EXPECT_FALSE(link->send(call(0), {}));
    std::byte one[1];
    EXPECT_EQ(receive_all(ends_.second.get(), one, soon()).error().code(), ErrorCode::kUnavailable);
  }
  listener_->look([](const Heard& heard) { EXPECT_TRUE(heard.closed.empty()); });
}

// The peer reads nothing before the link is closed or dropped. After close() the bytes that the kernel had taken still
// arrive; after drop() the connection is reset.
TEST(SocketLinkOverTcp, WhatHasNotArrivedWhenItIsDroppedNeverDoes) {
  for (const bool drops : {false, true}) {
    Reactor reactor;
    auto [first, second] = connected(Transport::kTcp);
    constexpr int kLittle = 64 << 10;
    ASSERT_EQ(::setsockopt(second.get(), SOL_SOCKET, SO_RCVBUF, &kLittle, sizeof kLittle), 0);
    const auto link = SocketLink::make(reactor, std::move(first), Descriptors::kRefused);
    const std::vector<std::byte> payload(1 << 20);
    for (int i = 0; i < 16; ++i) link->send(call(0), payload);
    link->flush();
    drops ? link->drop() : link->close();
    std::vector<std::byte> room(1 << 20);
    ssize_t n = 0;
    std::size_t arrived = 0;
    pollfd readable{.fd = second.get(), .events = POLLIN, .revents = 0};
    do {
      ASSERT_EQ(::poll(&readable, 1, 10'000), 1);
      n = ::recv(second.get(), room.data(), room.size(), 0);
      arrived += n > 0 ? static_cast<std::size_t>(n) : 0;
    } while (n > 0);
    if (drops) {
      EXPECT_EQ(n, -1) << arrived;
      EXPECT_EQ(errno, ECONNRESET);
    } else {
      EXPECT_EQ(n, 0) << std::strerror(errno);
      EXPECT_GT(arrived, 2 * kLittle);
    }
  }
}

TEST_P(SocketLinkTest, MayBeClosedOrDroppedBeforeItIsStarted) {
  SocketLink::make(reactor_, std::move(ends_.first), Descriptors::kRefused)->close();
  std::byte one[1];
  EXPECT_EQ(receive_all(ends_.second.get(), one, soon()).error().code(), ErrorCode::kUnavailable);
  SocketPair others = connected(GetParam());
  SocketLink::make(reactor_, std::move(others.first), Descriptors::kRefused).reset();
  EXPECT_EQ(receive_all(others.second.get(), one, soon()).error().code(), ErrorCode::kUnavailable);
}

TEST_P(SocketLinkTest, ALinkWhoseHandlerIsGoneClosesItself) {
  const Pollers pollers{reactor_, 1};
  const auto link = link_on(std::move(ends_.first), listener_);
  listener_.reset();
  std::vector<std::byte> frame;
  append(frame, call(0), {});
  ASSERT_TRUE(send_all(ends_.second.get(), frame, soon()).ok());
  std::byte one[1];
  EXPECT_EQ(receive_all(ends_.second.get(), one, soon()).error().code(), ErrorCode::kUnavailable);
}

// Descriptors travel over Unix sockets only.

Fd some_file() {
  return Fd{::memfd_create("pharos-test", MFD_CLOEXEC)};
}

ino_t inode_of(const Fd& fd) {
  struct stat status {};
  PHAROS_CHECK(::fstat(fd.get(), &status) == 0);
  return status.st_ino;
}

TEST(SocketLinkDescriptors, ArriveWithTheirFramesInOrder) {
  constexpr std::uint64_t kFrames = 40;
  Reactor reactor;
  SocketPair ends = *socket_pair();
  const auto listener = std::make_shared<Listener>();
  const auto sender = SocketLink::make(reactor, std::move(ends.first), Descriptors::kAccepted);
  const auto receiver = SocketLink::make(reactor, std::move(ends.second), Descriptors::kAccepted);
  sender->start(std::make_shared<Listener>());
  std::vector<ino_t> expected;
  for (std::uint64_t number = 0; number < kFrames; ++number) {
    std::vector<Fd> descriptors;
    for (std::uint64_t i = 0; i < number % 4; ++i) {
      descriptors.push_back(some_file());
      expected.push_back(inode_of(descriptors.back()));
    }
    ASSERT_TRUE(sender->send(call(number), payload_of(number, number * 100), std::move(descriptors)));
    if (number % 5 == 0) sender->flush();
  }
  sender->flush();  // all frames have arrived before the first event
  receiver->start(listener);
  const Pollers pollers{reactor, 2};
  ASSERT_TRUE(listener->wait_for_frames(kFrames));
  listener->look([&](const Heard& heard) {
    std::vector<ino_t> arrived;
    for (const Fd& fd : heard.descriptors) {
      arrived.push_back(inode_of(fd));
      EXPECT_EQ(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    }
    EXPECT_EQ(arrived, expected);
    for (std::uint64_t number = 0; number < kFrames; ++number) {
      EXPECT_EQ(heard.frames[number].payload, payload_of(number, number * 100));
    }
  });
  sender->close();
  receiver->close();
}

TEST(SocketLinkDescriptors, AreThereAtTheLatestWithTheFrameThatSpeaksOfThem) {
  Reactor reactor;
  SocketPair ends = *socket_pair();
  const auto listener = std::make_shared<Listener>();
  const auto sender = SocketLink::make(reactor, std::move(ends.first), Descriptors::kAccepted);
  const auto receiver = SocketLink::make(reactor, std::move(ends.second), Descriptors::kAccepted);
  sender->start(std::make_shared<Listener>());
  receiver->start(listener);
  const Pollers pollers{reactor, 2};
  for (std::size_t round = 1; round <= 50; ++round) {
    std::vector<Fd> descriptors;
    descriptors.push_back(some_file());
    ASSERT_TRUE(sender->send(call(round), payload_of(round, 200'000), std::move(descriptors)));
    sender->flush();
    ASSERT_TRUE(listener->wait_for_frames(round));
    listener->look([round](const Heard& heard) { EXPECT_EQ(heard.descriptors.size(), round); });
  }
  sender->close();
  receiver->close();
}

TEST(SocketLinkDescriptors, ThoseSentToALinkThatRefusesThemAreClosed) {
  Reactor reactor;
  SocketPair ends = *socket_pair();
  const auto listener = std::make_shared<Listener>();
  const auto sender = SocketLink::make(reactor, std::move(ends.first), Descriptors::kAccepted);
  const auto receiver = SocketLink::make(reactor, std::move(ends.second), Descriptors::kRefused);
  sender->start(std::make_shared<Listener>());
  receiver->start(listener);
  const Pollers pollers{reactor, 1};
  const std::size_t before = open_descriptors();
  for (std::uint64_t number = 0; number < 20; ++number) {
    std::vector<Fd> descriptors;
    descriptors.push_back(some_file());
    ASSERT_TRUE(sender->send(call(number), {}, std::move(descriptors)));
    sender->flush();
    ASSERT_TRUE(listener->wait_for_frames(number + 1));
  }
  listener->look([](const Heard& heard) { EXPECT_TRUE(heard.descriptors.empty()); });
  EXPECT_EQ(open_descriptors(), before);
  sender->close();
  receiver->close();
}

TEST(SocketLinkDescriptors, ThoseNeverSentAreClosedWithTheLink) {
  Reactor reactor;
  const std::size_t before = open_descriptors();
  {
    SocketPair ends = *socket_pair();
    const auto sender = SocketLink::make(reactor, std::move(ends.first), Descriptors::kAccepted);
    std::vector<Fd> descriptors;
    descriptors.push_back(some_file());
    ASSERT_TRUE(sender->send(call(0), {}, std::move(descriptors)));
  }
  EXPECT_EQ(open_descriptors(), before);
}

// Sends a frame that never ends, with a descriptor beside each of its bytes.
TEST(SocketLinkDescriptors, MoreThanAFrameCanSpeakOfEndTheLink) {
  Reactor reactor;
  SocketPair ends = *socket_pair();
  const auto listener = std::make_shared<Listener>();
  const auto receiver = SocketLink::make(reactor, std::move(ends.second), Descriptors::kAccepted);
  receiver->start(listener);
  const Pollers pollers{reactor, 1};
  const Fd file = some_file();
  const FrameHeader header = call(0, 1000);
  for (std::size_t i = 0; i < 80; ++i) {
    std::byte byte = i < sizeof header ? std::as_bytes(std::span{&header, 1})[i] : std::byte{0};
    iovec part{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const attached = CMSG_FIRSTHDR(&message);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = file.get();
    std::memcpy(CMSG_DATA(attached), &fd, sizeof fd);
    if (::sendmsg(ends.first.get(), &message, MSG_NOSIGNAL) < 0) break;  // the receiver has closed the link
  }
  ASSERT_TRUE(listener->wait_for_end());
  listener->look([](const Heard& heard) { EXPECT_EQ(heard.closed[0].code(), ErrorCode::kCorrupt); });
}

}  // namespace
}  // namespace pharos::net
