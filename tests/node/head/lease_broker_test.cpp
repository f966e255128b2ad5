#include "head/lease_broker.hpp"

#include <chrono>

#include <pharos/scheduler/placement.hpp>

#include "head_parts.hpp"

namespace pharos::node::head {
namespace {

using namespace std::chrono_literals;

/// A caller at node 1, which has no resources; nodes 2 and 3 have one CPU each.
class LeaseBrokerTest : public HeadParts, protected Effects {
 protected:
  LeaseBrokerTest() {
    for (const std::uint64_t node : {1, 2, 3}) add_node(node);
    for (const std::uint64_t node : {2, 3}) placement_.add_node(NodeId{node}, *scheduler::Resources::parse("cpu=1"));
    jobs_.add(NodeId{1}, wire::AddJob{JobId{7}, {}, {}, {}});
  }
  void request(std::uint64_t number, const std::string& amounts = "cpu=1", bool only_now = false,
               std::int64_t wait_ms = 0) {
    wire::Demand asked = demand(amounts);
    asked.wait_ms = wait_ms;
    leases_.request(NodeId{1}, {asked, asker(number), false, only_now});
  }
  /// Returns the node that was asked for a worker.
  std::uint64_t asked_node() {
    events_.end();
    for (const std::uint64_t node : {2, 3}) {
      for (const wire::Message& message : told_[node]) {
        if (std::holds_alternative<wire::LeaseWorker>(message)) return node;
      }
    }
    ADD_FAILURE() << "no node was asked for a worker";
    return 2;
  }
  /// Requests a worker and lets the asked node grant worker 30; returns that node.
  std::uint64_t lease() {
    request(5);
    const std::uint64_t node = asked_node();
    const auto asked = last_told<wire::LeaseWorker>(node);
    leases_.grant(NodeId{node}, {asked.asker.number, WorkerId{30}, NodeId{node}, ""});
    return node;
  }

  void apply(const scheduler::ActorEffects&) override { ADD_FAILURE() << "leases do not call ActorTable"; }
  void apply(const scheduler::PlacementEffects& effects) override {
    for (const auto& effect : effects) {
      if (const auto* const placed = std::get_if<scheduler::GroupPlaced>(&effect)) groups_.note_placed(*placed);
    }
  }

  scheduler::Fleet fleet_;
  scheduler::Placement placement_{fleet_};
  JobTable jobs_{events_};
  GroupTable groups_{events_, placement_, recovery_, *this};
  RequestNumbers numbers_{100};
  LeaseBroker leases_{events_, fleet_, jobs_, nodes_, groups_, recovery_, numbers_};
};

TEST_F(LeaseBrokerTest, TheWorkersNodeLearnsTheProgramAndItsAnswerGoesToTheCallersNode) {
  request(5);
  const std::uint64_t node = asked_node();
  EXPECT_EQ(told(node), (Names{"AddJob", "LeaseWorker"}));
  leases_.grant(NodeId{node}, {101, WorkerId{30}, NodeId{node}, ""});
  const auto granted = last_told<wire::LeaseGranted>(1);
  EXPECT_EQ(granted.number, 5u);
  EXPECT_EQ(granted.address, "10.0.0." + std::to_string(node));
}

TEST_F(LeaseBrokerTest, WhatNoNodeCouldHaveIsRefused) {
  request(5, "cpu=2");
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(leases_.requested(), 0u);
}

TEST_F(LeaseBrokerTest, WhatNoNodeCouldHaveWaitsForANodeThatJoinsAsLongAsItMay) {
  request(5, "cpu=2", false, 1000);
  request(6, "cpu=3", false, 1000);
  EXPECT_EQ(told(1), Names{});
  EXPECT_EQ(leases_.requested(), 2u);
  add_node(4);
  placement_.add_node(NodeId{4}, *scheduler::Resources::parse("cpu=2"));
  leases_.request_wanting();
  EXPECT_EQ(told(4), (Names{"AddJob", "LeaseWorker"}));
  executor_.advance(999ms);
  EXPECT_EQ(told(1), Names{});
  executor_.advance(1ms);
  const auto refused = last_told<wire::Refused>(1);
  EXPECT_EQ(refused.number, 6u);
  EXPECT_EQ(refused.why.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.why.to_string().find("no node that could run it has joined within 1 s"), std::string::npos)
      << refused.why.to_string();
  EXPECT_EQ(leases_.requested(), 1u);  // that at node 4
}

TEST_F(LeaseBrokerTest, ARequestThatHasToBeHadNowWaitsForNoNode) {
  request(5, "cpu=2", true, 1000);
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kOverloaded);
}

TEST_F(LeaseBrokerTest, ARequestThatWaitsForANodeEndsWithItsCallerAndItsJob) {
  request(5, "cpu=2", false, 1000);
  leases_.end_caller(CallerId{70});
  EXPECT_EQ(leases_.requested(), 0u);
  request(6, "cpu=2", false, 1000);
  leases_.end_job(JobId{7});
  EXPECT_EQ(leases_.requested(), 0u);
  executor_.advance(2s);
  EXPECT_EQ(told(1), Names{});
}

TEST_F(LeaseBrokerTest, ATaskOfAGroupWaitsForABundleAndIsToldWhichItGets) {
  wire::Demand asked = demand("cpu=1");
  asked.group = GroupId{5};
  groups_.place(NodeId{1}, {GroupId{5}, "g", Strategy::kPack, {demand("cpu=1")}, asker(4)});
  leases_.request(NodeId{1}, {asked, asker(5), false, false});
  EXPECT_EQ(leases_.requested(), 1u);
  const NodeId node = groups_.find(GroupId{5})->nodes.front();
  EXPECT_EQ(told(node.value()), Names{"HoldBundle"});
  groups_.note_held(node, {GroupId{5}, 0});
  leases_.request_wanting();
  EXPECT_EQ(last_told<wire::LeaseWorker>(node.value()).bundle, 0u);
  leases_.request(NodeId{1}, {asked, asker(6), false, true, 0});
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kOverloaded) << "there is no other bundle";
}

