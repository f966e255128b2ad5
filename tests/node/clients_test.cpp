#include "node/clients.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/async/manual_executor.hpp>

#include "bare_host.hpp"

namespace pharos::node {
namespace {

/// Connections whose other ends are this test. It is also their owner, which takes those that have ended as Node does.
class ClientsTest : public testing::Test, public net::Peer::Owner {
 protected:
  using Peers = std::vector<const net::Peer*>;
  using Callers = std::vector<CallerId>;

  /// Ends the coroutines before the connections that they use.
  void TearDown() override {
    tests_.cancel();
    executor_.run_until_idle();
  }

  void on_message(net::Peer& from, net::Parcel, std::optional<std::uint64_t>) override { heard_.push_back(&from); }
  void on_peer_closed(net::Peer& peer, const Error&) override {
    ended_.push_back(&peer);
    taken_ = clients_.take_closed(peer);
  }

  /// A connection of which nothing is known. Its other end is wire().
  std::shared_ptr<net::Peer> add() { return clients_.add(Fd{}, net::Descriptors::kAccepted); }
  /// The connection of a driver or, if there is no caller, of a zygote.
  Client add(JobId id, CallerId caller) {
    auto job = std::make_shared<Job>();
    job->id = id;
    Client client{add(), std::move(job), nullptr, caller};
    clients_.set(client);
    return client;
  }
  KeptWire& wire() const { return *host_.wires.back(); }
  /// Something comes over this connection.
  void receive(KeptWire& from) {
    from.receive(wire::FrameKind::kControl, ++last_number_, wire::Done{});
    executor_.run_until_idle();
  }
  void break_off(KeptWire& broken) {
    broken.break_off();
    executor_.run_until_idle();
  }
  /// Asks something to which no answer comes. When that fails, failed_ gets the caller, and error_ says why.
  void ask(const Client& client) {
    tests_.spawn(wait_for_answer(client));
    executor_.run_until_idle();
  }
  async::Async<void> wait_for_answer(Client client) {
    const auto answer = co_await client.peer->request(wire::Done{}, std::vector<Fd>{}, async::Deadline::never());
    failed_.push_back(client.caller);
    error_ = answer.error();
  }

