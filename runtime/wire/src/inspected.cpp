#include "inspected.hpp"

#include <utility>

#include "fields.hpp"

namespace pharos::wire {
namespace {

void write_waits(capnp::List<schema::PendingResult>::Builder to, const std::vector<PendingResult>& from) {
  for (unsigned i = 0; i < to.size(); ++i) {
    auto b = to[i];
    b.setArgumentOf(from[i].argument_of);
    b.setStage(static_cast<std::uint8_t>(from[i].stage));
    b.setFunction(from[i].function);
    b.setActor(from[i].actor.value());
    b.setLabel(text_of(from[i].label));
    b.setWorker(from[i].worker.value());
    b.setNumber(from[i].number);
    b.setThread(from[i].thread);
    b.setInside(from[i].inside);
    write_amounts(b.initAmounts(static_cast<unsigned>(from[i].amounts.size())), from[i].amounts);
  }
}

void write_store(schema::InspectedStore::Builder to, const InspectedStore& from) {
  to.setCapacity(from.capacity);
  to.setUsed(from.used);
  to.setIdle(from.idle);
  to.setOnDisk(from.on_disk);
  to.setObjects(from.objects);
  auto objects = to.initLargest(static_cast<unsigned>(from.largest.size()));
  for (unsigned i = 0; i < objects.size(); ++i) {
    auto b = objects[i];
    const InspectedObject& object = from.largest[i];
    b.setMaker(object.maker.value());
    b.setNumber(object.number);
    b.setSize(object.size);
    b.setLabel(text_of(object.label));
    b.setSealed(object.sealed);
    b.setOut(object.out);
    b.setCopied(object.copied);
    auto uses = b.initUses(static_cast<unsigned>(object.uses.size()));
    for (unsigned u = 0; u < uses.size(); ++u) {
      uses[u].setProcess(object.uses[u].process.value());
      uses[u].setHolds(object.uses[u].holds);
      uses[u].setReads(object.uses[u].reads);
    }
  }
  auto processes = to.initProcesses(static_cast<unsigned>(from.processes.size()));
  for (unsigned i = 0; i < processes.size(); ++i) {
    processes[i].setCaller(from.processes[i].caller.value());
    processes[i].setPid(from.processes[i].pid);
    processes[i].setLabel(text_of(from.processes[i].label));
  }
}

std::optional<std::vector<PendingResult>> read_waits(capnp::List<schema::PendingResult>::Reader from) {
  std::vector<PendingResult> waits;
  for (const auto r : from) {
    if (r.getStage() > static_cast<std::uint8_t>(PendingResult::Stage::kSent)) return std::nullopt;
    // A result must come after the result whose argument it is, so that the references form no cycle.
    if (r.getArgumentOf() < -1 || r.getArgumentOf() >= static_cast<std::int64_t>(waits.size())) return std::nullopt;
    waits.push_back({.argument_of = r.getArgumentOf(),
                     .stage = static_cast<PendingResult::Stage>(r.getStage()),
                     .function = r.getFunction(),
                     .actor = ActorId{r.getActor()},
                     .label = text(r.getLabel()),
                     .worker = WorkerId{r.getWorker()},
                     .number = r.getNumber(),
                     .thread = r.getThread(),
                     .inside = r.getInside(),
                     .amounts = read_amounts(r.getAmounts())});
  }
  return waits;
}

InspectedStore read_store(schema::InspectedStore::Reader from) {
  InspectedStore store{.capacity = from.getCapacity(),
                       .used = from.getUsed(),
                       .idle = from.getIdle(),
                       .on_disk = from.getOnDisk(),
                       .objects = from.getObjects()};
  for (const auto r : from.getLargest()) {
    InspectedObject object{.maker = CallerId{r.getMaker()},
                           .number = r.getNumber(),
                           .size = r.getSize(),
                           .label = text(r.getLabel()),
                           .sealed = r.getSealed(),
                           .out = r.getOut(),
                           .copied = r.getCopied()};
    for (const auto u : r.getUses()) object.uses.push_back({CallerId{u.getProcess()}, u.getHolds(), u.getReads()});
    store.largest.push_back(std::move(object));
  }
  for (const auto r : from.getProcesses()) {
    store.processes.push_back({CallerId{r.getCaller()}, r.getPid(), text(r.getLabel())});
  }
  return store;
}

}  // namespace

void write_inspected(schema::Inspected::Builder to, const Inspected& from) {
  write_amounts(to.initTotal(static_cast<unsigned>(from.total.size())), from.total);
  write_amounts(to.initInUse(static_cast<unsigned>(from.in_use.size())), from.in_use);
  write_amounts(to.initCluster(static_cast<unsigned>(from.cluster.size())), from.cluster);
  to.setNumber(from.number);
  auto workers = to.initWorkers(static_cast<unsigned>(from.workers.size()));
  for (unsigned i = 0; i < workers.size(); ++i) {
    auto b = workers[i];
    const InspectedWorker& worker = from.workers[i];
    b.setWorker(worker.worker.value());
    b.setActor(worker.actor.value());
    b.setLabel(text_of(worker.label));
    b.setState(text_of(worker.state));
    b.setPid(worker.pid);
    b.setAnswered(worker.answered);
    b.setFunction(worker.function);
    b.setNanoseconds(worker.nanoseconds);
    b.setCaller(worker.caller.value());
    b.setNumber(worker.number);
    write_waits(b.initWaits(static_cast<unsigned>(worker.waits.size())), worker.waits);
    write_amounts(b.initAmounts(static_cast<unsigned>(worker.amounts.size())), worker.amounts);
    b.setElsewhere(text_of(worker.elsewhere));
    b.setMayRunAgain(worker.may_run_again);
  }
  write_store(to.initStore(), from.store);
}

std::optional<Inspected> read_inspected(schema::Inspected::Reader from) {
  Inspected inspected{.total = read_amounts(from.getTotal()),
                      .in_use = read_amounts(from.getInUse()),
                      .cluster = read_amounts(from.getCluster()),
                      .number = from.getNumber(),
                      .store = read_store(from.getStore())};
  for (const auto r : from.getWorkers()) {
    auto waits = read_waits(r.getWaits());
    if (!waits) return std::nullopt;
    inspected.workers.push_back({.worker = WorkerId{r.getWorker()},
                                 .actor = ActorId{r.getActor()},
                                 .label = text(r.getLabel()),
                                 .state = text(r.getState()),
                                 .pid = r.getPid(),
                                 .answered = r.getAnswered(),
                                 .function = r.getFunction(),
                                 .nanoseconds = r.getNanoseconds(),
                                 .caller = CallerId{r.getCaller()},
                                 .number = r.getNumber(),
                                 .waits = std::move(*waits),
                                 .amounts = read_amounts(r.getAmounts()),
                                 .elsewhere = text(r.getElsewhere()),
                                 .may_run_again = r.getMayRunAgain()});
  }
  return inspected;
}

}  // namespace pharos::wire
