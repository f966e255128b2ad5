// Trainings with two ranks on each of two machines. One rank dies wherever it sends, receives and waits.

#include <chrono>
#include <string>

#include "nodes_apart.hpp"
#include "says.hpp"

namespace pharos::cluster {
namespace {

using namespace std::chrono_literals;

class ApartTest : public NodesApart {
 protected:
  void SetUp() override {
    NodesApart::SetUp();
    if (IsSkipped()) return;
    must_end_within(240s);
    start_head_at(false, "cpu=0");
    start_node_at(kB, "cpu=2");
    start_node_at(kC, "cpu=2");
  }
  void expect_learns_the_same(const std::string& strategy, const std::string& failpoint) {
    SCOPED_TRACE(strategy + ", " + failpoint);
    const auto program =
        start_far(FITTING_PROGRAM, {folder() / (strategy + failpoint), "pack", strategy, "4", "4", failpoint});
    const auto end = program->wait(60s);
    EXPECT_EQ(end.status, 0) << end.error;
    EXPECT_SAYS(end.output, "the same to the bit\nagain: rank 1");
  }
};

TEST_F(ApartTest, ARankThatDiesAtAnyFailpointBetweenMachinesIsReplaced) {
  for (const std::string where : {"begin_told", "part_sent", "part_came", "lane_begins", "lane_ended"}) {
    expect_learns_the_same("copies", where + ":kill:0");
    expect_learns_the_same("copies", where + ":stop:0");
  }
}

TEST_F(ApartTest, APartThatIsLostBetweenMachinesIsInACheckpoint) {
  for (const std::string strategy : {"zero1", "zero2", "fsdp"}) {
    for (const std::string where : {"part_sent", "part_came"}) expect_learns_the_same(strategy, where + ":kill:1");
  }
  expect_learns_the_same("fsdp", "part_came:stop:1");
}

}  // namespace
}  // namespace pharos::cluster
