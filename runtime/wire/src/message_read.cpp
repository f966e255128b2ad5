#include "fields.hpp"
#include "inspected.hpp"
#include "message_codec.hpp"
#include "report.hpp"

namespace pharos::wire {
namespace {

using Schema = schema::Message;

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

/// Returns nullopt if the build id has the wrong size.
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

}  // namespace

std::optional<Message> read_message(schema::Message::Reader from) {
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
                        .exclusive = r.getExclusive(),
                        .leaves = r.getLeaves()};
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
      const auto r = from.getAddJob();
      auto program = read_program(r.getProgram());
      if (!program) return std::nullopt;
      AddJob m{JobId{r.getJob()}, std::move(*program), NodeId{r.getNode()}, {}};
      read_ids(r.getOthers(), m.others);
      return m;
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
      return EndIncarnation{ActorId{r.getActor()}, r.getIncarnation(), r.getKill(), r.getGraceMs(), r.getMoves()};
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
      return JoinCluster{NodeId{r.getNode()},
                         text(r.getAddress()),
                         read_amounts(r.getAmounts()),
                         read_labels(r.getLabels()),
                         r.getAgain(),
                         r.getSession(),
                         r.getHeard()};
    }
    case Schema::CLUSTER_JOINED: {
      const auto r = from.getClusterJoined();
      return ClusterJoined{r.getCpus(), r.getLost(), r.getLasts(), r.getSession(), r.getResumed(), r.getHeard()};
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
      return Output{text(r.getLabel()), r.getPid(),        r.getError(), text_of_data(r.getLines()),
                    r.getReport(),      JobId{r.getJob()}, r.getLast()};
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
    case Schema::END_WORKER: return EndWorker{from.getEndWorker().getGraceMs(), from.getEndWorker().getMoves()};
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
    case Schema::NODE_LOAD: {
      const auto r = from.getNodeLoad();
      NodeLoad load{read_amounts(r.getTasks()), {}};
      for (const auto each : r.getWaiting())
        load.waiting.push_back({read_amounts(each.getAmounts()), each.getWorkers()});
      return load;
    }
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
    case Schema::BEAT: {
      const auto r = from.getBeat();
      return Beat{TimePoint{Duration{r.getSent()}}, r.getHeard()};
    }
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
    case Schema::RECALL_LEASES: {
      const auto r = from.getRecallLeases();
      RecallLeases recall{{}, r.getCount()};
      for (const std::uint64_t worker : r.getWorkers()) recall.workers.emplace_back(worker);
      return recall;
    }
  }
  return std::nullopt;
}

}  // namespace pharos::wire