TEST_F(LeaseBrokerTest, DuringARecoveryARequestThatNoNodeCouldServeIsPutOff) {
  recovery_.begin();
  request(5, "cpu=2");
  EXPECT_EQ(told(1), Names{});
  EXPECT_EQ(recovery_.take_put_off().size(), 1u);
}

TEST_F(LeaseBrokerTest, ARequestForRoomNowIsRefusedWhenThereIsNone) {
  request(5, "cpu=2", true);
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kOverloaded);
}

TEST_F(LeaseBrokerTest, ARefusalGoesToTheCallersNodeUnderItsOwnNumber) {
  request(5);
  leases_.refuse({101, Error{ErrorCode::kOverloaded, "full"}});
  EXPECT_EQ(last_told<wire::Refused>(1).number, 5u);
  EXPECT_EQ(leases_.requested(), 0u);
}

TEST_F(LeaseBrokerTest, AReturnedWorkerGoesBackToItsNodeOnce) {
  const std::uint64_t node = lease();
  leases_.take_back({WorkerId{30}, CallerId{70}});
  EXPECT_EQ(told(node), Names{"ReturnLease"});
  leases_.take_back({WorkerId{30}, CallerId{70}});
  EXPECT_EQ(told(node), Names{});
}

TEST_F(LeaseBrokerTest, ARecallGoesToTheNodeThatHasLeasedTheWorkers) {
  lease();
  told(1);
  leases_.recall({{WorkerId{29}, WorkerId{30}}, 1});
  EXPECT_EQ(told(1), Names{"RecallLeases"});
}

TEST_F(LeaseBrokerTest, WhenTheWorkersNodeIsLostTheCallerHearsOfIt) {
  const std::uint64_t node = lease();
  told(1);
  leases_.lose_node(NodeId{node});
  EXPECT_EQ(last_told<wire::WorkerEnded>(1).worker, WorkerId{30});
  EXPECT_EQ(leases_.granted(), 0u);
}

TEST_F(LeaseBrokerTest, ARequestThatWaitedAtALostNodeIsMadeAgainAtAnother) {
  request(5);
  const std::uint64_t node = asked_node();
  told(node);
  placement_.remove_node(NodeId{node});
  leases_.lose_node(NodeId{node});
  EXPECT_EQ(last_told<wire::LeaseWorker>(5 - node).asker.number, 102u);
}

TEST_F(LeaseBrokerTest, WhenTheCallersNodeIsLostItsWorkersAreReturned) {
  const std::uint64_t node = lease();
  told(node);
  leases_.lose_node(NodeId{1});
  EXPECT_EQ(told(node), Names{"ReturnLease"});
}

TEST_F(LeaseBrokerTest, NodesHearOfTheEndOfACallerWhoseWorkersTheyLend) {
  const std::uint64_t node = lease();
  told(node);
  leases_.end_caller(CallerId{70});
  EXPECT_EQ(told(node), Names{"EndCaller"});
  EXPECT_EQ(leases_.granted(), 0u);
}

TEST_F(LeaseBrokerTest, AfterARecoveryOnlyLeasesThatBothNodesHaveReportedGoOn) {
  wire::Report owner;
  owner.lent = {{WorkerId{30}, CallerId{70}, JobId{7}}, {WorkerId{31}, CallerId{70}, JobId{7}}};
  leases_.take_report(NodeId{2}, owner);
  wire::Report borrower;
  borrower.borrowed = {WorkerId{30}, WorkerId{32}};
  leases_.take_report(NodeId{1}, borrower);
  leases_.settle([](CallerId) { return true; });
  EXPECT_EQ(leases_.granted(), 1u);
  EXPECT_EQ(last_told<wire::ReturnLease>(2).worker, WorkerId{31});
  EXPECT_EQ(last_told<wire::WorkerEnded>(1).worker, WorkerId{32});
}

}  // namespace
}  // namespace pharos::node::head
