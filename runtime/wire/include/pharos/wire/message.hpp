#pragma once

#include <array>
#include <concepts>
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
#include <pharos/wire/strategy.hpp>

namespace pharos::wire {

/// Control messages: everything between processes that is not a call. A message is described by its struct alone:
/// Codec<T> writes and reads its fields, and its name is that of the struct (docs/decisions/0031). The comment of each
/// says which process sends it to which, and how it is answered. File descriptors that travel with a message are sent
/// beside it, in the order in which its comment names them; kDescriptors says how many. An id of 0 means "none" unless
/// the comment says something else.
/// Messages are plain values: whoever makes or receives one owns it. A request that cannot be met is answered by
/// Failure, or by Refused between head and nodes, except JoinCluster. A receiver ignores a message that its sender may
/// not send; a node refuses a request of that kind (node/src/node/senders.hpp). What happens to requests when the other
/// process dies is said in net/peer.hpp.

/// The first 20 bytes of the executable's build id, or of a hash of the executable.
using BuildId = std::array<std::uint8_t, 20>;

/// The answer to a request that could not be met.
struct Failure {
  Error error;
};
/// Driver to node, with the driver's executable. Answered by JobRegistered.
struct RegisterJob {
  static constexpr std::size_t kDescriptors = 1;
  std::string executable;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string folder;
  BuildId build_id{};
};
/// Node to driver. Also node to worker, as the first message: a caller is a driver or a worker.
struct JobRegistered {
  JobId job;
  CallerId caller;
  NodeId node;
  std::uint32_t cpus = 0;
  std::string warning;  ///< the reason if workers of this program start slowly, else empty
  std::string address;  ///< address of the node's Unix socket
};
/// The process that asks the head something. Its node fills this in when it passes the question on to the head.
struct Asker {
  JobId job;
  CallerId caller;
  std::uint64_t number = 0;  ///< number of the question, which the node has chosen
};
/// Amounts of resources by name, in units of 1/10000.
using Amounts = std::map<std::string, std::int64_t>;
/// One condition on a node's labels.
struct LabelRule {
  std::string name;
  std::vector<std::string> values;  ///< the node's label must have one of these values
  bool is_not = false;              ///< instead: the label has none of these values, or the node lacks the label
  friend bool operator==(const LabelRule&, const LabelRule&) = default;
};
/// The resources that a task, an actor or a bundle needs, and the nodes that it accepts.
struct Demand {
  Amounts amounts{};
  NodeId only{};                    ///< if set, the only node that is accepted
  std::vector<LabelRule> labels{};  ///< all of these conditions must hold
  NodeId near{};                    ///< if set, the preferred node, if it has room
  bool spread = false;              ///< prefer the least used node
  GroupId group{};                  ///< if set, use the resources of a bundle of this group
  std::int32_t bundle = -1;         ///< index of the bundle; any bundle if negative
  friend bool operator==(const Demand&, const Demand&) = default;
};
/// A share of one GPU.
struct GpuShare {
  std::uint32_t index = 0;  ///< index among the node's GPUs
  std::int64_t amount = 0;
  friend bool operator==(const GpuShare&, const GpuShare&) = default;
};
/// The resources that the code of a worker may use.
struct WorkerResources {
  Amounts amounts;
  std::vector<std::string> gpus;  ///< names as in CUDA_VISIBLE_DEVICES
};
/// Caller to node, answered by WorkerReady. Also node to head, and head to the node that it chooses, answered by
/// LeaseGranted or Refused.
struct LeaseWorker {
  Demand demand;
  Asker asker{};
  bool nested = false;    ///< the caller is itself a worker; its node fills this in
  bool only_now = false;  ///< between nodes: refused with kOverloaded unless there is room at this moment
};
/// Caller to node; for a worker of another node also to the head, and on to that node.
struct ReturnLease {
  WorkerId worker;
  CallerId caller{};    ///< the caller's node fills this in
  bool broken = false;  ///< the caller's connection to the worker broke, so the result of a running task is lost
};
/// Node to caller, by way of the head if the caller is at another node.
/// Other callers wait: the caller must return `count` of these workers, those whose tasks end first.
struct RecallLeases {
  std::vector<WorkerId> workers;  ///< all of one node, and leased by one caller
  std::uint32_t count = 0;
};
/// Caller to node, which asks the head. Answered by WorkerReady once the actor is constructed, however long that takes.
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
  bool in_pieces = false;  ///< the arguments begin with a list of objects, as with FrameFlags::kInPieces
  Demand demand{};
  Asker asker{};
  TraceId trace{};         ///< trace of the constructor of each incarnation
  bool exclusive = false;  ///< the actor's process ends if it does not hear from the head
  bool leaves = false;     ///< if its node drains, the actor is stopped with notice, not moved
};
/// Caller to node, which tells the head. Answered by ActorFound, if it was sent as a request.
/// Announces an actor whose arguments are not complete yet, or whose name may be taken (get_if_exists). Its name is
/// taken at once, and other callers may get handles.
struct PromiseActor {
  ActorId actor;
  std::string label{};
  std::string name_space{};
  std::string name{};
  std::string type{};
  std::int32_t max_restarts = 0;
  bool detached = false;
  bool get_if_exists = false;  ///< if an actor of that name exists, return that actor instead
  Asker asker{};
};
/// Caller to node, which tells the head. Not answered.
/// Cancels a PromiseActor: the actor will not be started.
struct BreakPromise {
  ActorId actor;
  Error why;
  Asker asker{};
};
/// Caller to node, which tells the head. Not answered: the head ignores an unknown actor, and logs a refusal.
struct KillActor {
  ActorId actor;
  Asker asker{};
  bool gently = false;         ///< stop the actor instead: the call that runs may finish
  std::uint32_t grace_ms = 0;  ///< with `gently`: time for the call that runs
  std::string why{};           ///< with `gently`: the reason
};
/// Caller to node, which asks the head. Answered by WorkerReady when the actor is alive.
struct ConnectActor {
  ActorId actor;
  std::uint32_t seen = 0;  ///< the incarnation to which the caller has lost its connection; 0 if none
  Asker asker{};
};
/// Caller to node, which asks the head. Answered by ActorFound; the caller then holds the actor once more.
struct FindActor {
  std::string name_space;
  std::string name;
  std::string type;
  Asker asker{};
};
/// Node to caller, which holds it now.
struct ActorFound {
  ActorId actor;
  std::string label;
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the question
};
/// Caller to node, which tells the head: the caller has `count` handles more, or fewer if negative. If the count is not
/// negative, answered by ActorHeld.
struct HoldActor {
  ActorId actor;
  std::int32_t count = 0;  ///< how many more (or, if negative, fewer) handles the caller has
  Asker asker{};
};
/// Head to node, and node to caller: the head has counted the HoldActor.
struct ActorHeld {
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the HoldActor
};
/// Node to worker, which says ActorConstructed afterwards.
struct ConstructActor {
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::uint32_t constructor = 0;
  std::vector<std::byte> arguments;
  bool in_pieces = false;
  std::string name_space{};
  WorkerResources holding{};
  TraceId trace{};
  bool exclusive = false;
};
/// Worker to node, which tells the head.
struct ActorConstructed {
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::optional<Error> failure;
};
/// A job's node to the head, which tells those that are to run it.
struct AddJob {
  JobId job;
  RegisterJob program;
  NodeId node{};                 ///< node of the job's driver
  std::vector<NodeId> others{};  ///< other nodes that can send the executable
};
/// The job's node to the head, which tells the nodes that run it.
struct EndJob {
  JobId job;
};
/// The job's node to the head, which tells the nodes that run it. Answered by JobStopped.
/// The job's driver is about to end. The job's workers must end, after the destructors of their actors have run. If the
/// job has detached actors, the head answers at once, and the workers go on.
struct StopJob {
  JobId job;
};
/// The same way back, when all workers of the job are gone, or at once if the job has detached actors.
struct JobStopped {
  JobId job;
};
/// The caller's node to the head, which tells the nodes whose workers the caller has leased.
struct EndCaller {
  CallerId caller;
};
/// Head to node; ActorConstructed and IncarnationEnded say how it goes.
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
  GroupId group{};  ///< if set, the amounts are a part of a bundle of this group
  std::uint32_t bundle = 0;
  bool exclusive = false;
  bool may_restart = false;  ///< the actor may be restarted once more after this incarnation
};
/// Head to node, which says IncarnationEnded when the process is gone.
struct EndIncarnation {
  ActorId actor;
  std::uint32_t incarnation = 0;
  bool kill = false;           ///< end the process at once, without the actor's destructor
  std::uint32_t grace_ms = 0;  ///< without `kill`: time for the call that runs
  bool moves = false;          ///< the actor continues on another node, and so do calls that have not begun
};
/// Node to head: the process is gone, or could not be started. Also head to node to caller: the node is lost.
struct IncarnationEnded {
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::string reason;
  bool out_of_memory = false;  ///< the process was killed because its node had too little memory
};
/// Head to node: answers StartActor and ConnectActor.
struct ActorAlive {
  std::uint64_t number = 0;
  ActorId actor;
  std::uint32_t incarnation = 0;
  NodeId node;
  std::int32_t max_task_retries = 0;
  std::string ended{};         ///< how the previous incarnation ended; empty for the first
  std::string address{};       ///< address of its node for other nodes; empty if it is the head's node
  bool out_of_memory = false;  ///< the previous incarnation was killed because its node had too little memory
};
/// Node to head, once for each connection, over TCP. Answered by ClusterJoined, or by Failure if the node cannot join.
struct JoinCluster {
  NodeId node;
  std::string address;  ///< address at which other nodes reach this node; empty if it has no workers
  Amounts amounts;      ///< resources of this node; empty if it runs no workers
  std::map<std::string, std::string> labels{};
  bool again = false;         ///< the node has joined this cluster before
  std::uint64_t session = 0;  ///< the earlier session with the head that the node wants to resume; 0 if none
  std::uint64_t heard = 0;    ///< number of messages of that session that have come from the head
};
/// Head to node.
struct ClusterJoined {
  std::uint32_t cpus = 0;  ///< CPUs of all nodes together
  bool lost = false;       ///< refused: the cluster has given this node up, and it may only join as a new node
  bool lasts = false;      ///< if the head ends, another head will continue its work
  std::uint64_t session = 0;
  bool resumed = false;     ///< the session that the node asked for continues
  std::uint64_t heard = 0;  ///< number of messages of that session that have come from the node
};
/// Caller to node, which tells the head. Answered by GroupReady.
/// Asks for a placement group: bundles of resources that are all reserved, or none of them.
struct PlaceGroup {
  GroupId group;
  std::string label{};
  Strategy strategy = Strategy::kPack;
  std::vector<Demand> bundles{};
  Asker asker{};
};
/// The answer to PlaceGroup.
/// All nodes have reserved the resources of the group's bundles.
struct GroupReady {
  std::uint64_t number = 0;     ///< in an answer of the head: Asker::number of the question
  std::vector<NodeId> nodes{};  ///< the node of each bundle
};
/// Caller to node, which tells the head. Not answered. A PlaceGroup of the group that waits fails with kCancelled.
struct RemoveGroup {
  GroupId group;
  Asker asker{};
};
/// Head to node. Answered by BundleHeld, when tasks have left what it needs.
/// Tells a node to reserve resources for one bundle. The bundle gets them before tasks that wait.
struct HoldBundle {
  GroupId group;
  std::uint32_t bundle = 0;
  Amounts amounts{};
  std::vector<GpuShare> gpus{};
};
/// Node to head.
struct BundleHeld {
  GroupId group;
  std::uint32_t bundle = 0;
};
/// Head to node.
struct ReleaseBundle {
  GroupId group;
  std::uint32_t bundle = 0;
};
/// Node to head, and head to the node that asked: answers LeaseWorker.
struct LeaseGranted {
  std::uint64_t number = 0;
  WorkerId worker;
  NodeId node;
  std::string address;  ///< like ActorAlive::address
};
/// Head to node: the answer to a request that could not be met. Also node to head, for a lease.
struct Refused {
  std::uint64_t number = 0;
  Error why;
};
/// Node to caller, with the socket for calls.
struct WorkerReady {
  static constexpr std::size_t kDescriptors = 1;
  WorkerId worker;
  ActorId actor;  ///< the worker's actor; none if the worker runs tasks
  std::uint32_t incarnation = 0;
  std::int32_t pid = 0;
  std::int32_t max_task_retries = 0;  ///< how often a call may be sent to a new incarnation
  bool remote = false;         ///< on another machine: an actor's connection may end although both processes live
  std::string ended{};         ///< how the previous incarnation ended; empty for the first
  bool out_of_memory = false;  ///< the previous incarnation was killed because its node had too little memory
};
/// Node to caller, by way of the head if the caller is at another node: a leased worker has ended.
struct WorkerEnded {
  WorkerId worker;
  std::string reason;
  bool out_of_memory = false;  ///< the worker was killed because its node had too little memory
};
/// Node to driver, which says Done when it is shown. By way of the head if the driver is at another node.
struct Output {
  std::string label;
  std::int32_t pid = 0;
  bool error = false;
  std::string lines;
  bool report = false;  ///< the lines are a report about the worker, not its own output
  JobId job{};
  bool last = false;  ///< the process has ended: neither of its streams has more output
};
/// Driver to node. Answered by Done when every worker of the job is gone, after a time limit, or at once if the job has
/// detached actors.
struct Stop {};
/// The answer to several requests.
struct Done {};
/// Zygote to node.
struct ZygoteReady {
  BuildId build_id{};
  std::uint32_t functions = 0;
  std::string cannot_fork;  ///< the reason if this program cannot be forked safely, else empty
};
/// Node to zygote, with control socket, standard output, standard error. WorkerForked follows, or WorkerReaped if the
/// worker could not be started.
struct ForkWorker {
  static constexpr std::size_t kDescriptors = 3;
  WorkerId worker;
  std::vector<std::string> variables{};  ///< "NAME=value", set before user code runs
};
/// Zygote to node, and worker to node, with the worker's pidfd.
struct WorkerForked {
  static constexpr std::size_t kDescriptors = 1;
  WorkerId worker;
  std::int32_t pid = 0;
};
/// Zygote to node.
struct WorkerReaped {
  WorkerId worker;
  std::int32_t status = 0;  ///< the status from waitpid(); minus errno if the worker could not be started
  bool crashed = false;     ///< a WorkerCrashed message follows
};
/// Zygote to node, after a WorkerReaped that announced it.
struct WorkerCrashed {
  WorkerId worker;
  std::string headline;  ///< text to append to "killed by SIGSEGV"
  std::string report;    ///< the report, several lines
};
/// Node to worker, with the socket for calls. Answered by Done: the worker has the socket.
struct ServeCaller {
  static constexpr std::size_t kDescriptors = 1;
  CallerId caller;
  ActorId actor;
  std::uint32_t incarnation = 0;
  bool remote = false;        ///< like WorkerReady::remote
  WorkerResources holding{};  ///< resources of the caller's tasks; empty for an actor, which has its own
};
/// Node to worker: destroy the actor, flush, exit. A worker that runs tasks and gets time instead gives back the tasks
/// that it has not begun, and lives on until a second EndWorker without time.
struct EndWorker {
  std::uint32_t grace_ms = 0;  ///< time for the call that runs
  bool moves = false;          ///< the worker's actor continues on another node
};
/// Worker to node: its task waits for something, or goes on.
struct WorkerBlocked {
  bool blocked = false;  ///< the worker's task waits for something; false: it continues
};
/// Caller to node, once. Answered by StoreOpened.
struct OpenStore {};
/// Node to caller, with the ledger, the memory of objects, and a descriptor that stays open while it uses them.
struct StoreOpened {
  static constexpr std::size_t kDescriptors = 3;
  std::uint32_t table = 0;  ///< index of the process's table of pins in the ledger
};
/// Caller to node. Answered by SlabLeased, perhaps only when other processes have given memory back.
struct LeaseSlab {
  std::uint64_t slot_bytes = 0;
};
/// Node to caller.
struct SlabLeased {
  std::uint64_t offset = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t first_slot = 0;
  std::uint32_t slots = 0;
};
/// Caller to node.
struct ReturnSlab {
  std::uint32_t first_slot = 0;
};
/// Node to caller: others need memory, so give back what is free.
struct TrimStore {};
/// Caller to node: bring the object to memory. Answered by Done or Failure.
struct BringObject {
  ObjectLocation object;
};
/// Caller to node, for an object of another node. Answered by ObjectImported, or not if sent ahead of the need.
struct ImportObject {
  ObjectLocation object;
};
/// Node to caller: where it is here.
struct ObjectImported {
  ObjectLocation object;
};
/// Node to the node that has the object, which keeps the object from then on. Answered by ObjectClaimed.
struct ClaimObject {
  ObjectLocation object;
};
/// The answer to ClaimObject.
struct ObjectClaimed {
  std::uint64_t size = 0;
  std::string label{};
  ObjectLocation elsewhere{};  ///< if its node is set, that node has the object, and nothing was claimed
};
/// Node to the node that has the object.
struct ReleaseObject {
  /// The object to release. None: release all objects that earlier connections have claimed and this one has not.
  ObjectLocation object;
};
/// Node to head. Answered by NodeFound, or by Refused if the node is not part of the cluster any more.
struct FindNode {
  NodeId node;
  std::uint64_t number = 0;  ///< number of the question, which the asking node has chosen
};
/// Head to node.
struct NodeFound {
  std::uint64_t number = 0;  ///< number of the question
  std::string address{};     ///< like ActorAlive::address
};