  async::ManualExecutor executor_;
  BareHost host_{executor_};
  std::uint64_t last_number_ = 0;
  Peers heard_;
  Peers ended_;
  std::optional<Client> taken_;
  Callers failed_;
  std::optional<Error> error_;
  Clients clients_{executor_, host_, *this};
  async::AsyncGroup tests_{executor_};
};

TEST_F(ClientsTest, TheHostMakesALinkOfTheSocketAndIsToldWhetherMessagesMayBringDescriptors) {
  for (const auto descriptors : {net::Descriptors::kAccepted, net::Descriptors::kRefused}) {
    Fd socket{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    ASSERT_TRUE(socket);
    const int number = socket.get();
    clients_.add(std::move(socket), descriptors);
    EXPECT_EQ(wire().socket.get(), number);
    EXPECT_EQ(wire().descriptors, descriptors);
  }
}

TEST_F(ClientsTest, NothingIsKnownOfANewConnection) {
  const auto peer = add();
  EXPECT_TRUE(clients_.contains(*peer));
  EXPECT_EQ(clients_.size(), 1U);
  const auto client = clients_.find(*peer);
  ASSERT_TRUE(client);
  EXPECT_EQ(client->peer, peer);
  EXPECT_EQ(client->job, nullptr);
  EXPECT_EQ(client->worker, nullptr);
  EXPECT_FALSE(client->caller);
}

TEST_F(ClientsTest, TheOwnerIsToldWhatComesOverAConnectionAndOfItsEnd) {
  add();
  const auto peer = add();
  receive(wire());
  EXPECT_EQ(heard_, Peers{peer.get()});
  EXPECT_EQ(ended_, Peers{});
  break_off(wire());
  EXPECT_EQ(heard_, Peers{peer.get()});
  EXPECT_EQ(ended_, Peers{peer.get()});
}

TEST_F(ClientsTest, WhatAConnectionIsForIsKnownOnceItIsSaid) {
  const auto other = add();
  const auto peer = add();
  const auto job = std::make_shared<Job>();
  const auto worker = std::make_shared<Worker>();
  clients_.set({peer, job, worker, CallerId{4}});
  const auto client = clients_.find(*peer);
  ASSERT_TRUE(client);
  EXPECT_EQ(client->peer, peer);
  EXPECT_EQ(client->job, job);
  EXPECT_EQ(client->worker, worker);
  EXPECT_EQ(client->caller, CallerId{4});
  EXPECT_EQ(clients_.find(*other)->job, nullptr);
  EXPECT_EQ(clients_.size(), 2U);
}

TEST_F(ClientsTest, AConnectionThatHasEndedIsTakenOnce) {
  const auto other = add();
  const Client client = add(JobId{3}, CallerId{4});
  break_off(wire());
  ASSERT_TRUE(taken_);
  EXPECT_EQ(taken_->peer, client.peer);
  EXPECT_EQ(taken_->job, client.job);
  EXPECT_EQ(taken_->caller, CallerId{4});
  EXPECT_FALSE(clients_.take_closed(*client.peer));
  EXPECT_FALSE(clients_.find(*client.peer));
  EXPECT_FALSE(clients_.contains(*client.peer));
  EXPECT_TRUE(clients_.contains(*other));
  EXPECT_EQ(clients_.size(), 1U);
}

TEST_F(ClientsTest, AForgottenConnectionIsNotFoundAndIsClosedByTheCaller) {
  const auto other = add();
  const auto peer = add();
  clients_.erase(*peer);
  EXPECT_FALSE(clients_.find(*peer));
  EXPECT_FALSE(clients_.contains(*peer));
  EXPECT_TRUE(clients_.contains(*other));
  EXPECT_EQ(clients_.size(), 1U);
  EXPECT_FALSE(wire().closed);
}

TEST_F(ClientsTest, AForgottenConnectionThatEndsIsNotTaken) {
  const Client client = add(JobId{3}, CallerId{4});
  clients_.erase(*client.peer);
  break_off(wire());
  EXPECT_EQ(ended_, Peers{client.peer.get()});
  EXPECT_FALSE(taken_);
}

TEST_F(ClientsTest, ACallbackRunsOnceWhenItsConnectionHasEndedAndIsForgotten) {
  const auto peer = add();
  KeptWire& connection = wire();
  const auto runs = std::make_shared<int>(0);
  clients_.when_gone(*peer, [this, &peer, runs] {
    ++*runs;
    EXPECT_FALSE(clients_.contains(*peer));
  });
  const auto other = add();
  break_off(wire());
  EXPECT_EQ(ended_, Peers{other.get()});
  EXPECT_EQ(*runs, 0) << "another connection has ended";
  break_off(connection);
  EXPECT_EQ(*runs, 1);
  clients_.take_closed(*peer);
  EXPECT_EQ(*runs, 1);
  EXPECT_EQ(runs.use_count(), 1) << "a later connection whose Peer has the same address would have the callback";
}

TEST_F(ClientsTest, ASecondCallbackIsIgnored) {
  const auto peer = add();
  std::vector<int> ran;
  clients_.when_gone(*peer, [&ran] { ran.push_back(1); });
  clients_.when_gone(*peer, [&ran] { ran.push_back(2); });
  break_off(wire());
  EXPECT_EQ(ran, std::vector<int>{1});
}

TEST_F(ClientsTest, TheCallbackOfAForgottenConnectionDoesNotRunAndIsGone) {
  const auto peer = add();
  const auto runs = std::make_shared<int>(0);
  clients_.when_gone(*peer, [runs] { ++*runs; });
  ASSERT_EQ(runs.use_count(), 2);
  clients_.erase(*peer);
  EXPECT_EQ(runs.use_count(), 1) << "a later connection whose Peer has the same address would have the callback";
  break_off(wire());
  EXPECT_EQ(*runs, 0);
}

TEST_F(ClientsTest, AllConnectionsAreClosedAndStayInTheTable) {
  const auto unknown = add();
  const Client zygote = add(JobId{3}, CallerId{});
  const Client driver = add(JobId{3}, CallerId{4});
  int runs = 0;
  clients_.when_gone(*driver.peer, [&runs] { ++runs; });
  clients_.close();
  executor_.run_until_idle();
  for (const auto& each : host_.wires) EXPECT_TRUE(each->closed);
  EXPECT_TRUE(clients_.contains(*unknown));
  EXPECT_TRUE(clients_.contains(*zygote.peer));
  EXPECT_TRUE(clients_.contains(*driver.peer));
  EXPECT_EQ(clients_.size(), 3U);
  EXPECT_EQ(runs, 0);
}

TEST_F(ClientsTest, TheOwnerHearsNothingMoreOfConnectionsThatAreClosed) {
  const auto first = add();
  KeptWire& first_wire = wire();
  const auto second = add();
  first_wire.receive(wire::FrameKind::kControl, 1, wire::Done{});
  wire().break_off();
  clients_.close();
  executor_.run_until_idle();
  receive(first_wire);
  break_off(first_wire);
  EXPECT_EQ(heard_, Peers{});
  EXPECT_EQ(ended_, Peers{});
}

TEST_F(ClientsTest, RequestsUnderWayFailWhenTheConnectionsAreClosed) {
  ask(add(JobId{3}, CallerId{4}));
  ASSERT_EQ(wire().sent.size(), 1U);
  EXPECT_EQ(wire().sent[0].kind, wire::FrameKind::kRequest);
  EXPECT_FALSE(error_);
  clients_.close();
  executor_.run_until_idle();
  ASSERT_TRUE(error_);
  EXPECT_EQ(error_->code(), ErrorCode::kUnavailable);
}

TEST_F(ClientsTest, ConnectionsAreClosedInTheOrderInWhichTheyCame) {
  Callers order;
  for (const std::uint64_t caller : {4, 7, 1, 6, 2, 8, 5, 3}) {
    ask(add(JobId{9 - caller / 2}, CallerId{caller}));
    order.push_back(CallerId{caller});
  }
  clients_.close();
  executor_.run_until_idle();
  EXPECT_EQ(failed_, order);
}

TEST_F(ClientsTest, TheDestructorClosesNothing) {
  std::shared_ptr<net::Peer> peer;
  {
    Clients clients{executor_, host_, *this};
    peer = clients.add(Fd{}, net::Descriptors::kAccepted);
  }
  EXPECT_FALSE(wire().closed);
  receive(wire());
  EXPECT_EQ(heard_, Peers{peer.get()});
}

TEST_F(ClientsTest, CallersAreTheDriversAndWorkersInTheOrderOfTheirIds) {
  add();
  add(JobId{3}, CallerId{});
  clients_.set({.peer = add(), .caller = CallerId{1}});
  add(JobId{3}, CallerId{9});
  const Client worker{add(), std::make_shared<Job>(), std::make_shared<Worker>(), CallerId{4}};
  clients_.set(worker);
  const Client driver = add(JobId{2}, CallerId{6});
  const auto callers = clients_.callers();
  Callers ids;
  for (const auto& [id, client] : callers) ids.push_back(id);
  ASSERT_EQ(ids, (Callers{CallerId{4}, CallerId{6}, CallerId{9}}));
  EXPECT_EQ(callers.at(CallerId{4}).worker, worker.worker);
  EXPECT_EQ(callers.at(CallerId{4}).peer, worker.peer);
  EXPECT_EQ(callers.at(CallerId{6}).job, driver.job);
}

}  // namespace
}  // namespace pharos::node
