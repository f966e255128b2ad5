#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/object_location.hpp>
#include <pharos/base/result.hpp>
#include <pharos/base/strategy.hpp>

namespace pharos::wire {

/// Control messages as plain values. On the wire they are Cap'n Proto (src/control.capnp, which says who sends which to
/// whom, and which descriptors travel beside each); nothing outside this folder sees that.

/// 20 bytes of the executable's build id, or of a hash of it.
using BuildId = std::array<std::uint8_t, 20>;

struct Failure {
  Error error;
};
struct RegisterJob {
  static constexpr std::size_t kDescriptors = 1;
  std::string executable;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string folder;
  BuildId build_id{};
};
struct JobRegistered {
  JobId job;
  CallerId caller;
  NodeId node;
  std::uint32_t cpus = 0;
  std::string warning;  ///< empty, or why workers of this program start slowly
  std::string address;  ///< where the node's Unix socket is
};
/// Who asks the head. Filled in by its node, which passes the question on.
struct Asker {
  JobId job;
  CallerId caller;
  std::uint64_t number = 0;  ///< of the question; the node's own
};
/// Of resources, by name, in steps of 1/10000.
using Amounts = std::map<std::string, std::int64_t>;
/// One thing that has to be true of a node's labels.
struct LabelRule {
  std::string name;
  std::vector<std::string> values;  ///< the node's is one of these
  bool is_not = false;              ///< it is none of them, or the node has none
  friend bool operator==(const LabelRule&, const LabelRule&) = default;
};
/// What somebody asks of a node, and which one.
struct Demand {
  Amounts amounts{};
  NodeId only{};                    ///< no other
  std::vector<LabelRule> labels{};  ///< all of them hold
  NodeId near{};                    ///< this one, if it has room
  bool spread = false;              ///< the least used one
  GroupId group{};                  ///< with what a bundle of this group has
  std::int32_t bundle = -1;         ///< which one; negative: any
  friend bool operator==(const Demand&, const Demand&) = default;
};
struct GpuShare {
  std::uint32_t index = 0;  ///< among the node's
  std::int64_t amount = 0;
  friend bool operator==(const GpuShare&, const GpuShare&) = default;
};
/// What the code of a worker may use.
struct Holding {
  Amounts amounts;
  std::vector<std::string> gpus;  ///< as CUDA_VISIBLE_DEVICES names them
};
struct LeaseWorker {
  Demand demand;
  Asker asker{};
  bool nested = false;    ///< for a worker; filled in by its node
  bool only_now = false;  ///< between nodes: where there is room at this moment, else refused with kOverloaded
};
struct ReturnLease {
  WorkerId worker;
  CallerId caller{};    ///< filled in by its node
  bool broken = false;  ///< its connection ended first, so what it runs is for nobody
};
/// Others wait: the caller gives so many of these back, those whose tasks end first.
struct RecallLeases {
  std::vector<WorkerId> workers;  ///< of one node; leased by one caller
  std::uint32_t count = 0;
};
struct StartActor {
  ActorId actor;
  std::string label{};
  std::uint32_t constructor = 0;
  std::vector<std::byte> arguments{};
  std::string name_space{};
  std::string name{};
  std::string type{};
  std::int32_t max_restarts = 0;
  bool detached = false;
  std::int32_t max_task_retries = 0;
  bool in_pieces = false;  ///< as a call's payload: FrameFlags::kInPieces
  Demand demand{};
  Asker asker{};
  TraceId trace{};         ///< of each incarnation's constructor
  bool exclusive = false;  ///< its process ends when it does not hear from the head
  bool leaves = false;     ///< where its node drains it is stopped, with notice
};
/// It will be started: its name is its own, and others may have handles meanwhile.
struct PromiseActor {
  ActorId actor;
  std::string label{};
  std::string name_space{};
  std::string name{};
  std::string type{};
  std::int32_t max_restarts = 0;
  bool detached = false;
  bool get_if_exists = false;  ///< one of that name, instead
  Asker asker{};
};
/// It will not be started after all.
struct BreakPromise {
  ActorId actor;
  Error why;
  Asker asker{};
};
struct KillActor {
  ActorId actor;
  Asker asker{};
  bool gently = false;         ///< the call that runs may go on, for so long
  std::uint32_t grace_ms = 0;  ///< of a gentle end
  std::string why{};           ///< of the same
};
struct ConnectActor {
  ActorId actor;
  std::uint32_t seen = 0;  ///< the incarnation that the caller has lost, 0 for none
  Asker asker{};
};
struct FindActor {
  std::string name_space;
  std::string name;
  std::string type;
  Asker asker{};
};
struct ActorFound {
  ActorId actor;
  std::string label;
  std::uint64_t number = 0;  ///< from the head: the asker's
};
struct HoldActor {
  ActorId actor;
  std::int32_t count = 0;
  Asker asker{};
};
struct ConstructActor {
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::uint32_t constructor = 0;
  std::vector<std::byte> arguments;
  bool in_pieces = false;
  std::string name_space{};
  Holding holding{};
  TraceId trace{};
  bool exclusive = false;
};
struct ActorConstructed {
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::optional<Error> failure;
};
struct AddJob {
  JobId job;
  RegisterJob program;
  NodeId node{};                 ///< its driver's
  std::vector<NodeId> others{};  ///< that may send the executable, too
};
struct EndJob {
  JobId job;
};
/// Its driver is about to end: its workers end, after their destructors.
struct StopJob {
  JobId job;
};
struct JobStopped {
  JobId job;
};
struct EndCaller {
  CallerId caller;
};
struct StartIncarnation {
  ActorId actor;
  std::uint32_t incarnation = 0;
  JobId job;
  std::string label;
  std::uint32_t constructor = 0;
  std::vector<std::byte> arguments;
  bool in_pieces = false;
  std::string name_space;
  Amounts amounts;
  std::vector<GpuShare> gpus;
  TraceId trace{};
  GroupId group{};  ///< of whose bundle that is a part
  std::uint32_t bundle = 0;
  bool exclusive = false;
  bool may_restart = false;  ///< there is a restart left after this one
};
struct EndIncarnation {
  ActorId actor;
  std::uint32_t incarnation = 0;
  bool kill = false;           ///< at once, without its destructor
  std::uint32_t grace_ms = 0;  ///< else: for the call that runs
  bool moves = false;          ///< it goes on elsewhere: calls that it has not begun go there, too
};
struct IncarnationEnded {
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::string reason;
  bool out_of_memory = false;  ///< killed because its node had too little
};
struct ActorAlive {
  std::uint64_t number = 0;
  ActorId actor;
  std::uint32_t incarnation = 0;
  NodeId node;
  std::int32_t max_task_retries = 0;
  std::string ended{};         ///< how the incarnation before this one ended; empty for the first
  std::string address{};       ///< of its node, for other nodes; empty: the head's
  bool out_of_memory = false;  ///< that was why
};
struct JoinCluster {
  NodeId node;
  std::string address;  ///< where other nodes reach it
  Amounts amounts;      ///< that it gives; nothing: it runs nothing
  std::map<std::string, std::string> labels{};
  bool again = false;         ///< it has joined this cluster before
  std::uint64_t session = 0;  ///< the session that it had with the head and wants to go on with; 0: none
  std::uint64_t heard = 0;    ///< how many messages of that session have come from the head
};
struct ClusterJoined {
  std::uint32_t cpus = 0;  ///< of all nodes
  bool lost = false;       ///< the cluster has given it up: it has not joined, and may do so as another node
  bool lasts = false;      ///< if the head ends, another one will go on
  std::uint64_t session = 0;
  bool resumed = false;     ///< the session that the node asked for goes on
  std::uint64_t heard = 0;  ///< how many messages of that session have come from the node
};
/// Resources that are had together or not at all.
struct PlaceGroup {
  GroupId group;
  std::string label{};
  Strategy strategy = Strategy::kPack;
  std::vector<Demand> bundles{};
  Asker asker{};
};
/// All nodes have set aside what it asks for.
struct GroupReady {
  std::uint64_t number = 0;     ///< from the head: the asker's
  std::vector<NodeId> nodes{};  ///< of each bundle
};
struct RemoveGroup {
  GroupId group;
  Asker asker{};
};
/// For the actors of one bundle, before all tasks.
struct HoldBundle {
  GroupId group;
  std::uint32_t bundle = 0;
  Amounts amounts{};
  std::vector<GpuShare> gpus{};
};
struct BundleHeld {
  GroupId group;
  std::uint32_t bundle = 0;
};
struct ReleaseBundle {
  GroupId group;
  std::uint32_t bundle = 0;
};
struct LeaseGranted {
  std::uint64_t number = 0;
  WorkerId worker;
  NodeId node;
  std::string address;  ///< as in ActorAlive
};
struct Refused {
  std::uint64_t number = 0;
  Error why;
};
struct WorkerReady {
  static constexpr std::size_t kDescriptors = 1;
  WorkerId worker;
  ActorId actor;  ///< which one is meant, where there is a choice; none for a task worker
  std::uint32_t incarnation = 0;
  std::int32_t pid = 0;
  std::int32_t max_task_retries = 0;  ///< how often a call may be sent to a new incarnation
  bool remote = false;                ///< on another machine; an actor's connection may end although both live
  std::string ended{};                ///< how the incarnation before this one ended; empty for the first
  bool out_of_memory = false;         ///< that was why
};
struct WorkerEnded {
  WorkerId worker;
  std::string reason;
  bool out_of_memory = false;  ///< killed because its node had too little
};
struct Output {
  std::string label;
  std::int32_t pid = 0;
  bool error = false;
  std::string lines;
  bool report = false;  ///< about the worker, not by it
  JobId job{};
  bool last = false;  ///< its process has ended: there will be no more of either stream
};
struct Stop {};
struct Done {};
struct ZygoteReady {
  BuildId build_id{};
  std::uint32_t functions = 0;
  std::string cannot_fork;  ///< empty, or what makes a fork of this program unsafe
};
struct ForkWorker {
  static constexpr std::size_t kDescriptors = 3;
  WorkerId worker;
  std::vector<std::string> variables{};  ///< "NAME=value", set before user code runs
};
struct WorkerForked {
  static constexpr std::size_t kDescriptors = 1;
  WorkerId worker;
  std::int32_t pid = 0;
};
struct WorkerReaped {
  WorkerId worker;
  std::int32_t status = 0;  ///< as waitpid gives it
  bool crashed = false;     ///< WorkerCrashed follows
};
struct WorkerCrashed {
  WorkerId worker;
  std::string headline;  ///< goes on after "killed by SIGSEGV"
  std::string report;    ///< several lines
};
struct ServeCaller {
  static constexpr std::size_t kDescriptors = 1;
  CallerId caller;
  ActorId actor;
  std::uint32_t incarnation = 0;
  bool remote = false;  ///< as in WorkerReady
  Holding holding{};    ///< of its tasks; an actor has its own
};
struct EndWorker {
  std::uint32_t grace_ms = 0;  ///< for the call that runs
  bool moves = false;          ///< its actor goes on elsewhere
};
struct WorkerBlocked {
  bool blocked = false;
};
struct OpenStore {};
struct StoreOpened {
  static constexpr std::size_t kDescriptors = 3;
  std::uint32_t table = 0;  ///< of pins, in the ledger
};
struct LeaseSlab {
  std::uint64_t slot_bytes = 0;
};
struct SlabLeased {
  std::uint64_t offset = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t first_slot = 0;
  std::uint32_t slots = 0;
};
struct ReturnSlab {
  std::uint32_t first_slot = 0;
};
struct TrimStore {};
struct BringObject {
  ObjectLocation object;
};
struct ImportObject {
  ObjectLocation object;
};
struct ObjectImported {
  ObjectLocation object;
};
struct ClaimObject {
  ObjectLocation object;
};
struct ObjectClaimed {
  std::uint64_t size = 0;
  std::string label{};
  ObjectLocation elsewhere{};  ///< with a node: that one has it, and nothing was claimed
};
struct ReleaseObject {
  ObjectLocation object;  ///< none: all that was claimed by earlier connections, and not again by this one
};
struct FindNode {
  NodeId node;
  std::uint64_t number = 0;  ///< of the question; the asking node's own
};
struct NodeFound {
  std::uint64_t number = 0;  ///< of the question
  std::string address{};     ///< as in ActorAlive
};

/// What runs and what waits in a job, or in one of its workers.
struct Inspect {
  Asker asker{};
};

/// No function: of a field that may hold one's index.
constexpr std::uint32_t kNoFunction = ~std::uint32_t{0};

/// A result that is not there, as the process sees it that waits for it.
struct PendingResult {
  enum class Stage : std::uint8_t {
    kNoCall,     ///< no call brings it, but this process itself, later
    kArguments,  ///< the call waits for its arguments
    kUnsent,     ///< it waits for a worker: of its own, or its actor's
    kSent,
  };
  friend constexpr bool pharos_valid(Stage stage) { return stage <= Stage::kSent; }
  std::int32_t argument_of = -1;  ///< which of the results beside it; none: a thread waits for it
  Stage stage = Stage::kNoCall;
  std::uint32_t function = kNoFunction;
  ActorId actor{};  ///< that is called; none: a task
  std::string label{};
  WorkerId worker{};                   ///< that a task was sent to
  std::uint64_t number = 0;            ///< of a call that was sent, among the calls of its caller
  std::int32_t thread = 0;             ///< that waits; 0: a coroutine
  std::uint32_t inside = kNoFunction;  ///< what the waiting thread runs
  Amounts amounts{};                   ///< that a task asks for
  friend bool operator==(const PendingResult&, const PendingResult&) = default;
};
/// An actor, or a worker that runs tasks.
struct InspectedWorker {
  WorkerId worker{};  ///< none: it has no process
  ActorId actor{};
  std::string label{};
  std::string state{};  ///< for people
  std::int32_t pid = 0;
  bool answered = false;                 ///< what follows is known
  std::uint32_t function = kNoFunction;  ///< that it runs
  std::int64_t nanoseconds = 0;          ///< for so long
  CallerId caller{};                     ///< whose call that is
  std::uint64_t number = 0;
  std::vector<PendingResult> waits{};
  Amounts amounts{};           ///< that it holds
  std::string elsewhere{};     ///< for people: which other node it is on; empty: here, or nowhere
  bool may_run_again = false;  ///< what runs, where a worker dies
  friend bool operator==(const InspectedWorker&, const InspectedWorker&) = default;
};
/// A process and an object of the store.
struct ObjectUse {
  CallerId process{};
  bool holds = false;  ///< it belongs to it
  bool reads = false;  ///< it must stay in memory for it
  friend bool operator==(const ObjectUse&, const ObjectUse&) = default;
};
struct InspectedObject {
  CallerId maker{};
  std::uint64_t number = 0;
  std::uint64_t size = 0;
  std::string label{};  ///< where it comes from
  bool sealed = false;  ///< it is not being written
  bool out = false;     ///< not in memory
  bool copied = false;  ///< another node's: it is there, when it is out here
  std::vector<ObjectUse> uses{};
  friend bool operator==(const InspectedObject&, const InspectedObject&) = default;
};
/// A process that has a part in them.
struct InspectedProcess {
  CallerId caller{};
  std::int32_t pid = 0;
  std::string label{};
  friend bool operator==(const InspectedProcess&, const InspectedProcess&) = default;
};
struct InspectedStore {
  std::uint64_t capacity = 0;  ///< in bytes; 0: nobody has used it
  std::uint64_t used = 0;      ///< memory of objects, and of slots that processes keep
  std::uint64_t idle = 0;      ///< memory that is free, and soon the system's
  std::uint64_t on_disk = 0;
  std::uint64_t objects = 0;               ///< so many there are
  std::vector<InspectedObject> largest{};  ///< of these
  std::vector<InspectedProcess> processes{};
  friend bool operator==(const InspectedStore&, const InspectedStore&) = default;
};
struct Inspected {
  Amounts total{};  ///< of the node
  Amounts in_use{};
  Amounts cluster{};  ///< of all nodes; none: the head has not answered
  std::vector<InspectedWorker> workers{};
  std::uint64_t number = 0;  ///< from the head: the asker's
  InspectedStore store{};    ///< for one who has no job here
};

/// Workers for tasks that wait at a node until there is so much for each.
struct WaitingTasks {
  Amounts amounts{};
  std::uint32_t workers = 0;
  friend bool operator==(const WaitingTasks&, const WaitingTasks&) = default;
};
/// What tasks have of a node, and wait for there. Said when it has changed.
struct NodeLoad {
  Amounts tasks{};
  std::vector<WaitingTasks> waiting{};  ///< the longest lines first
  friend bool operator==(const NodeLoad&, const NodeLoad&) = default;
};

/// What is asked of a row's cell.
struct RowFilter {
  std::string column;
  std::string value;
  bool is_not = false;
  friend bool operator==(const RowFilter&, const RowFilter&) = default;
};
/// For people: rows of one of the head's tables, or of a node's own.
struct ListRows {
  std::string table;
  std::vector<RowFilter> filters{};
  std::uint32_t limit = 0;
  std::uint64_t number = 0;  ///< of the question; filled in by the node that passes it on
  NodeId node{};             ///< whose table is meant; none: the head's
  bool passed_on = false;    ///< by another node, which says that this is that one
};
struct Rows {
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};  ///< as many cells each
  std::uint64_t matching = 0;                    ///< rows, also those past the limit
  std::uint64_t number = 0;
};

