#include "actors/incarnations.hpp"

#include <chrono>

#include "workers_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using scheduler::Resources;

class IncarnationsTest : public WorkersFixture, public Jobs::Owner {
 protected:
  static wire::Amounts one_cpu() { return {{"cpu", Resources::kWhole}}; }

  void on_caller_ended(const Client&) override {}
  void on_job_stops(JobId stopped) override { incarnations.end_unbegun(stopped); }
  void on_job_ended(const std::shared_ptr<Job>&) override {}
  void on_worker_ended(const Worker& worker, const std::string& reason) override {
    incarnations.on_worker_ended(worker, reason);
  }

  /// The head adds a job, whose zygote then loads the program.
  void add_job() {
    host.opened = "";
    jobs.add_far({JobId{1}, {}, NodeId{2}});
    executor.run_until_idle();
    Zygotes::on_ready(*jobs.find(JobId{1}), {});
    executor.run_until_idle();
    take_told();
  }
  static wire::StartIncarnation order(std::uint64_t actor) {
    wire::StartIncarnation start;
    start.actor = ActorId{actor};
    start.incarnation = 1;
    start.job = JobId{1};
    start.amounts = one_cpu();
    start.exclusive = true;
    return start;
  }
  void begin(std::uint64_t actor) {
    incarnations.start(order(actor));
    executor.run_until_idle();
  }
  const wire::IncarnationEnded& end() const { return std::get<wire::IncarnationEnded>(told.back()); }

  FarNodes far_nodes{executor, host, site.head, NodeId{1}, "head"};
  Jobs jobs{site, clients, far_nodes, workers, output, *this};
  LeaseBook book{scheduler::Leases{Resources{one_cpu()}, 8, 10s},
                 [this](const scheduler::LeaseEffect& effect) {
                   const auto* const reserved = std::get_if<scheduler::Reserved>(&effect);
                   if (reserved != nullptr) incarnations.on_reserved(reserved->reservation);
                 },
                 [] {}};
  Incarnations incarnations{site, book, jobs, workers};
};

TEST_F(IncarnationsTest, AnActorIsConstructedInANewWorkerThatHasHeardTheLastBeat) {
  add_job();
  begin(5);
  EXPECT_EQ(host.links.back()->names(), (Names{"JobRegistered", "Beat", "ConstructActor"}));
  EXPECT_TRUE(incarnations.starting().empty());
  EXPECT_EQ(incarnations.check(), "");
}

TEST_F(IncarnationsTest, ExclusiveActorsHearEachBeat) {
  add_job();
  begin(5);
  incarnations.pass_on_beat({});
  EXPECT_EQ(host.links.back()->names().back(), "Beat");
}

TEST_F(IncarnationsTest, AnActorWithoutResourcesWaitsAndMayBeGivenUp) {
  add_job();
  begin(5);
  begin(6);
  EXPECT_EQ(incarnations.starting().size(), 1U);
  incarnations.end({.actor = ActorId{6}, .incarnation = 1, .kill = true});
  EXPECT_EQ(end().reason, "the actor was given up before its process could start");
  EXPECT_EQ(incarnations.check(), "");
}

TEST_F(IncarnationsTest, TheResourcesOfAnActorThatHasEndedGoToTheNext) {
  add_job();
  begin(5);
  begin(6);
  const auto worker = workers.find(ActorId{5}, 1);
  workers.on_connection_ended(worker);
  executor.advance(1s);
  EXPECT_EQ(end().actor, ActorId{5});
  EXPECT_NE(workers.find(ActorId{6}, 1), nullptr);
  EXPECT_EQ(incarnations.check(), "");
}

TEST_F(IncarnationsTest, AnActorOfAJobThatIsNotHereEndsAtOnce) {
  begin(5);
  EXPECT_EQ(end().reason, "the program has ended");
  EXPECT_EQ(book.leases().reservations(), 0U);
}

TEST_F(IncarnationsTest, AnActorWhoseGroupIsGoneEndsAtOnce) {
  add_job();
  wire::StartIncarnation grouped = order(5);
  grouped.group = GroupId{8};
  incarnations.start(grouped);
  EXPECT_EQ(end().reason, "its group was removed");
}

TEST_F(IncarnationsTest, AJobThatStopsHereLeavesNoActorThatWaits) {
  add_job();
  begin(5);
  begin(6);
  jobs.stop_here(JobId{1});
  executor.advance(30s);
  EXPECT_TRUE(incarnations.starting().empty());
  EXPECT_EQ(jobs.find(JobId{1})->life.state(), JobState::kStopped);
}

TEST_F(IncarnationsTest, AWorkerThatSpeaksOfAnotherActorIsNotBelieved) {
  add_job();
  begin(5);
  const auto worker = workers.find(ActorId{5}, 1);
  incarnations.on_constructed(*worker, {ActorId{6}, 1, std::nullopt});
  EXPECT_FALSE(worker->incarnation.constructed);
  incarnations.on_constructed(*worker, {ActorId{5}, 1, std::nullopt});
  EXPECT_TRUE(worker->incarnation.constructed);
  EXPECT_EQ(take_told(), (Names{"ActorConstructed"}));
}

}  // namespace
}  // namespace pharos::node
