#include "workers/lifecycles.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pharos::node {
namespace {

using Names = std::vector<std::string>;

/// A line for each state: its name, and the states that follow it after each event.
template <class Table>
Names lines_of(const Table& table, const Names& states) {
  Names lines;
  for (std::size_t from = 0; from < table.size(); ++from) {
    std::string line = states[from] + ":";
    for (const auto to : table[from]) line += " " + states[static_cast<std::size_t>(to)];
    lines.push_back(line);
  }
  return lines;
}

TEST(Lifecycles, AWorkerIsKilledOnceAndForAllAndOnlyOneThatWasNeverReadyFails) {
  EXPECT_EQ(lines_of(kWorkerTransitions, {"forking", "ready", "last task", "killed", "failed"}),
            (Names{
                // events: proved, told to end, killed, not proved
                "forking: ready forking killed failed",
                "ready: ready last task killed ready",
                "last task: last task last task killed last task",
                "killed: killed killed killed failed",
                "failed: failed failed failed failed",
            }));
}

TEST(Lifecycles, AProgramThatIsLoadedOrBrokenStaysSo) {
  EXPECT_EQ(lines_of(kProgramTransitions, {"fetching", "loading", "loaded", "broken"}),
            (Names{
                // events: opened, loaded, refused
                "fetching: loading fetching broken",
                "loading: loading loaded broken",
                "loaded: loaded loaded loaded",
                "broken: broken broken broken",
            }));
}

TEST(Lifecycles, AJobEndsFromEachStateAndNeverRunsAgain) {
  EXPECT_EQ(lines_of(kJobTransitions, {"running", "asked", "stopping", "stopped", "ended"}),
            (Names{
                // events: driver asks, head orders, workers gone, over
                "running: asked stopping running ended",
                "asked: asked stopping asked ended",
                "stopping: stopping stopping stopped ended",
                "stopped: stopped stopped stopped ended",
                "ended: ended ended ended ended",
            }));
}

TEST(Lifecycles, ALifeFollowsItsTable) {
  WorkerLife life{WorkerState::kForking};
  life.on(WorkerEvent::kProved);
  EXPECT_EQ(life.state(), WorkerState::kReady);
  life.on(WorkerEvent::kToldToEnd);
  EXPECT_EQ(life.state(), WorkerState::kLastTask);
  life.on(WorkerEvent::kKilled);
  EXPECT_EQ(life.state(), WorkerState::kKilled);
}

}  // namespace
}  // namespace pharos::node