/// Caller to node, which asks its workers and the head. Answered by Inspected.
/// Asks for the running and waiting calls of a job, or of one of its workers.
struct Inspect {
  Asker asker{};
};

/// The value of a function's index that means "no function".
constexpr std::uint32_t kNoFunction = ~std::uint32_t{0};

/// A result that is not available yet, as seen by the process that waits for it.
struct PendingResult {
  enum class Stage : std::uint8_t {
    kNoCall,     ///< the result comes from no call; this process sets it later
    kArguments,  ///< the call waits for its arguments
    kUnsent,     ///< the call waits for a worker, or for its actor
    kSent,       ///< the call was sent
  };
  friend constexpr bool pharos_valid(Stage value) { return value <= Stage::kSent; }
  std::int32_t argument_of = -1;  ///< index of the result whose call needs this one; -1 if a thread waits for it
  Stage stage = Stage::kNoCall;
  std::uint32_t function = kNoFunction;
  ActorId actor{};  ///< the called actor; none if the call is a task
  std::string label{};
  WorkerId worker{};                   ///< the worker to which a task was sent
  std::uint64_t number = 0;            ///< FrameHeader::number of a call that was sent
  std::int32_t thread = 0;             ///< the waiting thread; 0 if a coroutine waits
  std::uint32_t inside = kNoFunction;  ///< the function that the waiting thread runs
  Amounts amounts{};                   ///< resources that a task needs
  friend bool operator==(const PendingResult&, const PendingResult&) = default;
};
/// An actor, or a worker that runs tasks.
struct InspectedWorker {
  WorkerId worker{};  ///< none if the actor has no process
  ActorId actor{};
  std::string label{};
  std::string state{};  ///< text for people
  std::int32_t pid = 0;
  bool answered = false;  ///< the worker has answered; if false, the fields below about its call are unknown
  std::uint32_t function = kNoFunction;  ///< the function that runs
  std::int64_t nanoseconds = 0;          ///< how long the function has been running
  CallerId caller{};                     ///< the caller of the running call
  std::uint64_t number = 0;
  std::vector<PendingResult> waits{};
  Amounts amounts{};           ///< resources that the worker holds
  std::string elsewhere{};     ///< text for people: the other node that it is on; empty if on this node or on none
  bool may_run_again = false;  ///< the running task is run again if a worker dies
  friend bool operator==(const InspectedWorker&, const InspectedWorker&) = default;
};
/// The answer to Inspect.
struct Inspected {
  Amounts total{};    ///< resources of the node
  Amounts in_use{};   ///< resources of the node that are in use
  Amounts cluster{};  ///< resources of all nodes; empty if the head has not answered
  std::vector<InspectedWorker> workers{};
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the question
};

