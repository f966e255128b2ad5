#include "faults.hpp"

#include <chrono>

namespace pharos::simulator {

using namespace std::chrono_literals;

Faults::Faults(Cluster& cluster, TimePoint until) : cluster_{cluster}, until_{until} {
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
  next();
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
    return stop_for_a_while(cluster_.node(lots().below(cluster_.nodes())), 300ms);
  }
  if (drains_node_ && lots().one_in(6)) {
    drains_node_ = false;
    return cluster_.drain(1, lots().one_in(2) ? Duration{0} : lots().between(1ms, 500ms));
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
  stop_for_a_while(worker, 80ms);
}

void Faults::stop_for_a_while(Process& process, Duration longest) {
  process.stop();
  cluster_.world().after(lots().between(Duration{1ms}, longest), [&process] { process.proceed(); });
}

}  // namespace pharos::simulator
