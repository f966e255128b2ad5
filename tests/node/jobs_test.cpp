#include "workers/jobs.hpp"

#include <signal.h>

#include <chrono>

#include "jobs_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

class JobsTest : public JobsFixture {
 protected:
  /// A driver registers a job.
  std::shared_ptr<Job> register_job() {
    const auto driver = clients.add(Fd{}, net::Descriptors::kAccepted);
    client_link = host.links.back();
    net::Parcel registration{wire::RegisterJob{}, {}};
    registration.descriptors.emplace_back();
    jobs.add(driver, std::move(registration), 1);
    executor.run_until_idle();
    return jobs.all().empty() ? nullptr : jobs.all().begin()->second;
  }
  /// Returns the job's zygote with this environment, once it has loaded the program.
  std::shared_ptr<Zygote> loaded(const std::shared_ptr<Job>& job, const Names& environment) {
    const auto zygote = jobs.zygote_of(job, environment);
    if (!zygote) return nullptr;
    executor.run_until_idle();
    Zygotes::on_ready(*job, *(*zygote)->peer, {});
    executor.run_until_idle();
    EXPECT_TRUE((*zygote)->loaded);
    return *zygote;
  }
};

TEST_F(JobsTest, ANodeWithoutResourcesRegistersAJobAndNeedsNoZygote) {
  const auto registered = register_job();
  EXPECT_EQ(client_link->names(), (Names{"JobRegistered"}));
  EXPECT_EQ(take_told(), (Names{"AddJob"}));
  EXPECT_EQ(registered->zygote.peer, nullptr);
}

TEST_F(JobsTest, ANodeThatIsToEndRefusesJobs) {
  jobs.refuse(Error{ErrorCode::kUnavailable, "the node ends"});
  EXPECT_EQ(register_job(), nullptr);
  EXPECT_EQ(client_link->names(), (Names{"Failure"}));
}

TEST_F(JobsTest, AJobIsStoppedOnAllNodesBeforeItsDriverIsAnswered) {
  const auto registered = register_job();
  take_told();
  jobs.stop_everywhere(registered, 2);
  jobs.stop_everywhere(registered, 3);
  executor.run_until_idle();
  EXPECT_EQ(take_told(), (Names{"StopJob"}));
  EXPECT_EQ(client_link->names(), (Names{"JobRegistered"}));
  jobs.on_stopped_everywhere(registered->id);
  executor.run_until_idle();
  EXPECT_EQ(client_link->names(), (Names{"JobRegistered", "Done"}));
  EXPECT_EQ(ended_callers, 1);
}

TEST_F(JobsTest, AnotherHeadIsAskedToStopAJobWhoseDriverWaits) {
  jobs.stop_everywhere(register_job(), 2);
  executor.run_until_idle();
  take_told();
  jobs.ask_again();
  EXPECT_EQ(take_told(), (Names{"StopJob"}));
}

TEST_F(JobsTest, AProgramOfAnotherNodeIsLoadedHere) {
  const auto added = add_job();
  EXPECT_TRUE(added->loaded());
  EXPECT_EQ(jobs.coming_programs(), 0U);
}

TEST_F(JobsTest, AZygoteThatEndsByItselfIsStartedAgain) {
  const auto added = add_job();
  const auto first = added->zygote.peer;
  jobs.on_zygote_ended(added, *first);
  executor.run_until_idle();
  EXPECT_NE(added->zygote.peer, nullptr);
  EXPECT_NE(added->zygote.peer, first);
}

TEST_F(JobsTest, EachEnvironmentHasAZygote) {
  const auto added = add_job();
  EXPECT_EQ((*jobs.zygote_of(added, {})).get(), &added->zygote);
  const auto red = loaded(added, {"COLOR=red"});
  const auto blue = loaded(added, {"COLOR=blue"});
  EXPECT_NE(blue->peer, red->peer);
  EXPECT_EQ(*jobs.zygote_of(added, {"COLOR=red"}), red);
  EXPECT_EQ(host.zygotes, (std::vector<Names>{{}, {"COLOR=red"}, {"COLOR=blue"}}));
  const auto first = red->peer;
  jobs.on_zygote_ended(added, *first);
  executor.run_until_idle();
  EXPECT_NE(red->peer, nullptr);
  EXPECT_NE(red->peer, first);
  EXPECT_EQ(host.zygotes.back(), (Names{"COLOR=red"}));
  EXPECT_NE(added->zygote.peer, nullptr);
  jobs.end(JobId{1});
  EXPECT_EQ(red->peer, nullptr);
}