/// For people: a part of a log that a node keeps.
struct ReadLog {
  NodeId node{};  ///< none: the one that is asked
  std::string log{};
  std::uint64_t from = 0;  ///< byte of all that was ever written; past the end: the end
  std::uint32_t most = 0;  ///< bytes
  bool passed_on = false;  ///< as in ListRows
};
struct LogPart {
  std::uint64_t from = 0;  ///< later than asked when what was there is gone
  std::string text{};
  std::uint64_t size = 0;  ///< of all that was ever written
  bool ended = false;      ///< nothing more will be
};
/// What a process does, and what its get()s wait for.
struct Explain {};
struct Explained {
  std::int32_t pid = 0;
  std::string function{};        ///< that it runs; empty: none
  std::int64_t nanoseconds = 0;  ///< for so long
  std::string waits{};           ///< for people, a line each; empty: no get() waits
};
/// Where a worker's threads are.
struct ReadStacks {
  WorkerId worker;
};
struct Stacks {
  std::string text{};  ///< for people
};

/// All is well. The head sends a node's beat back to it with the same time, so that the node knows since when.
struct Beat {
  TimePoint sent{};         ///< by the node's clock, which its workers share
  std::uint64_t heard = 0;  ///< how many messages of their session the sender of this beat has heard
};
/// It is to end. Of the head's: with all others.
struct EndNode {};
struct DrainNode {
  NodeId node{};
  std::uint32_t limit_ms = 0;  ///< then what is there still is killed; 0: never
  std::uint64_t number = 0;    ///< of the question; filled in by the node that passes it on
};
/// So many of the messages that a node would say again to a head that starts again need not be.
struct Confirmed {
  std::uint64_t count = 0;
};
/// What there is on a node, for a head that has started again. In several, when it is much.
struct Report {
  struct Caller {
    CallerId caller;
    JobId job;
    friend bool operator==(const Caller&, const Caller&) = default;
  };
  struct Hold {
    CallerId caller;
    ActorId actor;
    std::int64_t count = 0;
    friend bool operator==(const Hold&, const Hold&) = default;
  };
  struct Incarnation {
    ActorId actor;
    std::uint32_t incarnation = 0;
    bool constructed = false;
    friend bool operator==(const Incarnation&, const Incarnation&) = default;
  };
  struct Bundle {
    GroupId group;
    std::uint32_t bundle = 0;
    friend bool operator==(const Bundle&, const Bundle&) = default;
  };
  /// Of one of its workers, to a caller of another node.
  struct Lease {
    WorkerId worker;
    CallerId caller;
    JobId job;
    friend bool operator==(const Lease&, const Lease&) = default;
  };
  std::vector<JobId> jobs{};  ///< of other nodes' drivers
  std::vector<Caller> callers{};
  std::vector<Hold> holds{};
  std::vector<Incarnation> incarnations{};
  std::vector<Bundle> bundles{};  ///< that it has set aside, or will
  std::vector<Bundle> unheld{};   ///< of those: tasks have what they need
  std::vector<Lease> lent{};
  std::vector<WorkerId> borrowed{};  ///< other nodes' workers
  bool more = false;                 ///< another one follows
};
/// What somebody has of a node.
struct Share {
  NodeId node{};
  Amounts amounts{};
  std::vector<GpuShare> gpus{};
  friend bool operator==(const Share&, const Share&) = default;
};
/// What the head writes down about an actor, beside StartActor or PromiseActor.
struct ActorLife {
  ActorId actor;
  std::uint32_t incarnation = 0;  ///< 0: it is promised
  std::uint32_t restarts = 0;
  std::uint32_t backoff = 0;
  bool waits = false;  ///< for its restart
  Share has{};         ///< its process; without a node: it has none
  GroupId group{};     ///< of whose bundle that is a part
  std::uint32_t bundle = 0;
  std::optional<Error> over{};  ///< why it ended for good
  std::string label{};
  JobId job{};
  std::string last_end{};      ///< of the incarnation before
  bool out_of_memory = false;  ///< that was why
};
/// The same about a group, beside PlaceGroup: of each bundle.
struct GroupPlaces {
  GroupId group;
  std::vector<Share> places{};
  bool removed = false;  ///< actors have some of them still
};