/// A number of workers for which tasks wait at a node, each with these resources.
struct WaitingTasks {
  Amounts amounts{};
  std::uint32_t workers = 0;
  friend bool operator==(const WaitingTasks&, const WaitingTasks&) = default;
};
/// Node to head.
/// The resources that tasks use at a node and wait for. A node sends it when it has changed.
struct NodeLoad {
  Amounts tasks{};                      ///< resources that tasks use
  std::vector<WaitingTasks> waiting{};  ///< the longest queues first
  friend bool operator==(const NodeLoad&, const NodeLoad&) = default;
};

/// Caller to node, which asks the head. Answered by NodesListed.
struct ListNodes {
  Asker asker{};
};
/// Head to node, and node to caller.
struct NodesListed {
  struct Each {
    NodeId node{};
    std::string address{};  ///< empty for the head's own node
    bool is_silent = false;
    bool drains = false;
    Amounts has{};
    Amounts in_use{};  ///< by actors and tasks
    std::map<std::string, std::string> labels{};
    friend bool operator==(const Each&, const Each&) = default;
  };
  std::vector<Each> nodes{};
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the question
};

/// A condition on one cell of a row.
struct RowFilter {
  std::string column;
  std::string value;
  bool is_not = false;
  friend bool operator==(const RowFilter&, const RowFilter&) = default;
};
/// A command to any node, which asks the head or the node that is meant. Answered by Rows.
/// Asks for rows of a table of the head or of a node. For the console.
struct ListRows {
  std::string table;
  std::vector<RowFilter> filters{};
  std::uint32_t limit = 0;
  std::uint64_t number = 0;  ///< number of the question; the node that passes it on fills this in
  NodeId node{};             ///< the node that has the table; none for a table of the head
  bool passed_on = false;    ///< another node passed this on, and asserts that the receiver is `node`
};
/// The answer to ListRows, DrainNode and EndNode.
struct Rows {
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};  ///< each row has one cell per column
  std::uint64_t matching = 0;                    ///< number of matching rows, including rows beyond the limit
  std::uint64_t number = 0;
};

