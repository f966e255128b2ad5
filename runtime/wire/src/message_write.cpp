#include "fields.hpp"
#include "inspected.hpp"
#include "message_codec.hpp"
#include "report.hpp"

namespace pharos::wire {
namespace {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
// Clang 14 needs this explicit deduction guide.
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

/// Writes the fields that PromiseActor and StartActor share.
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

}  // namespace

void write_message(schema::Message::Builder to, const Message& message) {
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
                   b.setLeaves(m.leaves);
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
                   write_ids(b.initOthers(static_cast<unsigned>(m.others.size())), m.others);
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
                   b.setMoves(m.moves);
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
                   b.setSession(m.session);
                   b.setHeard(m.heard);
                 },
                 [&](const ClusterJoined& m) {
                   auto b = to.initClusterJoined();
                   b.setCpus(m.cpus);
                   b.setLost(m.lost);
                   b.setLasts(m.lasts);
                   b.setSession(m.session);
                   b.setResumed(m.resumed);
                   b.setHeard(m.heard);
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
                   b.setLast(m.last);
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
                 [&](const EndWorker& m) {
                   auto b = to.initEndWorker();
                   b.setGraceMs(m.grace_ms);
                   b.setMoves(m.moves);
                 },
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
                   auto b = to.initNodeLoad();
                   write_amounts(b.initTasks(static_cast<unsigned>(m.tasks.size())), m.tasks);
                   auto waiting = b.initWaiting(static_cast<unsigned>(m.waiting.size()));
                   for (unsigned i = 0; i < waiting.size(); ++i) {
                     const Amounts& amounts = m.waiting[i].amounts;
                     write_amounts(waiting[i].initAmounts(static_cast<unsigned>(amounts.size())), amounts);
                     waiting[i].setWorkers(m.waiting[i].workers);
                   }
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
                 [&](const Beat& m) {
                   auto b = to.initBeat();
                   b.setSent(m.sent.time_since_epoch().count());
                   b.setHeard(m.heard);
                 },
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
                 [&](const RecallLeases& m) {
                   auto b = to.initRecallLeases();
                   auto workers = b.initWorkers(static_cast<unsigned>(m.workers.size()));
                   for (unsigned i = 0; i < workers.size(); ++i) workers.set(i, m.workers[i].value());
                   b.setCount(m.count);
                 },
             },
             message);
}

}  // namespace pharos::wire