using Message =
    std::variant<Failure, RegisterJob, JobRegistered, LeaseWorker, ReturnLease, StartActor, KillActor, WorkerReady,
                 WorkerEnded, Output, Stop, Done, ZygoteReady, ForkWorker, WorkerForked, WorkerReaped, ServeCaller,
                 EndWorker, WorkerBlocked, ConnectActor, FindActor, ActorFound, HoldActor, ConstructActor,
                 ActorConstructed, AddJob, EndJob, EndCaller, StartIncarnation, EndIncarnation, IncarnationEnded,
                 ActorAlive, Refused, WorkerCrashed, Inspect, Inspected, JoinCluster, ClusterJoined, LeaseGranted,
                 OpenStore, StoreOpened, LeaseSlab, SlabLeased, ReturnSlab, TrimStore, BringObject, StopJob, JobStopped,
                 PromiseActor, BreakPromise, ImportObject, ObjectImported, ClaimObject, ObjectClaimed, ReleaseObject,
                 FindNode, NodeFound, PlaceGroup, GroupReady, RemoveGroup, HoldBundle, BundleHeld, ReleaseBundle,
                 NodeLoad, ListRows, Rows, Beat, Confirmed, Report, ActorLife, GroupPlaces, EndNode, DrainNode, ReadLog,
                 LogPart, Explain, Explained, ReadStacks, Stacks, RecallLeases>;

/// The alternative's name, for logs and errors.
std::string_view name_of(const Message& message);

/// How many descriptors travel beside it.
std::size_t descriptors_of(const Message& message);

std::vector<std::byte> encode(const Message& message);

/// kCorrupt when the bytes are no message of this protocol version.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace pharos::wire
