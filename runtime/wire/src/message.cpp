#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include <pharos/wire/message.hpp>

#include "control.capnp.h"
#include "fields.hpp"
#include "inspected.hpp"
#include "report.hpp"

namespace pharos::wire {
namespace {

using Schema = schema::Message;
template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
// Clang 14 does not find this by itself.
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

void write_labels(capnp::List<schema::Label>::Builder to, const std::map<std::string, std::string>& labels) {
  unsigned i = 0;
  for (const auto& [name, value] : labels) {
    to[i].setName(text_of(name));
    to[i++].setValue(text_of(value));
  }
}

void write_demand(schema::Demand::Builder to, const Demand& demand) {
  write_amounts(to.initAmounts(static_cast<unsigned>(demand.amounts.size())), demand.amounts);
  to.setOnly(demand.only.value());
  auto rules = to.initLabels(static_cast<unsigned>(demand.labels.size()));
  for (unsigned i = 0; i < rules.size(); ++i) {
    const LabelRule& rule = demand.labels[i];
    rules[i].setName(text_of(rule.name));
    set_texts(rules[i].initValues(static_cast<unsigned>(rule.values.size())), rule.values);
    rules[i].setIsNot(rule.is_not);
  }
  to.setNear(demand.near.value());
  to.setSpread(demand.spread);
  to.setGroup(demand.group.value());
  to.setBundle(demand.bundle);
}

template <class Which>
void write_bundle(schema::Bundle::Builder to, const Which& bundle) {
  to.setGroup(bundle.group.value());
  to.setBundle(bundle.bundle);
}

void write_holding(schema::Holding::Builder to, const Holding& holding) {
  write_amounts(to.initAmounts(static_cast<unsigned>(holding.amounts.size())), holding.amounts);
  set_texts(to.initGpus(static_cast<unsigned>(holding.gpus.size())), holding.gpus);
}

void write_program(schema::RegisterJob::Builder to, const RegisterJob& m) {
  to.setExecutable(text_of(m.executable));
  set_texts(to.initArguments(static_cast<unsigned>(m.arguments.size())), m.arguments);
  set_texts(to.initEnvironment(static_cast<unsigned>(m.environment.size())), m.environment);
  to.setFolder(text_of(m.folder));
  to.setBuildId(data_of(m.build_id));
}

void write_object(schema::Object::Builder to, const ObjectLocation& object) {
  to.setSlot(object.place.slot);
  to.setGeneration(object.place.generation);
  to.setMaker(object.id.maker.value());
  to.setNumber(object.id.number);
  to.setOwner(object.owner.value());
  to.setNode(object.node.value());
}

template <class Builder>
void write_asker(Builder to, const Asker& asker) {
  auto b = to.initAsker();
  b.setJob(asker.job.value());
  b.setCaller(asker.caller.value());
  b.setNumber(asker.number);
}

/// Of an actor that is promised or started.
template <class Builder, class Spec>
void write_spec(Builder to, const Spec& spec) {
  to.setActor(spec.actor.value());
  to.setLabel(text_of(spec.label));
  to.setNameSpace(text_of(spec.name_space));
  to.setName(text_of(spec.name));
  to.setType(text_of(spec.type));
  to.setMaxRestarts(spec.max_restarts);
  to.setDetached(spec.detached);
}

void write(Schema::Builder to, const Message& message) {
  std::visit(Overloaded{
                 [&](const Failure& m) { write_failure(to.initFailure(), m.error); },
                 [&](const RegisterJob& m) { write_program(to.initRegisterJob(), m); },
                 [&](const JobRegistered& m) {
                   auto b = to.initJobRegistered();
                   b.setJob(m.job.value());
                   b.setCaller(m.caller.value());
                   b.setNode(m.node.value());
                   b.setCpus(m.cpus);
                   b.setWarning(text_of(m.warning));
                   b.setAddress(text_of(m.address));
                 },
                 [&](const LeaseWorker& m) {
                   auto b = to.initLeaseWorker();
                   write_demand(b.initDemand(), m.demand);
                   write_asker(b, m.asker);
                   b.setNested(m.nested);
                   b.setOnlyNow(m.only_now);
                 },
                 [&](const ReturnLease& m) {
                   auto b = to.initReturnLease();
                   b.setWorker(m.worker.value());
                   b.setCaller(m.caller.value());
                   b.setBroken(m.broken);
                 },
                 [&](const StartActor& m) {
                   auto b = to.initStartActor();
                   write_spec(b, m);
                   b.setConstructor(m.constructor);
                   b.setArguments(data_of(m.arguments));
                   b.setMaxTaskRetries(m.max_task_retries);
                   write_demand(b.initDemand(), m.demand);
                   b.setInPieces(m.in_pieces);
                   write_asker(b, m.asker);
                   b.setTrace(m.trace.value());
                   b.setExclusive(m.exclusive);
                 },
                 [&](const PromiseActor& m) {
                   auto b = to.initPromiseActor();
                   write_spec(b, m);
                   b.setGetIfExists(m.get_if_exists);
                   write_asker(b, m.asker);
                 },
                 [&](const BreakPromise& m) {
                   auto b = to.initBreakPromise();
                   b.setActor(m.actor.value());
                   write_failure(b.initWhy(), m.why);
                   write_asker(b, m.asker);
                 },
                 [&](const KillActor& m) {
                   auto b = to.initKillActor();
                   b.setActor(m.actor.value());
                   write_asker(b, m.asker);
                   b.setGently(m.gently);
                   b.setGraceMs(m.grace_ms);
                   b.setWhy(m.why);
                 },
                 [&](const ConnectActor& m) {
                   auto b = to.initConnectActor();
                   b.setActor(m.actor.value());
                   b.setSeen(m.seen);
                   write_asker(b, m.asker);
                 },
                 [&](const FindActor& m) {
                   auto b = to.initFindActor();
                   b.setNameSpace(text_of(m.name_space));
                   b.setName(text_of(m.name));
                   b.setType(text_of(m.type));
                   write_asker(b, m.asker);
                 },
                 [&](const ActorFound& m) {
                   auto b = to.initActorFound();
                   b.setActor(m.actor.value());
                   b.setLabel(text_of(m.label));
                   b.setNumber(m.number);
                 },
                 [&](const HoldActor& m) {
                   auto b = to.initHoldActor();
                   b.setActor(m.actor.value());
                   b.setCount(m.count);
                   write_asker(b, m.asker);
                 },
                 [&](const ConstructActor& m) {
                   auto b = to.initConstructActor();
                   b.setActor(m.actor.value());
                   b.setIncarnation(m.incarnation);
                   b.setConstructor(m.constructor);
                   b.setArguments(data_of(m.arguments));
                   b.setNameSpace(text_of(m.name_space));
                   write_holding(b.initHolding(), m.holding);
                   b.setInPieces(m.in_pieces);
                   b.setTrace(m.trace.value());
                   b.setExclusive(m.exclusive);
                 },
                 [&](const ActorConstructed& m) {
                   auto b = to.initActorConstructed();
                   b.setActor(m.actor.value());
                   b.setIncarnation(m.incarnation);
                   if (m.failure) write_failure(b.initFailure(), *m.failure);
                 },
                 [&](const AddJob& m) {
                   auto b = to.initAddJob();
                   b.setJob(m.job.value());
                   write_program(b.initProgram(), m.program);
                   b.setNode(m.node.value());
                 },
                 [&](const EndJob& m) { to.initEndJob().setJob(m.job.value()); },
                 [&](const StopJob& m) { to.initStopJob().setJob(m.job.value()); },
                 [&](const JobStopped& m) { to.initJobStopped().setJob(m.job.value()); },
                 [&](const EndCaller& m) { to.initEndCaller().setCaller(m.caller.value()); },
                 [&](const StartIncarnation& m) {
                   auto b = to.initStartIncarnation();
                   b.setActor(m.actor.value());
                   b.setIncarnation(m.incarnation);
                   b.setJob(m.job.value());
                   b.setLabel(text_of(m.label));
                   b.setConstructor(m.constructor);
                   b.setArguments(data_of(m.arguments));
                   b.setNameSpace(text_of(m.name_space));
                   write_amounts(b.initAmounts(static_cast<unsigned>(m.amounts.size())), m.amounts);
                   write_gpus(b.initGpus(static_cast<unsigned>(m.gpus.size())), m.gpus);
                   b.setInPieces(m.in_pieces);
                   b.setTrace(m.trace.value());
                   b.setExclusive(m.exclusive);
                   b.setGroup(m.group.value());
                   b.setBundle(m.bundle);
                   b.setMayRestart(m.may_restart);
                 },
                 [&](const EndIncarnation& m) {
                   auto b = to.initEndIncarnation();
                   b.setActor(m.actor.value());
                   b.setIncarnation(m.incarnation);
                   b.setKill(m.kill);
                   b.setGraceMs(m.grace_ms);
                 },
                 [&](const IncarnationEnded& m) {
                   auto b = to.initIncarnationEnded();
                   b.setActor(m.actor.value());
                   b.setIncarnation(m.incarnation);
                   b.setReason(text_of(m.reason));
                   b.setOutOfMemory(m.out_of_memory);
                 },
                 [&](const ActorAlive& m) {
                   auto b = to.initActorAlive();
                   b.setNumber(m.number);
                   b.setActor(m.actor.value());
                   b.setIncarnation(m.incarnation);
                   b.setNode(m.node.value());
                   b.setMaxTaskRetries(m.max_task_retries);
                   b.setEnded(text_of(m.ended));
                   b.setAddress(text_of(m.address));
                   b.setOutOfMemory(m.out_of_memory);
                 },
                 [&](const JoinCluster& m) {
                   auto b = to.initJoinCluster();
                   b.setNode(m.node.value());
                   b.setAddress(text_of(m.address));
                   write_amounts(b.initAmounts(static_cast<unsigned>(m.amounts.size())), m.amounts);
                   write_labels(b.initLabels(static_cast<unsigned>(m.labels.size())), m.labels);
                   b.setAgain(m.again);
                 },
                 [&](const ClusterJoined& m) {
                   auto b = to.initClusterJoined();
                   b.setCpus(m.cpus);
                   b.setLost(m.lost);
                   b.setLasts(m.lasts);
                 },
                 [&](const LeaseGranted& m) {
                   auto b = to.initLeaseGranted();
                   b.setNumber(m.number);
                   b.setWorker(m.worker.value());
                   b.setNode(m.node.value());
                   b.setAddress(text_of(m.address));
                 },
                 [&](const Refused& m) {
                   auto b = to.initRefused();
                   b.setNumber(m.number);
                   write_failure(b.initFailure(), m.why);
                 },
                 [&](const WorkerReady& m) {
                   auto b = to.initWorkerReady();
                   b.setWorker(m.worker.value());
                   b.setActor(m.actor.value());
                   b.setIncarnation(m.incarnation);
                   b.setPid(m.pid);
                   b.setMaxTaskRetries(m.max_task_retries);
                   b.setRemote(m.remote);
                   b.setEnded(text_of(m.ended));
                   b.setOutOfMemory(m.out_of_memory);
                 },
                 [&](const WorkerEnded& m) {
                   auto b = to.initWorkerEnded();
                   b.setWorker(m.worker.value());
                   b.setReason(text_of(m.reason));
                   b.setOutOfMemory(m.out_of_memory);
                 },
                 [&](const Output& m) {
                   auto b = to.initOutput();
                   b.setLabel(text_of(m.label));
                   b.setPid(m.pid);
                   b.setError(m.error);
                   b.setReport(m.report);
                   b.setLines(data_of(m.lines));
                   b.setJob(m.job.value());
                 },
                 [&](const Stop&) { to.initStop(); },
                 [&](const Done&) { to.setDone(); },
                 [&](const ZygoteReady& m) {
                   auto b = to.initZygoteReady();
                   b.setBuildId(data_of(m.build_id));
                   b.setFunctions(m.functions);
                   b.setCannotFork(text_of(m.cannot_fork));
                 },
                 [&](const ForkWorker& m) {
                   auto b = to.initForkWorker();
                   b.setWorker(m.worker.value());
                   set_texts(b.initVariables(static_cast<unsigned>(m.variables.size())), m.variables);
                 },
                 [&](const WorkerForked& m) {
                   auto b = to.initWorkerForked();
                   b.setWorker(m.worker.value());
                   b.setPid(m.pid);
                 },
                 [&](const WorkerReaped& m) {
                   auto b = to.initWorkerReaped();
                   b.setWorker(m.worker.value());
                   b.setStatus(m.status);
                   b.setCrashed(m.crashed);
                 },
                 [&](const ServeCaller& m) {
                   auto b = to.initServeCaller();
                   b.setCaller(m.caller.value());
                   b.setActor(m.actor.value());
                   b.setIncarnation(m.incarnation);
                   b.setRemote(m.remote);
                   write_holding(b.initHolding(), m.holding);
                 },
                 [&](const EndWorker& m) { to.initEndWorker().setGraceMs(m.grace_ms); },
                 [&](const WorkerBlocked& m) { to.initWorkerBlocked().setBlocked(m.blocked); },
                 [&](const WorkerCrashed& m) {
                   auto b = to.initWorkerCrashed();
                   b.setWorker(m.worker.value());
                   b.setHeadline(text_of(m.headline));
                   b.setReport(text_of(m.report));
                 },
                 [&](const Inspect& m) { write_asker(to.initInspect(), m.asker); },
                 [&](const Inspected& m) { write_inspected(to.initInspected(), m); },
                 [&](const OpenStore&) { to.setOpenStore(); },
                 [&](const StoreOpened& m) { to.initStoreOpened().setTable(m.table); },
                 [&](const LeaseSlab& m) { to.initLeaseSlab().setSlotBytes(m.slot_bytes); },
                 [&](const SlabLeased& m) {
                   auto b = to.initSlabLeased();
                   b.setOffset(m.offset);
                   b.setSlotBytes(m.slot_bytes);
                   b.setFirstSlot(m.first_slot);
                   b.setSlots(m.slots);
                 },
                 [&](const ReturnSlab& m) { to.initReturnSlab().setFirstSlot(m.first_slot); },
                 [&](const TrimStore&) { to.setTrimStore(); },
                 [&](const BringObject& m) { write_object(to.initBringObject(), m.object); },
                 [&](const ImportObject& m) { write_object(to.initImportObject(), m.object); },
                 [&](const ObjectImported& m) { write_object(to.initObjectImported(), m.object); },
                 [&](const ClaimObject& m) { write_object(to.initClaimObject(), m.object); },
                 [&](const ObjectClaimed& m) {
                   auto b = to.initObjectClaimed();
                   b.setSize(m.size);
                   b.setLabel(m.label);
                   write_object(b.initElsewhere(), m.elsewhere);
                 },
                 [&](const ReleaseObject& m) { write_object(to.initReleaseObject(), m.object); },
                 [&](const FindNode& m) {
                   auto b = to.initFindNode();
                   b.setNode(m.node.value());
                   b.setNumber(m.number);
                 },
                 [&](const NodeFound& m) {
                   auto b = to.initNodeFound();
                   b.setNumber(m.number);
                   b.setAddress(m.address);
                 },
                 [&](const PlaceGroup& m) {
                   auto b = to.initPlaceGroup();
                   b.setGroup(m.group.value());
                   b.setLabel(text_of(m.label));
                   b.setStrategy(static_cast<std::uint8_t>(m.strategy));
                   auto bundles = b.initBundles(static_cast<unsigned>(m.bundles.size()));
                   for (unsigned i = 0; i < bundles.size(); ++i) write_demand(bundles[i], m.bundles[i]);
                   write_asker(b, m.asker);
                 },
                 [&](const GroupReady& m) {
                   auto b = to.initGroupReady();
                   b.setNumber(m.number);
                   auto nodes = b.initNodes(static_cast<unsigned>(m.nodes.size()));
                   for (unsigned i = 0; i < nodes.size(); ++i) nodes.set(i, m.nodes[i].value());
                 },
                 [&](const RemoveGroup& m) {
                   auto b = to.initRemoveGroup();
                   b.setGroup(m.group.value());
                   write_asker(b, m.asker);
                 },
                 [&](const HoldBundle& m) {
                   auto b = to.initHoldBundle();
                   b.setGroup(m.group.value());
                   b.setBundle(m.bundle);
                   write_amounts(b.initAmounts(static_cast<unsigned>(m.amounts.size())), m.amounts);
                   write_gpus(b.initGpus(static_cast<unsigned>(m.gpus.size())), m.gpus);
                 },
                 [&](const BundleHeld& m) { write_bundle(to.initBundleHeld(), m); },
                 [&](const ReleaseBundle& m) { write_bundle(to.initReleaseBundle(), m); },
                 [&](const NodeLoad& m) {
                   write_amounts(to.initNodeLoad().initTasks(static_cast<unsigned>(m.tasks.size())), m.tasks);
                 },
                 [&](const ListRows& m) {
                   auto b = to.initListRows();
                   b.setTable(text_of(m.table));
                   auto filters = b.initFilters(static_cast<unsigned>(m.filters.size()));
                   for (unsigned i = 0; i < filters.size(); ++i) {
                     filters[i].setColumn(text_of(m.filters[i].column));
                     filters[i].setValue(text_of(m.filters[i].value));
                     filters[i].setIsNot(m.filters[i].is_not);
                   }
                   b.setLimit(m.limit);
                   b.setNumber(m.number);
                   b.setNode(m.node.value());
                   b.setPassedOn(m.passed_on);
                 },
                 [&](const Rows& m) {
                   auto b = to.initRows();
                   set_texts(b.initColumns(static_cast<unsigned>(m.columns.size())), m.columns);
                   auto rows = b.initRows(static_cast<unsigned>(m.rows.size()));
                   for (unsigned i = 0; i < rows.size(); ++i) {
                     set_texts(rows.init(i, static_cast<unsigned>(m.rows[i].size())), m.rows[i]);
                   }
                   b.setMatching(m.matching);
                   b.setNumber(m.number);
                 },
                 [&](const Beat&) { to.setBeat(); },
                 [&](const Confirmed& m) { to.setConfirmed(m.count); },
                 [&](const Report& m) { write_report(to.initReport(), m); },
                 [&](const ActorLife& m) { write_life(to.initActorLife(), m); },
                 [&](const GroupPlaces& m) { write_places(to.initGroupPlaces(), m); },
                 [&](const EndNode&) { to.setEndNode(); },
                 [&](const DrainNode& m) {
                   auto b = to.initDrainNode();
                   b.setNode(m.node.value());
                   b.setLimitMs(m.limit_ms);
                   b.setNumber(m.number);
                 },
                 [&](const ReadLog& m) {
                   auto b = to.initReadLog();
                   b.setNode(m.node.value());
                   b.setLog(text_of(m.log));
                   b.setFrom(m.from);
                   b.setMost(m.most);
                   b.setPassedOn(m.passed_on);
                 },
                 [&](const LogPart& m) {
                   auto b = to.initLogPart();
                   b.setFrom(m.from);
                   b.setText(data_of(m.text));
                   b.setSize(m.size);
                   b.setEnded(m.ended);
                 },
                 [&](const Explain&) { to.setExplain(); },
                 [&](const Explained& m) {
                   auto b = to.initExplained();
                   b.setPid(m.pid);
                   b.setFunction(text_of(m.function));
                   b.setNanoseconds(m.nanoseconds);
                   b.setWaits(text_of(m.waits));
                 },
                 [&](const ReadStacks& m) { to.initReadStacks().setWorker(m.worker.value()); },
                 [&](const Stacks& m) { to.initStacks().setText(text_of(m.text)); },
             },
             message);
}

std::map<std::string, std::string> read_labels(capnp::List<schema::Label>::Reader from) {
  std::map<std::string, std::string> labels;
  for (const auto each : from) labels.emplace(text(each.getName()), text(each.getValue()));
  return labels;
}

Demand read_demand(schema::Demand::Reader from) {
  Demand demand{.amounts = read_amounts(from.getAmounts()),
                .only = NodeId{from.getOnly()},
                .labels = {},
                .near = NodeId{from.getNear()},
                .spread = from.getSpread(),
                .group = GroupId{from.getGroup()},
                .bundle = from.getBundle()};
  for (const auto rule : from.getLabels()) {
    demand.labels.push_back({text(rule.getName()), texts(rule.getValues()), rule.getIsNot()});
  }
  return demand;
}

Holding read_holding(schema::Holding::Reader from) {
  return {read_amounts(from.getAmounts()), texts(from.getGpus())};
}

/// Nothing when a stage or a reference is none.
std::optional<RegisterJob> read_program(schema::RegisterJob::Reader from) {
  RegisterJob m{.executable = text(from.getExecutable()),
                .arguments = texts(from.getArguments()),
                .environment = texts(from.getEnvironment()),
                .folder = text(from.getFolder())};
  if (!read_exactly(from.getBuildId(), m.build_id)) return std::nullopt;
  return m;
}

ObjectLocation read_object(schema::Object::Reader from) {
  return {{CallerId{from.getMaker()}, from.getNumber()},
          {from.getSlot(), from.getGeneration()},
          CallerId{from.getOwner()},
          NodeId{from.getNode()}};
}

Asker read_asker(schema::Asker::Reader from) {
  return {JobId{from.getJob()}, CallerId{from.getCaller()}, from.getNumber()};
}

std::optional<Message> read(Schema::Reader from) {
  switch (from.which()) {
    case Schema::FAILURE:
      if (auto error = read_failure(from.getFailure())) return Failure{std::move(*error)};
      return std::nullopt;
    case Schema::REGISTER_JOB: return read_program(from.getRegisterJob());
    case Schema::JOB_REGISTERED: {
      const auto r = from.getJobRegistered();
      return JobRegistered{JobId{r.getJob()}, CallerId{r.getCaller()}, NodeId{r.getNode()},
                           r.getCpus(),       text(r.getWarning()),    text(r.getAddress())};
    }
    case Schema::LEASE_WORKER:
      return LeaseWorker{read_demand(from.getLeaseWorker().getDemand()), read_asker(from.getLeaseWorker().getAsker()),
                         from.getLeaseWorker().getNested(), from.getLeaseWorker().getOnlyNow()};
    case Schema::RETURN_LEASE:
      return ReturnLease{WorkerId{from.getReturnLease().getWorker()}, CallerId{from.getReturnLease().getCaller()},
                         from.getReturnLease().getBroken()};
    case Schema::START_ACTOR: {
      const auto r = from.getStartActor();
      return StartActor{.actor = ActorId{r.getActor()},
                        .label = text(r.getLabel()),
                        .constructor = r.getConstructor(),
                        .arguments = bytes(r.getArguments()),
                        .name_space = text(r.getNameSpace()),
                        .name = text(r.getName()),
                        .type = text(r.getType()),
                        .max_restarts = r.getMaxRestarts(),
                        .detached = r.getDetached(),
                        .max_task_retries = r.getMaxTaskRetries(),
                        .in_pieces = r.getInPieces(),
                        .demand = read_demand(r.getDemand()),
                        .asker = read_asker(r.getAsker()),
                        .trace = TraceId{r.getTrace()},
                        .exclusive = r.getExclusive()};
    }
    case Schema::PROMISE_ACTOR: {
      const auto r = from.getPromiseActor();
      return PromiseActor{.actor = ActorId{r.getActor()},
                          .label = text(r.getLabel()),
                          .name_space = text(r.getNameSpace()),
                          .name = text(r.getName()),
                          .type = text(r.getType()),
                          .max_restarts = r.getMaxRestarts(),
                          .detached = r.getDetached(),
                          .get_if_exists = r.getGetIfExists(),
                          .asker = read_asker(r.getAsker())};
    }
    case Schema::BREAK_PROMISE: {
      const auto r = from.getBreakPromise();
      auto why = read_failure(r.getWhy());
      if (!why) return std::nullopt;
      return BreakPromise{ActorId{r.getActor()}, std::move(*why), read_asker(r.getAsker())};
    }
    case Schema::KILL_ACTOR: {
      const auto r = from.getKillActor();
      return KillActor{ActorId{r.getActor()}, read_asker(r.getAsker()), r.getGently(), r.getGraceMs(),
                       text(r.getWhy())};
    }
    case Schema::CONNECT_ACTOR: {
      const auto r = from.getConnectActor();
      return ConnectActor{ActorId{r.getActor()}, r.getSeen(), read_asker(r.getAsker())};
    }
    case Schema::FIND_ACTOR: {
      const auto r = from.getFindActor();
      return FindActor{text(r.getNameSpace()), text(r.getName()), text(r.getType()), read_asker(r.getAsker())};
    }
    case Schema::ACTOR_FOUND: {
      const auto r = from.getActorFound();
      return ActorFound{ActorId{r.getActor()}, text(r.getLabel()), r.getNumber()};
    }
    case Schema::HOLD_ACTOR: {
      const auto r = from.getHoldActor();
      return HoldActor{ActorId{r.getActor()}, r.getCount(), read_asker(r.getAsker())};
    }
    case Schema::CONSTRUCT_ACTOR: {
      const auto r = from.getConstructActor();
      return ConstructActor{ActorId{r.getActor()},        r.getIncarnation(),    r.getConstructor(),
                            bytes(r.getArguments()),      r.getInPieces(),       text(r.getNameSpace()),
                            read_holding(r.getHolding()), TraceId{r.getTrace()}, r.getExclusive()};
    }
    case Schema::ACTOR_CONSTRUCTED: {
      const auto r = from.getActorConstructed();
      ActorConstructed m{ActorId{r.getActor()}, r.getIncarnation(), std::nullopt};
      if (r.hasFailure()) {
        m.failure = read_failure(r.getFailure());
        if (!m.failure) return std::nullopt;
      }
      return m;
    }
    case Schema::ADD_JOB: {
      auto program = read_program(from.getAddJob().getProgram());
      if (!program) return std::nullopt;
      return AddJob{JobId{from.getAddJob().getJob()}, std::move(*program), NodeId{from.getAddJob().getNode()}};
    }
    case Schema::END_JOB: return EndJob{JobId{from.getEndJob().getJob()}};
    case Schema::STOP_JOB: return StopJob{JobId{from.getStopJob().getJob()}};
    case Schema::JOB_STOPPED: return JobStopped{JobId{from.getJobStopped().getJob()}};
    case Schema::END_CALLER: return EndCaller{CallerId{from.getEndCaller().getCaller()}};
    case Schema::START_INCARNATION: {
      const auto r = from.getStartIncarnation();
      return StartIncarnation{.actor = ActorId{r.getActor()},
                              .incarnation = r.getIncarnation(),
                              .job = JobId{r.getJob()},
                              .label = text(r.getLabel()),
                              .constructor = r.getConstructor(),
                              .arguments = bytes(r.getArguments()),
                              .in_pieces = r.getInPieces(),
                              .name_space = text(r.getNameSpace()),
                              .amounts = read_amounts(r.getAmounts()),
                              .gpus = read_gpus(r.getGpus()),
                              .trace = TraceId{r.getTrace()},
                              .group = GroupId{r.getGroup()},
                              .bundle = r.getBundle(),
                              .exclusive = r.getExclusive(),
                              .may_restart = r.getMayRestart()};
    }
    case Schema::END_INCARNATION: {
      const auto r = from.getEndIncarnation();
      return EndIncarnation{ActorId{r.getActor()}, r.getIncarnation(), r.getKill(), r.getGraceMs()};
    }
    case Schema::INCARNATION_ENDED: {
      const auto r = from.getIncarnationEnded();
      return IncarnationEnded{ActorId{r.getActor()}, r.getIncarnation(), text(r.getReason()), r.getOutOfMemory()};
    }
    case Schema::ACTOR_ALIVE: {
      const auto r = from.getActorAlive();
      return ActorAlive{r.getNumber(),         ActorId{r.getActor()}, r.getIncarnation(),   NodeId{r.getNode()},
                        r.getMaxTaskRetries(), text(r.getEnded()),    text(r.getAddress()), r.getOutOfMemory()};
    }
    case Schema::JOIN_CLUSTER: {
      const auto r = from.getJoinCluster();
      return JoinCluster{NodeId{r.getNode()}, text(r.getAddress()), read_amounts(r.getAmounts()),
                         read_labels(r.getLabels()), r.getAgain()};
    }
    case Schema::CLUSTER_JOINED: {
      const auto r = from.getClusterJoined();
      return ClusterJoined{r.getCpus(), r.getLost(), r.getLasts()};
    }
    case Schema::LEASE_GRANTED: {
      const auto r = from.getLeaseGranted();
      return LeaseGranted{r.getNumber(), WorkerId{r.getWorker()}, NodeId{r.getNode()}, text(r.getAddress())};
    }
    case Schema::REFUSED: {
      auto why = read_failure(from.getRefused().getFailure());
      if (!why) return std::nullopt;
      return Refused{from.getRefused().getNumber(), std::move(*why)};
    }
    case Schema::WORKER_READY: {
      const auto r = from.getWorkerReady();
      return WorkerReady{WorkerId{r.getWorker()}, ActorId{r.getActor()}, r.getIncarnation(), r.getPid(),
                         r.getMaxTaskRetries(),   r.getRemote(),         text(r.getEnded()), r.getOutOfMemory()};
    }
    case Schema::WORKER_ENDED: {
      const auto r = from.getWorkerEnded();
      return WorkerEnded{WorkerId{r.getWorker()}, text(r.getReason()), r.getOutOfMemory()};
    }
    case Schema::OUTPUT: {
      const auto r = from.getOutput();
      return Output{text(r.getLabel()),         r.getPid(),    r.getError(),
                    text_of_data(r.getLines()), r.getReport(), JobId{r.getJob()}};
    }
    case Schema::STOP: return Stop{};
    case Schema::DONE: return Done{};
    case Schema::ZYGOTE_READY: {
      const auto r = from.getZygoteReady();
      ZygoteReady m{.build_id = {}, .functions = r.getFunctions(), .cannot_fork = text(r.getCannotFork())};
      if (!read_exactly(r.getBuildId(), m.build_id)) return std::nullopt;
      return m;
    }
    case Schema::FORK_WORKER:
      return ForkWorker{WorkerId{from.getForkWorker().getWorker()}, texts(from.getForkWorker().getVariables())};
    case Schema::WORKER_FORKED:
      return WorkerForked{WorkerId{from.getWorkerForked().getWorker()}, from.getWorkerForked().getPid()};
    case Schema::WORKER_REAPED: {
      const auto r = from.getWorkerReaped();
      return WorkerReaped{WorkerId{r.getWorker()}, r.getStatus(), r.getCrashed()};
    }
    case Schema::INSPECT: return Inspect{read_asker(from.getInspect().getAsker())};
    case Schema::INSPECTED:
      if (auto inspected = read_inspected(from.getInspected())) return std::move(*inspected);
      return std::nullopt;
    case Schema::WORKER_CRASHED: {
      const auto r = from.getWorkerCrashed();
      return WorkerCrashed{WorkerId{r.getWorker()}, text(r.getHeadline()), text(r.getReport())};
    }
    case Schema::SERVE_CALLER: {
      const auto r = from.getServeCaller();
      return ServeCaller{CallerId{r.getCaller()}, ActorId{r.getActor()}, r.getIncarnation(), r.getRemote(),
                         read_holding(r.getHolding())};
    }
    case Schema::END_WORKER: return EndWorker{from.getEndWorker().getGraceMs()};
    case Schema::WORKER_BLOCKED: return WorkerBlocked{from.getWorkerBlocked().getBlocked()};
    case Schema::OPEN_STORE: return OpenStore{};
    case Schema::STORE_OPENED: return StoreOpened{from.getStoreOpened().getTable()};
    case Schema::LEASE_SLAB: return LeaseSlab{from.getLeaseSlab().getSlotBytes()};
    case Schema::SLAB_LEASED: {
      const auto r = from.getSlabLeased();
      return SlabLeased{r.getOffset(), r.getSlotBytes(), r.getFirstSlot(), r.getSlots()};
    }
    case Schema::RETURN_SLAB: return ReturnSlab{from.getReturnSlab().getFirstSlot()};
    case Schema::TRIM_STORE: return TrimStore{};
    case Schema::BRING_OBJECT: return BringObject{read_object(from.getBringObject())};
    case Schema::IMPORT_OBJECT: return ImportObject{read_object(from.getImportObject())};
    case Schema::OBJECT_IMPORTED: return ObjectImported{read_object(from.getObjectImported())};
    case Schema::CLAIM_OBJECT: return ClaimObject{read_object(from.getClaimObject())};
    case Schema::OBJECT_CLAIMED: {
      const auto r = from.getObjectClaimed();
      return ObjectClaimed{r.getSize(), text(r.getLabel()), read_object(r.getElsewhere())};
    }
    case Schema::RELEASE_OBJECT: return ReleaseObject{read_object(from.getReleaseObject())};
    case Schema::FIND_NODE: {
      const auto r = from.getFindNode();
      return FindNode{NodeId{r.getNode()}, r.getNumber()};
    }
    case Schema::NODE_FOUND: {
      const auto r = from.getNodeFound();
      return NodeFound{r.getNumber(), text(r.getAddress())};
    }
    case Schema::PLACE_GROUP: {
      const auto r = from.getPlaceGroup();
      if (r.getStrategy() > static_cast<std::uint8_t>(Strategy::kStrictSpread)) return std::nullopt;
      PlaceGroup place{GroupId{r.getGroup()},
                       text(r.getLabel()),
                       static_cast<Strategy>(r.getStrategy()),
                       {},
                       read_asker(r.getAsker())};
      for (const auto bundle : r.getBundles()) place.bundles.push_back(read_demand(bundle));
      return place;
    }
    case Schema::GROUP_READY: {
      GroupReady ready{from.getGroupReady().getNumber(), {}};
      for (const std::uint64_t node : from.getGroupReady().getNodes()) ready.nodes.emplace_back(node);
      return ready;
    }
    case Schema::REMOVE_GROUP:
      return RemoveGroup{GroupId{from.getRemoveGroup().getGroup()}, read_asker(from.getRemoveGroup().getAsker())};
    case Schema::HOLD_BUNDLE: {
      const auto r = from.getHoldBundle();
      return HoldBundle{GroupId{r.getGroup()}, r.getBundle(), read_amounts(r.getAmounts()), read_gpus(r.getGpus())};
    }
    case Schema::BUNDLE_HELD:
      return BundleHeld{GroupId{from.getBundleHeld().getGroup()}, from.getBundleHeld().getBundle()};
    case Schema::RELEASE_BUNDLE:
      return ReleaseBundle{GroupId{from.getReleaseBundle().getGroup()}, from.getReleaseBundle().getBundle()};
    case Schema::NODE_LOAD: return NodeLoad{read_amounts(from.getNodeLoad().getTasks())};
    case Schema::LIST_ROWS: {
      const auto r = from.getListRows();
      ListRows list{.table = text(r.getTable()),
                    .filters = {},
                    .limit = r.getLimit(),
                    .number = r.getNumber(),
                    .node = NodeId{r.getNode()},
                    .passed_on = r.getPassedOn()};
      for (const auto each : r.getFilters()) {
        list.filters.push_back({text(each.getColumn()), text(each.getValue()), each.getIsNot()});
      }
      return list;
    }
    case Schema::ROWS: {
      const auto r = from.getRows();
      Rows rows{texts(r.getColumns()), {}, r.getMatching(), r.getNumber()};
      for (const auto row : r.getRows()) {
        rows.rows.push_back(texts(row));
        if (rows.rows.back().size() != rows.columns.size()) return std::nullopt;
      }
      return rows;
    }
    case Schema::BEAT: return Beat{};
    case Schema::CONFIRMED: return Confirmed{from.getConfirmed()};
    case Schema::REPORT: return read_report(from.getReport());
    case Schema::ACTOR_LIFE:
      if (auto life = read_life(from.getActorLife())) return std::move(*life);
      return std::nullopt;
    case Schema::GROUP_PLACES: return read_places(from.getGroupPlaces());
    case Schema::END_NODE: return EndNode{};
    case Schema::DRAIN_NODE: {
      const auto r = from.getDrainNode();
      return DrainNode{NodeId{r.getNode()}, r.getLimitMs(), r.getNumber()};
    }
    case Schema::READ_LOG: {
      const auto r = from.getReadLog();
      return ReadLog{NodeId{r.getNode()}, text(r.getLog()), r.getFrom(), r.getMost(), r.getPassedOn()};
    }
    case Schema::LOG_PART: {
      const auto r = from.getLogPart();
      return LogPart{r.getFrom(), text_of_data(r.getText()), r.getSize(), r.getEnded()};
    }
    case Schema::EXPLAIN: return Explain{};
    case Schema::EXPLAINED: {
      const auto r = from.getExplained();
      return Explained{r.getPid(), text(r.getFunction()), r.getNanoseconds(), text(r.getWaits())};
    }
    case Schema::READ_STACKS: return ReadStacks{WorkerId{from.getReadStacks().getWorker()}};
    case Schema::STACKS: return Stacks{text(from.getStacks().getText())};
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(const Message& message) {
  static constexpr std::string_view kNames[] = {"Failure",
                                                "RegisterJob",
                                                "JobRegistered",
                                                "LeaseWorker",
                                                "ReturnLease",
                                                "StartActor",
                                                "KillActor",
                                                "WorkerReady",
                                                "WorkerEnded",
                                                "Output",
                                                "Stop",
                                                "Done",
                                                "ZygoteReady",
                                                "ForkWorker",
                                                "WorkerForked",
                                                "WorkerReaped",
                                                "ServeCaller",
                                                "EndWorker",
                                                "WorkerBlocked",
                                                "ConnectActor",
                                                "FindActor",
                                                "ActorFound",
                                                "HoldActor",
                                                "ConstructActor",
                                                "ActorConstructed",
                                                "AddJob",
                                                "EndJob",
                                                "EndCaller",
                                                "StartIncarnation",
                                                "EndIncarnation",
                                                "IncarnationEnded",
                                                "ActorAlive",
                                                "Refused",
                                                "WorkerCrashed",
                                                "Inspect",
                                                "Inspected",
                                                "JoinCluster",
                                                "ClusterJoined",
                                                "LeaseGranted",
                                                "OpenStore",
                                                "StoreOpened",
                                                "LeaseSlab",
                                                "SlabLeased",
                                                "ReturnSlab",
                                                "TrimStore",
                                                "BringObject",
                                                "StopJob",
                                                "JobStopped",
                                                "PromiseActor",
                                                "BreakPromise",
                                                "ImportObject",
                                                "ObjectImported",
                                                "ClaimObject",
                                                "ObjectClaimed",
                                                "ReleaseObject",
                                                "FindNode",
                                                "NodeFound",
                                                "PlaceGroup",
                                                "GroupReady",
                                                "RemoveGroup",
                                                "HoldBundle",
                                                "BundleHeld",
                                                "ReleaseBundle",
                                                "NodeLoad",
                                                "ListRows",
                                                "Rows",
                                                "Beat",
                                                "Confirmed",
                                                "Report",
                                                "ActorLife",
                                                "GroupPlaces",
                                                "EndNode",
                                                "DrainNode",
                                                "ReadLog",
                                                "LogPart",
                                                "Explain",
                                                "Explained",
                                                "ReadStacks",
                                                "Stacks"};
  static_assert(std::size(kNames) == std::variant_size_v<Message>);
  return kNames[message.index()];
}

std::size_t descriptors_of(const Message& message) {
  return std::visit(
      Overloaded{
          [](const RegisterJob&) -> std::size_t { return 1; }, [](const WorkerReady&) -> std::size_t { return 1; },
          [](const ForkWorker&) -> std::size_t { return 3; }, [](const WorkerForked&) -> std::size_t { return 1; },
          [](const ServeCaller&) -> std::size_t { return 1; }, [](const StoreOpened&) -> std::size_t { return 3; },
          [](const auto&) -> std::size_t { return 0; }},
      message);
}

std::vector<std::byte> encode(const Message& message) {
  capnp::MallocMessageBuilder builder;
  write(builder.initRoot<Schema>(), message);
  const auto words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.begin());
  return {begin, begin + bytes.size()};
}

Result<Message> decode(std::span<const std::byte> bytes) {
  const auto corrupt = [](std::string why) {
    return Error{ErrorCode::kCorrupt, "received a control message that makes no sense: " + std::move(why)};
  };
  if (bytes.size() % sizeof(capnp::word) != 0) return corrupt("its length is no multiple of 8");
  // Words must be aligned; a payload in a receive buffer need not be.
  std::vector<capnp::word> words(bytes.size() / sizeof(capnp::word));
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  try {
    // A reader may walk at most so many words, so that a small message cannot make it walk for ever.
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = std::max<std::uint64_t>(words.size() * 4, 1024);
    limits.nestingLimit = 16;
    capnp::FlatArrayMessageReader reader{kj::arrayPtr(words.data(), words.size()), limits};
    if (auto message = read(reader.getRoot<Schema>())) return std::move(*message);
    return corrupt("a field has a value that no version of it allows");
  } catch (const kj::Exception& e) {
    return corrupt(e.getDescription().cStr());
  }
}

}  // namespace pharos::wire
