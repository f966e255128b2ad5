#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/async/block_on.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/socket_link.hpp>

#include "pollers.hpp"

namespace pharos::net {
namespace {

using namespace std::chrono_literals;
using wire::FrameHeader;
using wire::FrameKind;

struct Told {
  std::vector<wire::Message> messages;
  std::vector<std::size_t> descriptors;
  std::vector<std::uint64_t> requests;
  std::vector<Error> closed;
};

/// Records all messages and closings, and answers requests by calling `answer`.
class Recorder : public Peer::Owner, public Watched<Told> {
 public:
  using Answer = std::function<void(Peer&, const wire::Message&, std::uint64_t request)>;
  explicit Recorder(Answer answer = {}) : answer_{std::move(answer)} {}

  void on_message(Peer& from, Parcel parcel, std::optional<std::uint64_t> request) override {
    if (request && answer_) answer_(from, parcel.message, *request);
    change([&](Told& told) {
      told.messages.push_back(parcel.message);
      told.descriptors.push_back(parcel.descriptors.size());
      if (request) told.requests.push_back(*request);
    });
  }
  void on_peer_closed(Peer&, const Error& why) override {
    change([&](Told& told) { told.closed.push_back(why); });
  }

 private:
  Answer answer_;
};

async::Async<Result<Parcel>> ask(std::shared_ptr<Peer> peer, wire::Message message, async::Deadline deadline) {
  co_return co_await peer->request(std::move(message), {}, deadline);
}

async::Async<void> close_on_executor(std::shared_ptr<Peer> peer) {
  peer->close();
  co_return;
}

class PeerTest : public testing::Test {
 protected:
  PeerTest() { ends_ = *socket_pair(); }
  ~PeerTest() override {
    for (const auto& peer : peers_) async::block_on(reactor_, close_on_executor(peer));
  }

  std::shared_ptr<Peer> peer_on(Fd socket, Peer::Owner& owner) {
    const auto link = SocketLink::make(reactor_, std::move(socket), Descriptors::kAccepted);
    const auto peer = Peer::make(reactor_, link, owner);
    peers_.push_back(peer);
    link->start(peer);
    return peer;
  }
  Result<Parcel> request(const std::shared_ptr<Peer>& peer, wire::Message message, async::Deadline deadline = soon()) {
    return async::block_on(reactor_, ask(peer, std::move(message), deadline));
  }

  Recorder& recorder(Recorder::Answer answer = {}) {
    return *recorders_.emplace_back(std::make_unique<Recorder>(std::move(answer)));
  }

