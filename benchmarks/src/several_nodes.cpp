// Measures a cluster that is started as users start it, with a head that keeps records: its rates, and how soon it
// notices that a worker or a node has died, or that the nodes are back after a restart of the head.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "created_actors.hpp"
#include "figures.hpp"
#include "program.hpp"
#include "started_cluster.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

constexpr const char* kResources = "cpu=2,seat=1000";
constexpr int kGroups = 4000;
constexpr std::size_t kGroupsInFlight = 64;

class Member {
 public:
  int pid() const { return ::getpid(); }
  int stay() const {
    std::this_thread::sleep_for(60s);
    return 0;
  }
};

pharos::PlacementGroup some_group(pharos::Runtime& runtime) {
  const pharos::Bundle bundle{.resources = {{"seat", 1}}};
  return runtime.reserve({.bundles = {bundle, bundle}});
}

double groups_per_s(pharos::Runtime& runtime) {
  std::deque<pharos::PlacementGroup> groups;
  const auto start = Clock::now();
  for (int made = 0; made < kGroups; ++made) {
    groups.push_back(some_group(runtime));
    if (groups.size() < kGroupsInFlight) continue;
    static_cast<void>(groups.front().nodes().get());
    groups.front().remove();
    groups.pop_front();
  }
  return kGroups / seconds_since(start);
}

double group_ms(pharos::Runtime& runtime) {
  return median_us(300,
                   [&] {
                     const auto group = some_group(runtime);
                     static_cast<void>(group.nodes().get());
                     group.remove();
                   }) /
         1000;
}

/// Returns the time from the death of a worker to the error that the caller gets.
double worker_death_ms(pharos::Runtime& runtime) {
  std::vector<double> times;
  for (int round = 0; round < 10; ++round) {
    const auto actor = runtime.spawn<Member>({.resources = {{"seat", 1}}});
    const int pid = actor.call<&Member::pid>().get();
    const auto stays = actor.call<&Member::stay>();
    const auto start = Clock::now();
    ::kill(pid, SIGKILL);
    static_cast<void>(stays.try_get());
    times.push_back(seconds_since(start) * 1000);
  }
  return median(std::move(times));
}

/// Returns the time from the death of a node, with all its workers, to the error that the caller gets.
double node_death_s(const StartedCluster& cluster, pharos::Runtime& runtime) {
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    const auto node = cluster.start_node("cpu=2,new=1");
    const auto actor = runtime.spawn<Member>({.resources = {{"new", 1}}});
    static_cast<void>(actor.call<&Member::pid>().get());
    const auto stays = actor.call<&Member::stay>();
    const auto start = Clock::now();
    node->kill();
    static_cast<void>(stays.try_get());
    times.push_back(seconds_since(start));
  }
  return median(std::move(times));
}

/// Returns the time from the kill of the head until both nodes are back, which is when a group has a bundle on each.
double nodes_back_s(StartedCluster& cluster, pharos::Runtime& runtime) {
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    cluster.restart_head();
    const pharos::Bundle bundle{.resources = {{"seat", 1}}};
    const auto group = runtime.reserve({.bundles = {bundle, bundle}, .strategy = pharos::Strategy::kStrictSpread});
    static_cast<void>(group.nodes().get());
    times.push_back(seconds_since(start));
    group.remove();
  }
  return median(std::move(times));
}

double join_ms(const StartedCluster& cluster) {
  return median_us(10, [&] { const auto node = cluster.start_node(kResources); }) / 1000;
}

/// Returns how long `pharos job submit` takes, from the start of the command to its end: then the program runs.
double job_submit_s(const StartedCluster& cluster) {
  return median_us(10, [&] { cluster.run({"job", "submit", "--", "/bin/true"}); }) / 1e6;
}

}  // namespace

void measure_several_nodes(Report& report, int argc, char** argv) {
  if (!report.wants_any({"process_actors_per_s", "process_actors_per_s_torch", "placement_groups_per_s",
                         "placement_group_ms", "worker_death_ms", "node_death_s", "head_recovery_nodes_back_s",
                         "join_ms", "job_submit_s"})) {
    return;
  }
  StartedCluster cluster{StartedCluster::Records::kOnDisk};
  const std::unique_ptr<Program> nodes[] = {cluster.start_node(kResources), cluster.start_node(kResources)};
  pharos::Runtime runtime{argc, argv};
  const auto measure = [&](const char* name, const char* unit, const auto& figure) {
    if (report.wants(name)) report.add(name, figure(), unit);
  };
  measure("process_actors_per_s", "/s", [&] { return actors_per_s<Member, &Member::pid>(runtime); });
  if (report.wants("process_actors_per_s_torch")) measure_with_torch(report, "actors");
  measure("placement_groups_per_s", "/s", [&] { return groups_per_s(runtime); });
  measure("placement_group_ms", "ms", [&] { return group_ms(runtime); });
  measure("worker_death_ms", "ms", [&] { return worker_death_ms(runtime); });
  measure("join_ms", "ms", [&] { return join_ms(cluster); });
  measure("job_submit_s", "s", [&] { return job_submit_s(cluster); });
  measure("node_death_s", "s", [&] { return node_death_s(cluster, runtime); });
  measure("head_recovery_nodes_back_s", "s", [&] { return nodes_back_s(cluster, runtime); });
}

}  // namespace bench
