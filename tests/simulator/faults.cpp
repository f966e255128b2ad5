#include "faults.hpp"

#include <chrono>

namespace pharos::simulator {

using namespace std::chrono_literals;

Faults::Faults(Cluster& cluster, TimePoint until, bool one_lasts) : cluster_{cluster}, until_{until}, over_{until} {
  kills_ = lots().one_in(3) ? 0 : lots().between(1, 4);
  cuts_ = lots().one_in(3) ? 0 : lots().between(1, 6);
  stops_ = lots().one_in(2) ? 0 : lots().between(1, 3);
  node_stops_ = lots().one_in(2) ? 0 : lots().between(1, 2);
  zygotes_ = lots().one_in(2) ? 0 : lots().between(1, 2);
  loses_node_ = cluster.nodes() > 1 && lots().one_in(6);
  loses_head_ = !cluster.durable() && lots().one_in(15);
  head_restarts_ = cluster.durable() ? lots().between(1, 4) : 0;
  loses_driver_ = lots().one_in(6);
  drains_node_ = cluster.nodes() > 1 && lots().one_in(6);
  ends_node_ = lots().one_in(12);
  next();
  if (!one_lasts) return;
  const Duration begins = lots().between(1ms, 1s);
  const Duration time = lots().between(10s, 12s);
  over_ = cluster.world().now() + begins + time;  // the fault strikes even if the programs end before it begins
  cluster.world().after(begins, [this, time] { begin_one_that_lasts(time); });
}

void Faults::begin_one_that_lasts(Duration time) {
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

void Faults::next() {
  cluster_.world().after(lots().between(200us, 12ms), [this] {
    if (cluster_.world().now() >= until_ || cluster_.all_drivers_ended()) return;
    strike();
    next();
  });
}

void Faults::strike() {
  if (loses_node_ && lots().one_in(6)) {
    loses_node_ = false;
    return cluster_.node(1).kill("is killed");
  }
  if (loses_head_ && lots().one_in(10)) {
    loses_head_ = false;
    return cluster_.node(0).kill("is killed");
  }
  if (head_restarts_ != 0 && cluster_.node(0).alive() && lots().one_in(3)) {
    --head_restarts_;
    return cluster_.node(0).kill("is killed, and starts again");
  }
  if (const auto drivers = cluster_.drivers(); loses_driver_ && !drivers.empty() && lots().one_in(6)) {
    loses_driver_ = false;
    return drivers[lots().below(drivers.size())]->kill("is killed");
  }
  if (node_stops_ != 0 && lots().one_in(6)) {
    --node_stops_;
    Process& node = cluster_.node(lots().below(cluster_.nodes()));
    return stop_for(node, lots().between(1ms, 300ms));
  }
  if (drains_node_ && lots().one_in(6)) {
    drains_node_ = false;
    return cluster_.drain(1, lots().one_in(2) ? Duration{0} : lots().between(1ms, 500ms));
  }
  if (ends_node_ && lots().one_in(10)) {
    ends_node_ = false;
    return cluster_.end_a_node();
  }
  const auto zygotes = cluster_.processes("zygote");
  if (zygotes_ != 0 && !zygotes.empty() && lots().one_in(6)) {
    --zygotes_;
    return zygotes[lots().below(zygotes.size())]->kill("is killed");
  }
  const std::uint64_t all = kills_ + cuts_ + stops_;
  if (all == 0) return;
  const std::uint64_t drawn = lots().below(all);
  if (drawn < cuts_) {
    cluster_.network().cut_one();
    return;
  }
  const auto workers = cluster_.processes("worker");
  if (workers.empty()) return;
  Process& worker = *workers[lots().below(workers.size())];
  if (drawn < cuts_ + kills_) return worker.kill("is killed");
  stop_for(worker, lots().between(1ms, 80ms));
}

// A process that is stopped already keeps the end of that stop.
void Faults::stop_for(Process& process, Duration time) {
  if (process.stopped()) return;
  process.stop();
  cluster_.world().after(time, [&process] { process.proceed(); });
}

}  // namespace pharos::simulator