/// A command to any node, which asks the node that is meant. Answered by LogPart.
/// Asks for a part of a log that a node keeps. For the console.
struct ReadLog {
  NodeId node{};  ///< the node that keeps the log; none for the receiver
  std::string log{};
  std::uint64_t from =
      0;  ///< offset of the first byte, counted from the start of the log; beyond the end means the end
  std::uint32_t most = 0;  ///< maximum number of bytes
  bool passed_on = false;  ///< like ListRows::passed_on
};
/// The answer to ReadLog.
struct LogPart {
  std::uint64_t from = 0;  ///< larger than asked if the older part of the log is deleted
  std::string text{};
  std::uint64_t size = 0;  ///< number of bytes ever written to the log
  bool ended = false;      ///< the log will not grow
};
/// Node to caller. Answered by Explained.
/// Asks a caller which function it runs and what its get() calls wait for.
struct Explain {};
/// The answer to Explain.
struct Explained {
  std::int32_t pid = 0;
  std::string function{};        ///< the function that runs; empty if none
  std::int64_t nanoseconds = 0;  ///< how long the function has been running
  std::string waits{};           ///< text for people, a line for each wait; empty if no get() waits
};
/// Node to zygote. Answered by Stacks.
/// Asks for the stacks of a worker's threads.
struct ReadStacks {
  WorkerId worker;
};
/// The answer to ReadStacks.
struct Stacks {
  std::string text{};  ///< text for people
};

