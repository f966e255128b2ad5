#include "head/listing.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "head_actor_parts.hpp"

namespace pharos::node::head {
namespace {

class HeadListing : public HeadActorParts {
 protected:
  /// Returns the rows of a table, of each the cell below this column.
  std::vector<std::string> list(const std::string& table, const std::string& column) const {
    const auto rows = listing_.list({table, {}, 100});
    if (!rows) return {rows.error().message()};
    const auto at = std::find(rows->columns.begin(), rows->columns.end(), column) - rows->columns.begin();
    std::vector<std::string> cells;
    for (const auto& row : rows->rows) cells.push_back(row.at(static_cast<std::size_t>(at)));
    return cells;
  }
  Listing listing_{nodes_, jobs_, groups_, actors_, places_, placement_};
};

TEST_F(HeadListing, NodesAreAliveOrDrainOrAreSilent) {
  EXPECT_EQ(list("nodes", "state"), (Names{"alive", "alive"}));
  placement_.close_node(NodeId{2});
  nodes_.begin_silence(NodeId{1});
  EXPECT_EQ(list("nodes", "state"), (Names{"silent", "drains"}));
  EXPECT_EQ(list("nodes", "address"), (Names{"10.0.0.1", "10.0.0.2"}));
}

TEST_F(HeadListing, WhoWaitsIsPendingAndTheReasonNamesWhoHasTheResources) {
  start_alive(making(50, "cpu=4"));
  maker_.start(NodeId{1}, making(51, "cpu=4"));
  EXPECT_EQ(list("pending", "what"), Names{"actor \"a51\""});
  const auto why = list("pending", "why").front();
  EXPECT_NE(why.find("4 of 4 CPUs are in use, by actor \"a50\""), std::string::npos) << why;
  EXPECT_EQ(list("actors", "state"), (Names{"alive", "starts"}));
}

TEST_F(HeadListing, TasksThatWaitArePendingToo) {
  nodes_.note_waiting(NodeId{1}, {{demand("cpu=2").amounts, 3}});
  EXPECT_EQ(list("pending", "what"), Names{"3 workers for tasks at node " + to_string(NodeId{1})});
}

TEST_F(HeadListing, AJobWithoutADriverSaysSo) {
  EXPECT_EQ(list("jobs", "state"), Names{"runs"});
  jobs_.leave_driver(JobId{7});
  EXPECT_EQ(list("jobs", "state"), Names{"has ended; its detached actors continue"});
}

TEST_F(HeadListing, GroupsAndRecordsAreTablesAndOthersAreNot) {
  EXPECT_EQ(list("groups", "id"), Names{});
  listing_.note_set_aside(3);
  EXPECT_EQ(list("records", "set_aside"), Names{"3"});
  EXPECT_EQ(list("chairs", "id"), Names{"there is no table \"chairs\""});
}

TEST_F(HeadListing, AProgramSeesTheNodes) {
  start_alive(making(50, "cpu=1"));
  const auto listed = listing_.list_nodes({asker(4)});
  EXPECT_EQ(listed.number, 4u);
  ASSERT_EQ(listed.nodes.size(), 2u);
  std::int64_t in_use = 0;
  for (const auto& each : listed.nodes) {
    EXPECT_EQ(each.has.at("cpu"), 4 * scheduler::Resources::kWhole);
    EXPECT_FALSE(each.is_silent || each.drains);
    in_use += each.in_use.contains("cpu") ? each.in_use.at("cpu") : 0;
  }
  EXPECT_EQ(in_use, scheduler::Resources::kWhole);
}

TEST_F(HeadListing, AProgramSeesItsActorsAndWhereTheyAre) {
  start_alive(making(50));
  const wire::PromiseActor promise{.actor = ActorId{51}, .label = "a51", .asker = asker(1)};
  ASSERT_TRUE(maker_.promise(NodeId{1}, promise, jobs_));
  const auto inspected = listing_.inspect(NodeId{1}, asker(4));
  ASSERT_EQ(inspected.workers.size(), 2u);
  EXPECT_EQ(inspected.number, 4u);
  EXPECT_EQ(inspected.workers[0].state, "it is alive");
  EXPECT_NE(inspected.workers[0].elsewhere.find("at 10.0.0.2"), std::string::npos);
  EXPECT_EQ(inspected.workers[1].state, "its constructor waits for arguments");
  EXPECT_TRUE(listing_.inspect(NodeId{2}, asker(5)).workers[0].elsewhere.empty());
  EXPECT_TRUE(listing_.inspect(NodeId{1}, asker(6, 71, 8)).workers.empty());
}

}  // namespace
}  // namespace pharos::node::head
