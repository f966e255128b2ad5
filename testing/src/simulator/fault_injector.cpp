#include "simulator/fault_injector.hpp"

#include <algorithm>
#include <chrono>

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kGapMin = 200us;

}  // namespace

testing::Faults draw_faults(Cluster& cluster) {
  Lots& lots = cluster.lots();
  const auto up_to = [&lots](std::uint64_t most, std::uint64_t never_in) {
    return static_cast<std::uint32_t>(lots.one_in(never_in) ? 0 : lots.between(1, most));
  };
  testing::Faults faults;
  faults.worker_kills = up_to(10, 3);
  faults.worker_stops = up_to(8, 2);
  faults.zygote_kills = up_to(2, 2);  // few, because a node restarts a zygote only a few times
  faults.connection_cuts = up_to(15, 3);
  faults.node_stops = up_to(2, 2);
  faults.head_restarts = cluster.durable() ? static_cast<std::uint32_t>(lots.between(1, 4)) : 0;
  faults.node_kill = cluster.nodes() > 1 && lots.one_in(6);
  faults.head_kill = !cluster.durable() && lots.one_in(15);
  faults.program_kill = lots.one_in(6);
  faults.node_drain = cluster.nodes() > 1 && lots.one_in(6);
  faults.node_end = lots.one_in(12);
  return faults;
}

FaultInjector::FaultInjector(Cluster& cluster, const testing::Faults& faults)
    : cluster_{cluster},
      kinds_{{faults.worker_kills, &FaultInjector::kill_worker},
             {faults.worker_stops, &FaultInjector::stop_worker},
             {faults.zygote_kills, &FaultInjector::kill_zygote},
             {faults.connection_cuts, &FaultInjector::cut_connection},
             {faults.node_stops, &FaultInjector::stop_node},
             {faults.head_restarts + (faults.head_kill ? 1 : 0), &FaultInjector::kill_head},
             {faults.node_kill ? 1U : 0U, &FaultInjector::kill_node},
             {faults.program_kill ? 1U : 0U, &FaultInjector::kill_program},
             {faults.node_drain ? 1U : 0U, &FaultInjector::drain_node},
             {faults.node_end ? 1U : 0U, &FaultInjector::end_node}},
      until_{cluster.world().now() + faults.lasts},
      over_{until_} {
  std::uint32_t all = 0;
  for (const Kind& each : kinds_) all += each.left;
  gap_max_ = std::max(2 * faults.lasts / (all + 1), kGapMin);
  next();
  if (!faults.long_silence) return;
  const Duration begins = lots().between(1ms, 1s);
  const Duration time = lots().between(10s, 12s);
  over_ = cluster.world().now() + begins + time;  // the fault strikes even if the programs end before it begins
  cluster.world().after(begins, [this, time] { silence_one(time); });
}

void FaultInjector::silence_one(Duration time) {
  const std::size_t place = lots().below(cluster_.nodes());
  switch (cluster_.nodes() > 1 ? lots().below(5) : lots().below(2)) {
    case 0: return stop_for(cluster_.node(place), time);
    case 1:
      for (Process* const process : cluster_.machine(place)) stop_for(*process, time);
      return;
    case 2: return cluster_.hold_head_link(1, true, true, time);
    case 3: return cluster_.hold_head_link(1, true, false, time);
    default: return cluster_.hold_head_link(1, false, true, time);
  }
}

void FaultInjector::next() {
  cluster_.world().after(lots().between(kGapMin, gap_max_), [this] {
    if (cluster_.world().now() >= until_ || cluster_.all_drivers_ended()) return;
    strike();
    next();
  });
}

// Each fault that is left is as likely as any other one.
void FaultInjector::strike() {
  std::uint64_t all = 0;
  for (const Kind& each : kinds_) all += each.left;
  if (all == 0) return;
  std::uint64_t drawn = lots().below(all);
  for (Kind& each : kinds_) {
    if (drawn < each.left) {
      if ((this->*each.strike)()) --each.left;
      return;
    }
    drawn -= each.left;
  }
}

Process* FaultInjector::one_of(const std::vector<Process*>& processes) {
  return processes.empty() ? nullptr : processes[lots().below(processes.size())];
}

bool FaultInjector::kill_worker() {
  Process* const worker = one_of(cluster_.processes("worker"));
  if (worker != nullptr) worker->kill("is killed");
  return worker != nullptr;
}

bool FaultInjector::stop_worker() {
  Process* const worker = one_of(cluster_.processes("worker"));
  if (worker != nullptr) stop_for(*worker, lots().between(1ms, 80ms));
  return worker != nullptr;
}

bool FaultInjector::kill_zygote() {
  Process* const zygote = one_of(cluster_.processes("zygote"));
  if (zygote != nullptr) zygote->kill("is killed");
  return zygote != nullptr;
}

bool FaultInjector::cut_connection() {
  return cluster_.network().cut_one();
}

bool FaultInjector::stop_node() {
  Process& node = cluster_.node(lots().below(cluster_.nodes()));
  stop_for(node, lots().between(1ms, 300ms));
  return node.alive();
}

bool FaultInjector::kill_head() {
  Process& head = cluster_.node(0);
  if (!head.alive()) return false;
  head.kill("is killed");
  return true;
}

bool FaultInjector::kill_node() {
  if (cluster_.nodes() == 1 || !cluster_.node(1).alive()) return false;
  cluster_.node(1).kill("is killed");
  return true;
}

bool FaultInjector::kill_program() {
  Process* const program = one_of(cluster_.drivers());
  if (program != nullptr) program->kill("is killed");
  return program != nullptr;
}

bool FaultInjector::drain_node() {
  if (cluster_.nodes() == 1) return false;
  cluster_.drain(1, lots().one_in(2) ? Duration{0} : lots().between(1ms, 500ms));
  return true;
}

bool FaultInjector::end_node() {
  cluster_.end_a_node();
  return true;
}

// A process that is stopped already keeps the end of that stop.
void FaultInjector::stop_for(Process& process, Duration time) {
  if (process.stopped()) return;
  process.stop();
  cluster_.world().after(time, [&process] { process.proceed(); });
}

}  // namespace pharos::simulator
