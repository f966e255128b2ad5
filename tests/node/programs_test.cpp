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
  static async::Async<void> obtain_into(ProgramsTest* test, std::vector<NodeId> sources) {
    test->end = co_await test->programs.obtain(test->job, std::move(sources));
  }
  void obtain(std::vector<NodeId> sources) {
    background.spawn(obtain_into(this, std::move(sources)));
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
  EXPECT_EQ(programs.coming(), 0U);
}

}  // namespace
}  // namespace pharos::node
