#include "workers/programs.hpp"

#include <chrono>
#include <optional>

#include "parts_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

class ProgramsTest : public PartsTest {
 protected:
  ProgramsTest() {
    job->id = JobId{1};
    job->program.executable = "program";
    job->program.folder = "/home";
  }
  static async::Async<void> obtain_into(Programs* programs, std::shared_ptr<Job> job, std::vector<NodeId> sources,
                                        std::optional<Result<void>>* end) {
    *end = co_await programs->obtain(std::move(job), std::move(sources));
  }
  void obtain(std::vector<NodeId> sources) { obtain(job, std::move(sources), end); }
  void obtain(std::shared_ptr<Job> of, std::vector<NodeId> sources, std::optional<Result<void>>& into) {
    background.spawn(obtain_into(&programs, std::move(of), std::move(sources), &into));
    executor.run_until_idle();
  }
  /// The head says where the node is that is asked for.
  void find(const std::string& address) {
    far_nodes.on_found({std::get<wire::FindNode>(told.back()).number, address});
    executor.run_until_idle();
  }
  void end_fetch(Result<void> with) {
    host.fetches.back().second(std::move(with));
    executor.run_until_idle();
  }

  std::shared_ptr<Job> job = std::make_shared<Job>();
  Names warnings;
  std::optional<Result<void>> end;
  FarNodes far_nodes{executor, host, site.head, NodeId{1}, "head"};
  Programs programs{site, far_nodes, [this](Job&, const std::string& warning) { warnings.push_back(warning); }};
};

TEST_F(ProgramsTest, AnExecutableThatIsHereIsNotFetched) {
  host.opened = "/home";
  obtain({NodeId{2}});
  EXPECT_TRUE(end->ok());
  EXPECT_TRUE(told.empty());
  EXPECT_TRUE(warnings.empty());
}

TEST_F(ProgramsTest, TheUserIsToldThatWorkersStartInAnotherFolder) {
  host.opened = "/tmp";
  obtain({});
  EXPECT_EQ(job->program.folder, "/tmp");
  EXPECT_EQ(warnings.size(), 1U);
}

TEST_F(ProgramsTest, AnExecutableThatIsNotHereIsFetchedFromTheFirstSource) {
  obtain({NodeId{2}, NodeId{3}});
  find("second");
  EXPECT_EQ(host.fetches.back().first, "second");
  EXPECT_EQ(programs.coming(), 1U);
  host.opened = "/home";
  end_fetch({});
  EXPECT_TRUE(end->ok());
  EXPECT_EQ(programs.coming(), 0U);
}

TEST_F(ProgramsTest, WhatIsMadeForAJobAloneIsItsFolderAndGoesWithIt) {
  job->program.environment = {"A=1", "LD_LIBRARY_PATH=/theirs"};
  host.opened = "/own/files";
  host.own_folder = "/own";
  host.libraries = "/own/lib";
  obtain({});
  EXPECT_EQ(job->program.folder, "/own/files");
  EXPECT_EQ(job->program.environment, (std::vector<std::string>{"A=1", "LD_LIBRARY_PATH=/own/lib:/theirs"}));
  EXPECT_TRUE(warnings.empty());
  EXPECT_TRUE(host.removed.empty());
  programs.forget(*job);
  programs.forget(*job);
  EXPECT_EQ(host.removed, std::vector<std::string>{"/own"});
}

TEST_F(ProgramsTest, OfAJobThatHasEndedMeanwhileNothingIsLeft) {
  host.opened = "/own/files";
  host.own_folder = "/own";
  job->life.on(JobEvent::kOver);
  obtain({});
  EXPECT_EQ(host.removed, std::vector<std::string>{"/own"});
}

TEST_F(ProgramsTest, WithoutAVariableForTheLoaderThereIsOneAfterwards) {
  host.opened = "/home";
  host.libraries = "/own/lib";
  obtain({});
  EXPECT_EQ(job->program.environment, std::vector<std::string>{"LD_LIBRARY_PATH=/own/lib"});
}

TEST_F(ProgramsTest, AFileThatTwoProgramsLackIsFetchedOnce) {
  const wire::BuildId library{1};
  host.missing = {library};
  obtain({NodeId{2}});
  find("second");
  const auto other = std::make_shared<Job>();
  other->program.build_id = {2};
  host.missing = {other->program.build_id, library};
  std::optional<Result<void>> other_end;
  obtain(other, {NodeId{2}}, other_end);
  EXPECT_EQ(host.fetches.size(), 1U);
  EXPECT_FALSE(other_end);
  host.opened = "/home";
  end_fetch({});
  EXPECT_TRUE(end->ok());
  ASSERT_TRUE(other_end);
  EXPECT_TRUE(other_end->ok());
  EXPECT_EQ(programs.coming(), 0U);
}

TEST_F(ProgramsTest, AfterABreakTheNextSourceIsAsked) {
  obtain({NodeId{2}, NodeId{3}});
  find("second");
  end_fetch(Error{ErrorCode::kUnavailable, "the connection broke"});
  executor.advance(300ms);
  EXPECT_EQ(std::get<wire::FindNode>(told.back()).node, NodeId{3});
}

TEST_F(ProgramsTest, WithoutSourcesTheErrorSaysWhatToDo) {
  obtain({NodeId{2}});
  find("second");
  end_fetch(Error{ErrorCode::kNotFound, "the job has ended"});
  EXPECT_EQ(end->error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(end->error().message(), "no node has all of the program's files any more: the job has ended");
  EXPECT_EQ(programs.coming(), 0U);
}

}  // namespace
}  // namespace pharos::node