/// Node to head, and back; and from the node on to its exclusive actors.
/// A heartbeat. The head sends a node's beat back with the same time. The node then knows that the head was alive at
/// that time.
struct Beat {
  TimePoint sent{};         ///< time by the node's clock, which its workers share
  std::uint64_t heard = 0;  ///< number of messages of the session that the sender of this beat has received
};
/// A command to a node, which ends. Answered by Rows if a user sent it. From the head's node on to all other nodes.
/// Tells a node to end. If the receiver is the head's node, all nodes end.
struct EndNode {};
/// A command to a node, which tells the head. Answered by Rows when the drain has begun. Also head to the node that is
/// to be drained, again and again until the node is empty.
struct DrainNode {
  NodeId node{};
  std::uint32_t limit_ms = 0;  ///< time after which the actors and tasks that are left are killed; 0 for no limit
  std::uint64_t number = 0;    ///< number of the question; the node that passes it on fills this in
};
/// Head to node.
/// Tells a node how many of its messages to the head are durable. The node need not send these again if a new head
/// starts.
struct Confirmed {
  std::uint64_t count = 0;
};
/// Node to a head that has started again.
/// A node's report of its jobs, actors and leases to a new head. A long report is split into several messages.
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
  /// A lease of one of this node's workers by a caller of another node.
  struct Lease {
    WorkerId worker;
    CallerId caller;
    JobId job;
    friend bool operator==(const Lease&, const Lease&) = default;
  };
  std::vector<JobId> jobs{};  ///< all jobs that the node knows
  std::vector<Caller> callers{};
  std::vector<Hold> holds{};
  std::vector<Incarnation> incarnations{};
  std::vector<Bundle> bundles{};  ///< bundles that the node has reserved or will reserve
  std::vector<Bundle> unheld{};   ///< the bundles among these whose resources tasks still use
  std::vector<Lease> lent{};
  std::vector<WorkerId> borrowed{};  ///< workers of other nodes that callers of this node lease
  bool more = false;                 ///< another part of the report follows
};
/// The resources of a node that an actor or a bundle has.
struct NodeResources {
  NodeId node{};
  Amounts amounts{};
  std::vector<GpuShare> gpus{};
  friend bool operator==(const NodeResources&, const NodeResources&) = default;
};
/// The head's stored record of an actor, in addition to its StartActor or PromiseActor. Never sent.
struct ActorLife {
  ActorId actor;
  std::uint32_t incarnation = 0;  ///< 0 while the actor is only promised
  std::uint32_t restarts = 0;
  std::uint32_t backoff = 0;
  bool waits = false;   ///< the actor waits for its restart
  NodeResources has{};  ///< resources of its process; without a node if it has no process
  GroupId group{};      ///< if set, the resources are a part of a bundle of this group
  std::uint32_t bundle = 0;
  std::optional<Error> over{};  ///< the reason if the actor has ended for good
  std::string label{};
  JobId job{};
  std::string last_end{};      ///< how the previous incarnation ended
  bool out_of_memory = false;  ///< the previous incarnation was killed because its node had too little memory
};
/// The head's stored record of a placement group, in addition to its PlaceGroup: the resources of each bundle. Never
/// sent.
struct GroupPlaces {
  GroupId group;
  std::vector<NodeResources> places{};
  bool removed = false;  ///< the group is removed, but actors still use some of the resources
};