TEST_F(JobsTest, ANodeHasAFewOtherEnvironmentsAtATime) {
  const auto added = add_job();
  std::vector<std::shared_ptr<Zygote>> used;
  for (std::size_t i = 0; i < Zygotes::kOthersMax; ++i) used.push_back(loaded(added, {"N=" + std::to_string(i)}));
  const auto refused = jobs.zygote_of(added, {"N=more"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverloaded);
  const auto peer = used[2]->peer;
  used.erase(used.begin() + 2);
  EXPECT_NE(loaded(added, {"N=more"}), nullptr);
  EXPECT_FALSE(clients.contains(*peer));
  EXPECT_FALSE(added->others.contains({"N=2"}));
  EXPECT_EQ(added->others.size(), Zygotes::kOthersMax);
}

TEST_F(JobsTest, AnEnvironmentInWhichTheProgramDoesNotLoadIsTriedAgainByTheNextTask) {
  const auto added = add_job();
  const auto broken = *jobs.zygote_of(added, {"LD_PRELOAD=no.so"});
  for (int i = 0; i <= Zygote::kRestartsMax; ++i) {
    executor.run_until_idle();
    jobs.on_child_ended(broken->pid, SIGSEGV);
  }
  executor.run_until_idle();
  ASSERT_TRUE(broken->broken);
  EXPECT_NE(broken->broken->remedy().find(".env"), std::string::npos) << broken->broken->to_string();
  EXPECT_TRUE(added->loaded());
  EXPECT_FALSE(added->broken);
  EXPECT_FALSE(added->others.contains({"LD_PRELOAD=no.so"}));
}

TEST_F(JobsTest, AProgramThatEndsEachTimeItIsLoadedIsBroken) {
  host.opened = "";
  jobs.add_far({JobId{1}, {}, NodeId{2}});
  executor.run_until_idle();
  const auto added = jobs.find(JobId{1});
  for (int i = 0; i <= Zygote::kRestartsMax; ++i) {
    jobs.on_child_ended(added->zygote.pid, SIGSEGV);
    executor.run_until_idle();
  }
  EXPECT_EQ(added->program_life.state(), ProgramState::kBroken);
  EXPECT_EQ(added->broken->code(), ErrorCode::kFailedPrecondition);
}

TEST_F(JobsTest, AJobThatHasStoppedHereIsReportedAlsoIfItIsNotHere) {
  jobs.stop_here(JobId{77});
  executor.run_until_idle();
  EXPECT_EQ(take_told(), (Names{"JobStopped"}));
}

TEST_F(JobsTest, AJobThatIsOverEndsItsZygote) {
  const auto added = add_job();
  jobs.end(JobId{1});
  EXPECT_TRUE(added->ended());
  EXPECT_EQ(added->zygote.peer, nullptr);
  EXPECT_EQ(jobs.find(JobId{1}), nullptr);
}

TEST_F(JobsTest, OutputGoesToADriverHereOnlyAsFastAsItIsShown) {
  const auto registered = register_job();
  wire::Output lines;
  lines.lines = std::string(JobOutput::kQueuedMax, 'x');
  EXPECT_TRUE(output.takes(*registered));
  output.send(*registered, lines);
  EXPECT_FALSE(output.takes(*registered));
  registered->unshown.take_one();
  EXPECT_TRUE(output.takes(*registered));
}

TEST_F(JobsTest, OutputOfAJobWhoseDriverIsElsewhereGoesToTheHead) {
  const auto added = add_job();
  output.send(*added, {});
  EXPECT_EQ(take_told(), (Names{"Output"}));
}

}  // namespace
}  // namespace pharos::node
