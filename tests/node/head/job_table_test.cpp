#include "head/job_table.hpp"

#include "head/caller_table.hpp"
#include "head_parts.hpp"

namespace pharos::node::head {
namespace {

/// Job 7, whose driver is at node 1; there are nodes 2 and 3.
class HeadJobTable : public HeadParts {
 protected:
  HeadJobTable() {
    for (const std::uint64_t node : {1, 2, 3}) add_node(node);
    jobs_.add(NodeId{1}, wire::AddJob{JobId{7}, {}, {}, {}});
  }
  JobTable jobs_{events_};
};

TEST_F(HeadJobTable, ANodeIsShownAJobOnceWithTheNodesThatHaveItsProgram) {
  jobs_.show(NodeId{2}, JobId{7});
  EXPECT_TRUE(last_told<wire::AddJob>(2).others.empty());
  jobs_.show(NodeId{3}, JobId{7});
  EXPECT_EQ(last_told<wire::AddJob>(3).others, std::vector{NodeId{2}});
  jobs_.show(NodeId{3}, JobId{7});
  EXPECT_EQ(told(3), Names{});
}

TEST_F(HeadJobTable, TheDriversNodeHearsWhenTheLastNodeHasStoppedTheJob) {
  jobs_.show(NodeId{2}, JobId{7});
  jobs_.stop(JobId{7}, false);
  EXPECT_EQ(told(1), Names{"StopJob"});
  jobs_.note_stopped(JobId{7}, NodeId{1});
  EXPECT_EQ(told(1), Names{});
  jobs_.note_stopped(JobId{7}, NodeId{2});
  EXPECT_EQ(told(1), Names{"JobStopped"});
}

TEST_F(HeadJobTable, ALostNodeHasStoppedItsJobs) {
  jobs_.show(NodeId{2}, JobId{7});
  jobs_.stop(JobId{7}, false);
  jobs_.note_stopped(JobId{7}, NodeId{1});
  told(1);
  EXPECT_TRUE(jobs_.lose_node(NodeId{2}).empty());
  jobs_.note_stopped_all(NodeId{2});
  EXPECT_EQ(told(1), Names{"JobStopped"});
}

TEST_F(HeadJobTable, AJobWithDetachedActorsIsNotStoppedAtTheNodes) {
  jobs_.show(NodeId{2}, JobId{7});
  told(2);
  jobs_.stop(JobId{7}, true);
  EXPECT_EQ(told(1), Names{"JobStopped"});
  EXPECT_EQ(told(2), Names{});
  EXPECT_TRUE(jobs_.admit(NodeId{1}, asker(1)));
}

TEST_F(HeadJobTable, QuestionsOfAJobThatStopsOrIsUnknownAreRefused) {
  EXPECT_TRUE(jobs_.admit(NodeId{1}, asker(1)));
  EXPECT_FALSE(jobs_.admit(NodeId{1}, asker(1, 70, 8)));
  EXPECT_EQ(last_told<wire::Refused>(1).why.code(), ErrorCode::kRuntimeStopped);
  jobs_.stop(JobId{7}, false);
  EXPECT_FALSE(jobs_.admit(NodeId{1}, asker(2)));
}

TEST_F(HeadJobTable, AJobWithoutADriverMayBeOverWhenAnActorHasEnded) {
  jobs_.note_actor_over(JobId{7});
  EXPECT_FALSE(jobs_.has_maybe_over());
  jobs_.leave_driver(JobId{7});
  jobs_.note_actor_over(JobId{7});
  EXPECT_EQ(jobs_.take_maybe_over(), std::unordered_set{JobId{7}});
  EXPECT_FALSE(jobs_.has_maybe_over());
}

TEST_F(HeadJobTable, JobsThatADriversNodeDoesNotReportAreMissing) {
  jobs_.add(NodeId{1}, wire::AddJob{JobId{8}, {}, {}, {}});
  jobs_.add(NodeId{2}, wire::AddJob{JobId{9}, {}, {}, {}});
  EXPECT_EQ(jobs_.missing(NodeId{1}, {JobId{8}}), std::vector{JobId{7}});
  jobs_.take_reported(NodeId{3}, {JobId{8}, JobId{10}});
  EXPECT_TRUE(jobs_.find(JobId{8})->known_at.contains(NodeId{3}));
  EXPECT_EQ(last_told<wire::EndJob>(3).job, JobId{10});
}

TEST_F(HeadJobTable, ACallerStaysAtTheNodeThatAskedForItFirst) {
  CallerTable callers{jobs_};
  callers.note(asker(1, 70), NodeId{1});
  callers.note(asker(2, 70), NodeId{2});
  callers.note(asker(3, 71, 99), NodeId{1});  // its job is unknown
  EXPECT_EQ(callers.node_of(CallerId{70}), NodeId{1});
  EXPECT_EQ(callers.at(NodeId{1}), std::vector{CallerId{70}});
  EXPECT_FALSE(callers.contains(CallerId{71}));
  callers.remove_job(JobId{7});
  EXPECT_EQ(callers.size(), 0u);
}

}  // namespace
}  // namespace pharos::node::head