using MessageKinds =
    std::variant<Failure, RegisterJob, JobRegistered, LeaseWorker, ReturnLease, StartActor, KillActor, WorkerReady,
                 WorkerEnded, Output, Stop, Done, ZygoteReady, ForkWorker, WorkerForked, WorkerReaped, ServeCaller,
                 EndWorker, WorkerBlocked, ConnectActor, FindActor, ActorFound, HoldActor, ConstructActor,
                 ActorConstructed, AddJob, EndJob, EndCaller, StartIncarnation, EndIncarnation, IncarnationEnded,
                 ActorAlive, Refused, WorkerCrashed, Inspect, Inspected, JoinCluster, ClusterJoined, LeaseGranted,
                 OpenStore, StoreOpened, LeaseSlab, SlabLeased, ReturnSlab, TrimStore, BringObject, StopJob, JobStopped,
                 PromiseActor, BreakPromise, ImportObject, ObjectImported, ClaimObject, ObjectClaimed, ReleaseObject,
                 FindNode, NodeFound, PlaceGroup, GroupReady, RemoveGroup, HoldBundle, BundleHeld, ReleaseBundle,
                 NodeLoad, ListRows, Rows, Beat, Confirmed, Report, ActorLife, GroupPlaces, EndNode, DrainNode, ReadLog,
                 LogPart, Explain, Explained, ReadStacks, Stacks, RecallLeases, ActorHeld, ListNodes, NodesListed>;

