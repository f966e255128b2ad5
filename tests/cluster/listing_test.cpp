// The commands `pharos status` and `pharos list`.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "several_nodes.hpp"

namespace pharos::cluster::listing {
namespace {

using namespace std::chrono_literals;

class ListingTest : public SeveralNodes {
 protected:
  void SetUp() override {
    SeveralNodes::SetUp();
    start_head();
    start_node("cpu=1,b=1", {{"PHAROS_LABELS", "zone=a,disk=ssd"}});
    start_node("cpu=1,c=1,gpu=1");
    driver_ = start_driver("crowd");
    read_until(*driver_, "ready");
  }
  void TearDown() override {
    driver_->kill(SIGKILL);
    driver_->wait();
    SeveralNodes::TearDown();
  }
  /// Runs the command over TCP, as from another machine.
  ChildProgram::End ask(std::vector<std::string> words) const {
    words.insert(words.end(), {"--address", address_, "--token-file", token_file()});
    return ChildProgram{PHAROS_EXECUTABLE, words}.wait();
  }

  std::unique_ptr<ChildProgram> driver_;
};

TEST_F(ListingTest, TheStatusSaysWhatThereIsAndWhoWaitsForWhat) {
  const auto end = ask({"status"});
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "3 nodes, 1 program\n");
  EXPECT_SAYS(end.output, "zone=a");
  EXPECT_SAYS(end.output, "1 c, 1 CPU, 1 GPU");
  EXPECT_SAYS(end.output, "2 demands that cannot be met now:\n");
  EXPECT_SAYS(end.output, "actor \"next\": it waits for 1 b: 1 of 1 b are in use, by actor \"holder\"\n");
  EXPECT_SAYS(end.output, "group \"late\": it waits for 1 c (pack): 1 of 1 c are in use");
}

TEST_F(ListingTest, ListsAreFilteredBeforeTheyAreCut) {
  const auto all = ask({"list", "actors"});
  EXPECT_EQ(all.status, 0) << all.error;
  EXPECT_SAYS(all.output, "holder");
  EXPECT_SAYS(all.output, "next");
  const auto alive = ask({"list", "actors", "--filter", "state=alive", "--limit", "1"});
  EXPECT_SAYS(alive.output, "holder");
  EXPECT_EQ(alive.output.find("next"), std::string::npos) << alive.output;
  EXPECT_EQ(alive.output.find("more"), std::string::npos) << alive.output;
  const auto cut = ask({"list", "nodes", "--limit", "2"});
  EXPECT_SAYS(cut.output, "… and 1 more");
  EXPECT_SAYS(ask({"list", "actors", "--limit", "1"}).output, "… and 1 more");
  const auto others = ask({"list", "actors", "--filter", "name!=holder", "--filter", "name!=next"});
  EXPECT_EQ(others.output, "no actors like that\n");
  const auto in_zone = ask({"list", "nodes", "--filter", "labels=zone=a"}).output;
  EXPECT_SAYS(in_zone, "disk=ssd, zone=a");
  EXPECT_SAYS(ask({"list", "nodes", "--filter", "labels=disk=ssd"}).output, "disk=ssd, zone=a");
  EXPECT_EQ(ask({"list", "nodes", "--filter", "labels!=zone=a"}).output.find("zone=a"), std::string::npos);
}

TEST_F(ListingTest, JsonIsForPrograms) {
  const auto groups = ask({"list", "groups", "--filter", "name=late", "--format", "json"});
  EXPECT_SAYS(groups.output, "[\n  {\"id\": \"");
  EXPECT_SAYS(groups.output,
              "\"name\": \"late\", \"strategy\": \"pack\", \"state\": \"waits for room\", \"bundles\": \"1 c\"");
  const auto none = ask({"list", "groups", "--filter", "name=x", "--format", "json"});
  EXPECT_EQ(none.output, "[]\n");
  const auto jobs = ask({"list", "jobs", "--format", "json"});
  EXPECT_SAYS(jobs.output, "far_driver\", \"state\": \"runs\"");
  const auto actors = ask({"list", "actors", "--limit", "1", "--format", "json"});
  EXPECT_SAYS(actors.output, "\"restarts\": 0, ");
  EXPECT_SAYS(actors.error, " more; --limit shows more");
  EXPECT_EQ(ask({"list", "actors", "--limit", "0"}).status, 512);
}

TEST_F(ListingTest, WhatMakesNoSenseIsSaid) {
  const auto column = ask({"list", "actors", "--filter", "color=red"});
  EXPECT_EQ(column.status, 512);
  EXPECT_SAYS(column.error, "actors have no \"color\". They have id, name, namespace, state");
  const auto filter = ask({"list", "actors", "--filter", "red"});
  EXPECT_EQ(filter.status, 512);
  EXPECT_SAYS(filter.error, "the filter \"red\" is invalid");
  EXPECT_EQ(ask({"list", "planets"}).status, 512);
  const auto nobody =
      ChildProgram{PHAROS_EXECUTABLE, {"status", "--address", "127.0.0.1:1", "--token-file", token_file()}}.wait();
  EXPECT_EQ(nobody.status, 256);
  EXPECT_SAYS(nobody.error, "asking 127.0.0.1:1");
  const auto without = ChildProgram{PHAROS_EXECUTABLE, {"status", "--address", address_}}.wait();
  EXPECT_SAYS(without.error, "the cluster's token is needed");
}

using TasksListingTest = SeveralNodes;

TEST_F(TasksListingTest, WhatTasksHaveAndWaitForIsTold) {
  start_head();
  start_node("cpu=1,c=1");
  const auto busy = start_driver("waits", {"tasks"});
  read_until(*busy, "c is ");
  const auto tasks_have = [&] {
    return ChildProgram{
        PHAROS_EXECUTABLE,
        {"list", "nodes", "--filter", "tasks_have=1 c, 1 CPU", "--address", address_, "--token-file", token_file()}}
        .wait()
        .output;
  };
  EXPECT_TRUE(eventually([&] { return tasks_have().find("alive") != std::string::npos; }, 10s));
  const auto status = [&] {
    return ChildProgram{PHAROS_EXECUTABLE, {"status", "--address", address_, "--token-file", token_file()}}
        .wait()
        .output;
  };
  EXPECT_TRUE(eventually([&] { return status().find("2 workers for tasks at node ") != std::string::npos; }, 10s))
      << status();
  EXPECT_SAYS(status(), ": each waits for 1 c, 1 CPU: 1 of 1 c and 1 of 1 CPUs are in use\n");
  busy->kill(SIGKILL);
  busy->wait();
  EXPECT_TRUE(eventually([&] { return tasks_have() == "no nodes like that\n"; }, 10s));
  EXPECT_TRUE(eventually([&] { return status().find("Nobody waits for resources.") != std::string::npos; }, 10s));
}

}  // namespace
}  // namespace pharos::cluster::listing
