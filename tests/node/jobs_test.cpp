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
  jobs.on_zygote_ended(added);
  executor.run_until_idle();
  EXPECT_NE(added->zygote.peer, nullptr);
  EXPECT_NE(added->zygote.peer, first);
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