  Reactor reactor_;
  SocketPair ends_;
  Recorder mine_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
  std::vector<std::shared_ptr<Peer>> peers_;
  const Pollers pollers_{reactor_, 2};
};

template <class T>
bool is(const wire::Message& message) {
  return std::holds_alternative<T>(message);
}

TEST_F(PeerTest, MessagesArriveInOrder) {
  Recorder& theirs = recorder();
  const auto here = peer_on(std::move(ends_.first), mine_);
  peer_on(std::move(ends_.second), theirs);
  for (std::int32_t i = 0; i < 100; ++i) EXPECT_TRUE(here->send(wire::WorkerReaped{WorkerId{1}, i}));
  ASSERT_TRUE(theirs.wait([](const Told& told) { return told.messages.size() == 100; }));
  const Told told = theirs.value();
  for (std::int32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(std::get<wire::WorkerReaped>(told.messages[static_cast<std::size_t>(i)]).status, i);
  }
  EXPECT_TRUE(told.requests.empty()) << "a message that asks for no answer";
}

TEST_F(PeerTest, ARequestGetsItsResponseAndWhatBelongsToIt) {
  Recorder& theirs = recorder([](Peer& from, const wire::Message& message, std::uint64_t number) {
    std::vector<Fd> socket;
    socket.emplace_back(::memfd_create("pharos-test", MFD_CLOEXEC));
    const auto actor = std::get<wire::StartActor>(message).actor.value();
    from.respond(number, wire::WorkerReady{WorkerId{actor * 2}, ActorId{actor}, 2, 3}, std::move(socket));
  });
  const auto here = peer_on(std::move(ends_.first), mine_);
  peer_on(std::move(ends_.second), theirs);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    const auto response = request(here, wire::StartActor{ActorId{i}, "actor"});
    ASSERT_TRUE(response.ok()) << response.error().to_string();
    EXPECT_EQ(std::get<wire::WorkerReady>(response->message).worker, WorkerId{i * 2});
    EXPECT_EQ(response->descriptors.size(), 1u);
  }
}

TEST_F(PeerTest, ResponsesReachTheirRequestsInWhateverOrderTheyCome) {
  std::vector<std::uint64_t> numbers;  // used by the executor's callbacks only
  std::vector<std::string> labels;
  Recorder& theirs = recorder([&](Peer& from, const wire::Message& message, std::uint64_t number) {
    numbers.push_back(number);
    labels.push_back(std::get<wire::StartActor>(message).label);
    if (numbers.size() < 3) return;
    for (const std::size_t i : {2u, 0u, 1u}) from.respond(numbers[i], wire::WorkerEnded{WorkerId{1}, labels[i]});
  });
  const auto here = peer_on(std::move(ends_.first), mine_);
  peer_on(std::move(ends_.second), theirs);
  std::vector<std::thread> threads;
  for (const std::string label : {"a", "b", "c"}) {
    threads.emplace_back([&, label] {
      const auto response = request(here, wire::StartActor{ActorId{1}, label});
      ASSERT_TRUE(response.ok()) << response.error().to_string();
      EXPECT_EQ(std::get<wire::WorkerEnded>(response->message).reason, label);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(PeerTest, AFailureArrivesAsTheErrorThatItCarries) {
  Recorder& theirs = recorder([](Peer& from, const wire::Message&, std::uint64_t number) {
    from.respond(number, Error{ErrorCode::kExhausted, "no worker can start", "Add memory."}.with("leasing"));
  });
  const auto here = peer_on(std::move(ends_.first), mine_);
  peer_on(std::move(ends_.second), theirs);
  const auto response = request(here, wire::LeaseWorker{});
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code(), ErrorCode::kExhausted);
  EXPECT_EQ(response.error().to_string(), "leasing: no worker can start. Add memory.");
}

TEST_F(PeerTest, ARequestEndsAtItsDeadlineAndItsLateResponseIsNobodys) {
  Recorder& theirs = recorder();
  const auto here = peer_on(std::move(ends_.first), mine_);
  const auto there = peer_on(std::move(ends_.second), theirs);
  const auto late = request(here, wire::LeaseWorker{}, async::Deadline::after(20ms, reactor_));
  EXPECT_EQ(late.error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(late.error().outcome(), Outcome::kUnknown);
  ASSERT_TRUE(theirs.wait([](const Told& told) { return told.requests.size() == 1; }));
  EXPECT_TRUE(there->respond(theirs.value().requests[0], wire::WorkerEnded{WorkerId{1}, "late"}));

  std::thread answering{[&] {
    ASSERT_TRUE(theirs.wait([](const Told& told) { return told.requests.size() == 2; }));
    there->respond(theirs.value().requests[1], wire::WorkerEnded{WorkerId{2}, "in time"});
  }};
  const auto response = request(here, wire::LeaseWorker{});
  answering.join();
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(std::get<wire::WorkerEnded>(response->message).reason, "in time");
  EXPECT_TRUE(mine_.value().messages.empty()) << "the late one was taken for a message";
}

TEST_F(PeerTest, TheEndOfTheLinkFailsEveryRequestAndIsToldOnce) {
  const auto here = peer_on(std::move(ends_.first), mine_);
  std::vector<std::thread> threads;
  Watched<int> failed;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const auto response = request(here, wire::LeaseWorker{});
      EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
      EXPECT_EQ(response.error().outcome(), Outcome::kUnknown) << "it may have been met";
      failed.change([](int& count) { ++count; });
    });
  }
  // Once the bytes of all three requests have arrived, all three are under way.
  const std::size_t each = sizeof(FrameHeader) + wire::encode(wire::LeaseWorker{}).size();
  std::vector<std::byte> received(3 * each);
  ASSERT_TRUE(receive_all(ends_.second.get(), received, soon()).ok());
  ends_.second.reset();
  EXPECT_TRUE(failed.wait([](int count) { return count == 3; }));
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(mine_.wait([](const Told& told) { return !told.closed.empty(); }));

  const auto after = request(here, wire::LeaseWorker{});
  EXPECT_EQ(after.error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(after.error().outcome(), Outcome::kNotStarted);
  EXPECT_FALSE(here->send(wire::Stop{}));
  EXPECT_EQ(mine_.value().closed.size(), 1u);
}

TEST_F(PeerTest, CloseFailsItsRequestsAndItsOwnerHearsNothing) {
  const auto here = peer_on(std::move(ends_.first), mine_);
  std::thread asking{[&] { EXPECT_EQ(request(here, wire::LeaseWorker{}).error().code(), ErrorCode::kUnavailable); }};
  const std::size_t size = sizeof(FrameHeader) + wire::encode(wire::LeaseWorker{}).size();
  std::vector<std::byte> received(size);
  ASSERT_TRUE(receive_all(ends_.second.get(), received, soon()).ok());
  async::block_on(reactor_, close_on_executor(here));
  asking.join();
  EXPECT_TRUE(mine_.value().closed.empty());
}

TEST_F(PeerTest, DescriptorsArriveWithTheMessageThatSpeaksOfThem) {
  Recorder& theirs = recorder();
  const auto here = peer_on(std::move(ends_.first), mine_);
  peer_on(std::move(ends_.second), theirs);
  const auto files = [](std::size_t count) {
    std::vector<Fd> result;
    for (std::size_t i = 0; i < count; ++i) result.emplace_back(::memfd_create("pharos-test", MFD_CLOEXEC));
    return result;
  };
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(here->send(wire::Stop{}));
    EXPECT_TRUE(here->send(wire::ForkWorker{WorkerId{i}}, files(3)));
    EXPECT_TRUE(here->send(wire::ServeCaller{CallerId{i}, {}, 0}, files(1)));
  }
  ASSERT_TRUE(theirs.wait([](const Told& told) { return told.messages.size() == 60; }));
  const Told told = theirs.value();
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(told.descriptors[i], wire::descriptors_of(told.messages[i])) << i;
}

TEST_F(PeerTest, AMessageTooLargeToTravelIsRefusedWhereItIsSentAndTheConnectionGoesOn) {
  Recorder& theirs = recorder();
  const auto here = peer_on(std::move(ends_.first), mine_);
  peer_on(std::move(ends_.second), theirs);
  const wire::Output large{"worker", 1, false, std::string(wire::kControlPayloadMax.bytes(), 'x')};
  const auto outcome = request(here, large);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(outcome.error().outcome(), Outcome::kNotStarted);
  EXPECT_NE(outcome.error().message().find("4 MiB"), std::string::npos) << outcome.error().message();
  EXPECT_FALSE(here->send(large));
  EXPECT_TRUE(here->send(wire::Stop{}));
  ASSERT_TRUE(theirs.wait([](const Told& told) { return told.messages.size() == 1; }));
}

TEST_F(PeerTest, AnAnswerTooLargeToTravelIsAFailure) {
  Recorder& theirs = recorder([](Peer& peer, const wire::Message&, std::uint64_t number) {
    EXPECT_TRUE(
        peer.respond(number, wire::Output{"worker", 1, false, std::string(wire::kControlPayloadMax.bytes(), 'x')}));
  });
  const auto here = peer_on(std::move(ends_.first), mine_);
  peer_on(std::move(ends_.second), theirs);
  EXPECT_EQ(request(here, wire::LeaseWorker{}).error().code(), ErrorCode::kInvalidArgument);
}

class BrokenPeerTest : public PeerTest {
 protected:
  void send_frame(FrameKind kind, std::span<const std::byte> payload) {
    FrameHeader header;
    header.kind = kind;
    header.number = ++number_;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    ASSERT_TRUE(send_all(ends_.second.get(), std::as_bytes(std::span{&header, 1}), soon()).ok());
    ASSERT_TRUE(send_all(ends_.second.get(), payload, soon()).ok());
  }
  void expect_closed() {
    ASSERT_TRUE(mine_.wait([](const Told& told) { return !told.closed.empty(); }));
    EXPECT_EQ(mine_.value().closed[0].code(), ErrorCode::kCorrupt) << mine_.value().closed[0].to_string();
    EXPECT_EQ(mine_.value().closed.size(), 1u);
    std::byte one[1];
    EXPECT_FALSE(receive_all(ends_.second.get(), one, soon()).ok()) << "the other side sees the end";
  }
  std::uint64_t number_ = 0;
};

TEST_F(BrokenPeerTest, AMessageOrARequestThatComesTwiceIsTakenOnce) {
  peer_on(std::move(ends_.first), mine_);
  for (const FrameKind kind : {FrameKind::kControl, FrameKind::kRequest}) {
    number_ = 4;
    send_frame(kind, wire::encode(wire::LeaseWorker{}));
    number_ = 4;
    send_frame(kind, wire::encode(wire::LeaseWorker{}));
  }
  send_frame(FrameKind::kControl, wire::encode(wire::Stop{}));
  ASSERT_TRUE(mine_.wait([](const Told& told) { return told.messages.size() >= 3; }));
  EXPECT_TRUE(is<wire::Stop>(mine_.value().messages[2]));
}

TEST_F(BrokenPeerTest, GarbageInsteadOfAMessageEndsItAfterWhatCameBefore) {
  peer_on(std::move(ends_.first), mine_);
  send_frame(FrameKind::kControl, wire::encode(wire::Stop{}));
  send_frame(FrameKind::kControl, std::vector<std::byte>(48, std::byte{0xab}));
  expect_closed();
  EXPECT_EQ(mine_.value().messages.size(), 1u);
}

TEST_F(BrokenPeerTest, ACallOnAConnectionForControlMessagesEndsIt) {
  peer_on(std::move(ends_.first), mine_);
  send_frame(FrameKind::kCall, wire::encode(wire::Stop{}));
  expect_closed();
  EXPECT_TRUE(mine_.value().messages.empty());
}

TEST_F(BrokenPeerTest, AMessageWithoutTheDescriptorsThatItSpeaksOfEndsIt) {
  peer_on(std::move(ends_.first), mine_);
  send_frame(FrameKind::kControl, wire::encode(wire::ServeCaller{CallerId{1}, ActorId{2}, 3}));
  expect_closed();
}

TEST_F(BrokenPeerTest, AResponseThatNobodyAskedForIsIgnored) {
  peer_on(std::move(ends_.first), mine_);
  send_frame(FrameKind::kResponse, wire::encode(wire::Done{}));
  send_frame(FrameKind::kControl, wire::encode(wire::Stop{}));
  ASSERT_TRUE(mine_.wait([](const Told& told) { return !told.messages.empty(); }));
  EXPECT_TRUE(is<wire::Stop>(mine_.value().messages[0]));
}

}  // namespace
}  // namespace pharos::net
