// Leases of tasks: of workers here, and of workers at other nodes.

#include <chrono>
#include <cstdint>

#include "jobs_fixture.hpp"
#include "leases/far_leases.hpp"
#include "leases/task_leases.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using scheduler::Resources;

class LeasesTest : public JobsFixture {
 protected:
  static wire::Amounts cpus(std::int64_t count) { return {{"cpu", count * Resources::kWhole}}; }

  void carry_out(const scheduler::LeaseEffect& effect) {
    if (const auto* const grant = std::get_if<scheduler::Grant>(&effect)) leases.grant(*grant);
    if (const auto* const start = std::get_if<scheduler::StartWorker>(&effect)) leases.start(*start);
    if (const auto* const refused = std::get_if<scheduler::Refuse>(&effect)) leases.refuse(*refused);
    if (const auto* const recalled = std::get_if<scheduler::Recall>(&effect)) leases.recall(*recalled);
  }
  static wire::LeaseWorker far_request(std::uint64_t number, bool only_now) {
    return {.demand = {.amounts = cpus(1)}, .asker = {JobId{1}, CallerId{9}, number}, .only_now = only_now};
  }

  Questions questions{site.head, [this](const Asked& asked) { leases.forget_question(asked); }};
  LeaseBook book{scheduler::Leases{Resources{cpus(1)}, 8, 10s}, [this](const auto& effect) { carry_out(effect); },
                 [this] { leases.settle(); }};
  HandOverLine hand_overs{site, [this](WorkerId id) { return workers.find(id); }};
  TaskLeases leases{site, book, clients, questions, jobs, workers, hand_overs};
  FarLeases far_leases{site, far_nodes, questions,
                       [this](const wire::LeaseGranted& granted) { return leases.take_from_elsewhere(granted); },
                       [this](WorkerId worker, const Asked& asked) { return leases.hand_over(worker, asked); }};
};

TEST_F(LeasesTest, ACallerGetsAWorkerOfItsJob) {
  add_job();
  leases.request(client(), {.demand = {.amounts = cpus(1)}}, 1);
  executor.run_until_idle();
  EXPECT_EQ(client_link->names(), (Names{"WorkerReady"}));
  EXPECT_EQ(workers.all().size(), 1U);
  EXPECT_EQ(leases.waiting(), 0U);
}

TEST_F(LeasesTest, ADemandThatNeverFitsHereGoesToTheHead) {
  add_job();
  take_told();
  leases.request(client(), {.demand = {.amounts = cpus(2)}}, 1);
  EXPECT_EQ(take_told(), (Names{"LeaseWorker"}));
  EXPECT_EQ(leases.waiting(), 0U);
}

TEST_F(LeasesTest, ARequestThatWaitsForLongIsAlsoAskedForElsewhere) {
  add_job();
  const Client caller = client();
  leases.request(caller, {.demand = {.amounts = cpus(1)}}, 1);
  leases.request(caller, {.demand = {.amounts = cpus(1)}}, 2);
  executor.run_until_idle();
  take_told();
  executor.advance(10ms);
  EXPECT_EQ(take_told(), (Names{"LeaseWorker"}));
  EXPECT_EQ(leases.waiting(), 1U);
  EXPECT_EQ(leases.asked_elsewhere(), 1U);
}

TEST_F(LeasesTest, AWorkerOfAnotherNodeIsReachedForTheRequestThatWaitsHere) {
  add_job();
  const Client caller = client();
  leases.request(caller, {.demand = {.amounts = cpus(1)}}, 1);
  leases.request(caller, {.demand = {.amounts = cpus(1)}}, 2);
  executor.advance(10ms);
  const std::uint64_t number = std::get<wire::LeaseWorker>(told.back()).asker.number;
  far_leases.reach({number, WorkerId{77}, NodeId{2}, "second"});
  executor.run_until_idle();
  EXPECT_EQ(host.reached.back(), "second");
  EXPECT_EQ(far_leases.all().size(), 1U);
  EXPECT_EQ(leases.waiting(), 0U);
  EXPECT_EQ(client_link->names().size(), 2U);
  EXPECT_TRUE(far_leases.take_back({WorkerId{77}}, caller.caller));
  EXPECT_TRUE(far_leases.all().empty());
}

TEST_F(LeasesTest, AWorkerOfANodeThatCannotBeReachedIsGivenBack) {
  add_job();
  leases.request(client(), {.demand = {.amounts = cpus(2)}}, 1);
  const std::uint64_t number = std::get<wire::LeaseWorker>(told.back()).asker.number;
  host.unreachable = Error{ErrorCode::kUnavailable, "no route"};
  take_told();
  far_leases.reach({number, WorkerId{77}, NodeId{2}, "second"});
  executor.run_until_idle();
  EXPECT_EQ(take_told(), (Names{"ReturnLease"}));
  EXPECT_EQ(client_link->names(), (Names{"Failure"}));
}

TEST_F(LeasesTest, TheHeadIsToldWhenThereIsNoRoomForACallerElsewhere) {
  add_job();
  leases.request_for_far(far_request(1, true));
  executor.run_until_idle();
  take_told();
  leases.request_for_far(far_request(2, true));
  EXPECT_EQ(take_told(), (Names{"NodeLoad", "Refused"}));
}

TEST_F(LeasesTest, ACallerElsewhereIsGrantedAWorker) {
  add_job();
  take_told();
  leases.request_for_far(far_request(1, true));
  executor.run_until_idle();
  EXPECT_EQ(take_told(), (Names{"LeaseGranted"}));
  EXPECT_EQ(workers.all().begin()->second->leased_to.far_user, CallerId{9});
}

TEST_F(LeasesTest, ANodeThatDrainsLetsTheLastTasksEndAndRefusesOthers) {
  add_job();
  const Client caller = client();
  leases.request(caller, {.demand = {.amounts = cpus(1)}}, 1);
  executor.run_until_idle();
  leases.request(caller, {.demand = {.amounts = cpus(1)}}, 2);
  leases.drain();
  EXPECT_EQ(client_link->names(), (Names{"WorkerReady", "Failure"}));
  EXPECT_EQ(workers.all().begin()->second->process.life.state(), WorkerState::kLastTask);
  take_told();
  leases.request_for_far(far_request(3, true));
  EXPECT_EQ(take_told(), (Names{"NodeLoad", "Refused"}));
}

TEST_F(LeasesTest, AnotherHeadIsNotAskedForCallersElsewhereWhichAskAgainThemselves) {
  add_job();
  leases.request_for_far(far_request(1, false));
  executor.run_until_idle();
  leases.request_for_far(far_request(2, false));
  EXPECT_EQ(leases.waiting(), 1U);
  leases.drop_far_requests();
  EXPECT_EQ(leases.waiting(), 0U);
}

}  // namespace
}  // namespace pharos::node