template <class T, class Variant>
inline constexpr bool kIsKindOf = false;
template <class T, class... Kinds>
inline constexpr bool kIsKindOf<T, std::variant<Kinds...>> = (std::same_as<T, Kinds> || ...);
template <class T>
concept MessageKind = kIsKindOf<T, MessageKinds>;

/// One message of any kind. It is used like the variant that it is: by std::get_if, std::visit and so on. But what
/// makes, copies, moves and destroys it is compiled once, in message.cpp. For a variant of so many kinds that takes the
/// compiler seconds, and each file that only passes messages on would pay for it.
class Message : public MessageKinds {
 public:
  template <MessageKind Kind>
  Message(Kind kind);
  explicit Message(MessageKinds kinds);
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();
};

/// The name of the message's type, for logs and errors. A static text. Any thread, as the functions below.
std::string_view name_of(const Message& message);

/// The number of file descriptors that travel with the message.
std::size_t descriptors_of(const Message& message);

/// Encodes a message. Never fails, except that EncodedTooLarge is thrown above kEncodedBytesMax; net::Peer checks the
/// size of a message that is sent.
std::vector<std::byte> encode(const Message& message);

/// Decodes a message. Returns kCorrupt if the bytes are no message, and kUnsupported if another version of Pharos wrote
/// them.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace pharos::wire
