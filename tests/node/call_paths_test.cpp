#include "actors/call_paths.hpp"

#include <chrono>

#include "jobs_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

class CallPathsTest : public JobsFixture {
 protected:
  /// A caller here asks for actor 9.
  void ask() {
    wire::ConnectActor connect;
    connect.actor = ActorId{9};
    questions.pass_on(client(), connect, 1);
    number = std::get<wire::ConnectActor>(told.back()).asker.number;
    take_told();
  }
  /// The head says that the actor is alive.
  void is_alive_at(NodeId node) {
    wire::ActorAlive alive;
    alive.number = number;
    alive.actor = ActorId{9};
    alive.incarnation = 1;
    alive.node = node;
    alive.address = "second";
    paths.on_alive(alive);
    executor.run_until_idle();
  }

  std::uint64_t number = 0;
  Questions questions{site.head, [](const Asked&) {}};
  HandOverLine hand_overs{site, [this](WorkerId id) { return workers.find(id); }};
  CallPaths paths{site, clients, far_nodes, questions, workers, hand_overs};
};

TEST_F(CallPathsTest, ACallerGetsASocketToAnActorHere) {
  start(9);
  const auto worker_link = host.links.back();
  add_job();
  ask();
  is_alive_at(NodeId{1});
  EXPECT_EQ(client_link->names(), (Names{"WorkerReady"}));
  EXPECT_EQ(worker_link->names().back(), "ServeCaller");
}

TEST_F(CallPathsTest, ACallerGetsASocketToAnActorElsewhere) {
  add_job();
  ask();
  is_alive_at(NodeId{2});
  EXPECT_EQ(host.reached, (Names{"second"}));
  EXPECT_EQ(client_link->names(), (Names{"WorkerReady"}));
}

TEST_F(CallPathsTest, TheHeadIsAskedAgainForAnActorWhoseProcessHasJustEnded) {
  add_job();
  ask();
  is_alive_at(NodeId{1});
  EXPECT_EQ(take_told(), (Names{"ConnectActor"}));
}

TEST_F(CallPathsTest, AnActorThatCannotBeReachedForLongIsGivenUp) {
  host.unreachable = Error{ErrorCode::kUnavailable, "no route"};
  add_job();
  ask();
  for (int i = 0; i < 20 && client_link->sent.empty(); ++i) {
    is_alive_at(NodeId{2});
    executor.advance(1s);
  }
  EXPECT_EQ(client_link->names(), (Names{"Failure"}));
  EXPECT_TRUE(questions.all().empty());
}

TEST_F(CallPathsTest, ACallerElsewhereIsConnectedOnlyWithTheWorkerThatItHasLeased) {
  const auto worker = start();
  worker->leased_to.far_user = CallerId{5};
  const Introduction other{.caller = 6, .worker = worker->id.value()};
  const Introduction lessee{.caller = 5, .worker = worker->id.value()};
  paths.serve_far(other, Fd{});
  executor.run_until_idle();
  EXPECT_EQ(host.links.back()->names(), (Names{"JobRegistered"}));
  paths.serve_far(lessee, Fd{});
  executor.run_until_idle();
  EXPECT_EQ(host.links.back()->names(), (Names{"JobRegistered", "ServeCaller"}));
}

}  // namespace
}  // namespace pharos::node
