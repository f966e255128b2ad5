#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "child_program.hpp"
#include "cluster_test.hpp"

namespace pharos::cluster::grandchildren {
namespace {

using namespace std::chrono_literals;

/// Processes that user code started with setsid() and a double fork, one from an actor, one from a task.
class GrandchildrenTest : public ClusterTest {
 protected:
  void start() {
    program_.emplace(CLUSTER_DRIVER, std::vector<std::string>{"grandchildren"});
    for (int i = 0; i < 2; ++i) grandchildren_.push_back(static_cast<pid_t>(std::stol(program_->next_line())));
    EXPECT_EQ(program_->next_line(), "ready");
    for (const pid_t each : grandchildren_) EXPECT_EQ(::kill(each, 0), 0);
  }
  bool gone() const {
    return std::all_of(grandchildren_.begin(), grandchildren_.end(), [](pid_t each) { return ::kill(each, 0) != 0; });
  }

  std::optional<ChildProgram> program_;
  std::vector<pid_t> grandchildren_;
};

TEST_F(GrandchildrenTest, TheyDieWithTheCluster) {
  start();
  program_->kill(SIGTERM);
  EXPECT_EQ(program_->wait().status, 0);
  EXPECT_TRUE(gone()) << "they are to be gone when the Runtime has ended";
}

TEST_F(GrandchildrenTest, TheyDieWhenTheDriverIsKilled) {
  start();
  program_->kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return gone(); }));
  program_->wait();
}

TEST_F(GrandchildrenTest, TheyDieWhenTheNodeIsKilled) {
  start();
  ::kill(census().wait_for(Part::kNode, 1).at(0).pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return gone(); }));
  program_->kill(SIGTERM);
  program_->wait();
}

TEST_F(GrandchildrenTest, TheyDieWhenTheKeeperIsKilled) {
  start();
  ::kill(census().wait_for(Part::kKeeper, 1).at(0).pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return gone(); }));
  program_->kill(SIGTERM);
  program_->wait();
}

}  // namespace
}  // namespace pharos::cluster::grandchildren
