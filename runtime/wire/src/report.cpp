#include "report.hpp"

#include "fields.hpp"

namespace pharos::wire {
namespace {

unsigned size_of(const auto& list) {
  return static_cast<unsigned>(list.size());
}

void write_bundles(capnp::List<schema::Bundle>::Builder to, const std::vector<Report::Bundle>& from) {
  for (unsigned i = 0; i < to.size(); ++i) {
    to[i].setGroup(from[i].group.value());
    to[i].setBundle(from[i].bundle);
  }
}

void read_bundles(capnp::List<schema::Bundle>::Reader from, std::vector<Report::Bundle>& to) {
  for (const auto each : from) to.push_back({GroupId{each.getGroup()}, each.getBundle()});
}

void write_share(schema::Share::Builder to, const Share& from) {
  to.setNode(from.node.value());
  write_amounts(to.initAmounts(size_of(from.amounts)), from.amounts);
  write_gpus(to.initGpus(size_of(from.gpus)), from.gpus);
}

Share read_share(schema::Share::Reader from) {
  return {NodeId{from.getNode()}, read_amounts(from.getAmounts()), read_gpus(from.getGpus())};
}

}  // namespace

void write_report(schema::Report::Builder to, const Report& from) {
  write_ids(to.initJobs(size_of(from.jobs)), from.jobs);
  auto callers = to.initCallers(size_of(from.callers));
  for (unsigned i = 0; i < callers.size(); ++i) {
    callers[i].setCaller(from.callers[i].caller.value());
    callers[i].setJob(from.callers[i].job.value());
  }
  auto holds = to.initHolds(size_of(from.holds));
  for (unsigned i = 0; i < holds.size(); ++i) {
    holds[i].setCaller(from.holds[i].caller.value());
    holds[i].setActor(from.holds[i].actor.value());
    holds[i].setCount(from.holds[i].count);
  }
  auto incarnations = to.initIncarnations(size_of(from.incarnations));
  for (unsigned i = 0; i < incarnations.size(); ++i) {
    incarnations[i].setActor(from.incarnations[i].actor.value());
    incarnations[i].setIncarnation(from.incarnations[i].incarnation);
    incarnations[i].setConstructed(from.incarnations[i].constructed);
  }
  write_bundles(to.initBundles(size_of(from.bundles)), from.bundles);
  write_bundles(to.initUnheld(size_of(from.unheld)), from.unheld);
  auto lent = to.initLent(size_of(from.lent));
  for (unsigned i = 0; i < lent.size(); ++i) {
    lent[i].setWorker(from.lent[i].worker.value());
    lent[i].setCaller(from.lent[i].caller.value());
    lent[i].setJob(from.lent[i].job.value());
  }
  write_ids(to.initBorrowed(size_of(from.borrowed)), from.borrowed);
  to.setMore(from.more);
}

Report read_report(schema::Report::Reader from) {
  Report report;
  read_ids(from.getJobs(), report.jobs);
  for (const auto each : from.getCallers()) {
    report.callers.push_back({CallerId{each.getCaller()}, JobId{each.getJob()}});
  }
  for (const auto each : from.getHolds()) {
    report.holds.push_back({CallerId{each.getCaller()}, ActorId{each.getActor()}, each.getCount()});
  }
  for (const auto each : from.getIncarnations()) {
    report.incarnations.push_back({ActorId{each.getActor()}, each.getIncarnation(), each.getConstructed()});
  }
  read_bundles(from.getBundles(), report.bundles);
  read_bundles(from.getUnheld(), report.unheld);
  for (const auto each : from.getLent()) {
    report.lent.push_back({WorkerId{each.getWorker()}, CallerId{each.getCaller()}, JobId{each.getJob()}});
  }
  read_ids(from.getBorrowed(), report.borrowed);
  report.more = from.getMore();
  return report;
}

void write_life(schema::ActorLife::Builder to, const ActorLife& from) {
  to.setActor(from.actor.value());
  to.setIncarnation(from.incarnation);
  to.setRestarts(from.restarts);
  to.setBackoff(from.backoff);
  to.setWaits(from.waits);
  write_share(to.initHas(), from.has);
  to.setGroup(from.group.value());
  to.setBundle(from.bundle);
  if (from.over) write_failure(to.initOver(), *from.over);
  to.setLabel(text_of(from.label));
  to.setJob(from.job.value());
  to.setLastEnd(text_of(from.last_end));
  to.setOutOfMemory(from.out_of_memory);
}

std::optional<ActorLife> read_life(schema::ActorLife::Reader from) {
  ActorLife life{.actor = ActorId{from.getActor()},
                 .incarnation = from.getIncarnation(),
                 .restarts = from.getRestarts(),
                 .backoff = from.getBackoff(),
                 .waits = from.getWaits(),
                 .has = read_share(from.getHas()),
                 .group = GroupId{from.getGroup()},
                 .bundle = from.getBundle(),
                 .over = std::nullopt,
                 .label = text(from.getLabel()),
                 .job = JobId{from.getJob()},
                 .last_end = text(from.getLastEnd()),
                 .out_of_memory = from.getOutOfMemory()};
  if (from.hasOver()) {
    life.over = read_failure(from.getOver());
    if (!life.over) return std::nullopt;
  }
  return life;
}

void write_places(schema::GroupPlaces::Builder to, const GroupPlaces& from) {
  to.setGroup(from.group.value());
  auto places = to.initPlaces(size_of(from.places));
  for (unsigned i = 0; i < places.size(); ++i) write_share(places[i], from.places[i]);
  to.setRemoved(from.removed);
}

GroupPlaces read_places(schema::GroupPlaces::Reader from) {
  GroupPlaces places{GroupId{from.getGroup()}, {}, from.getRemoved()};
  for (const auto each : from.getPlaces()) places.places.push_back(read_share(each));
  return places;
}

}  // namespace pharos::wire
