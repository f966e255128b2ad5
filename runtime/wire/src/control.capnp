# Control messages: everything between processes that is not a call. One union, so that a method without a row in a test
# can be found by enumerating it. File descriptors that a message speaks of travel beside it (SCM_RIGHTS), in the order
# in which its comment names them.
@0x9d1f6f0c4b7a2e51;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("pharos::wire::schema");

struct Message {
  union {
    failure @0 :Failure;            # the answer to a request that could not be met
    registerJob @1 :RegisterJob;    # driver to node, with the driver's executable; answered by jobRegistered
    jobRegistered @2 :JobRegistered;  # also node to worker, unasked, before all else: a caller is a driver or a worker
    leaseWorker @3 :LeaseWorker;    # caller to node, and on by way of the head; answered by workerReady
    returnLease @4 :ReturnLease;    # caller to node
    startActor @5 :StartActor;      # caller to node; answered by workerReady once it is constructed
    killActor @6 :KillActor;        # caller to node
    workerReady @7 :WorkerReady;    # node to caller, with the socket for calls
    workerEnded @8 :WorkerEnded;    # node to caller
    output @9 :Output;              # node to driver, which says done when it is shown
    stop @10 :Stop;                 # driver to node; answered by done when every worker is gone
    done @11 :Void;
    zygoteReady @12 :ZygoteReady;   # zygote to node
    forkWorker @13 :ForkWorker;     # node to zygote, with control socket, standard output, standard error
    workerForked @14 :WorkerForked; # zygote to node, and worker to node, with the worker's pidfd
    workerReaped @15 :WorkerReaped; # zygote to node
    serveCaller @16 :ServeCaller;   # node to worker, with the socket for calls
    endWorker @17 :EndWorker;       # node to worker: destroy the actor, flush, exit
    workerBlocked @18 :WorkerBlocked;  # worker to node: its task waits for something, or goes on
    connectActor @19 :ConnectActor;    # caller to node; answered by workerReady
    findActor @20 :FindActor;          # caller to node; answered by actorFound
    actorFound @21 :ActorFound;        # node to caller, which holds it now
    holdActor @22 :HoldActor;          # caller to node: so many handles more or less
    constructActor @23 :ConstructActor;      # node to worker
    actorConstructed @24 :ActorConstructed;  # worker to node, which tells the head
    addJob @25 :AddJob;                      # a job's node to the head, which tells those that are to run it
    endJob @26 :EndJob;                      # the same
    endCaller @27 :EndCaller;                # the same, to those of whose workers it has leases
    startIncarnation @28 :StartIncarnation;  # head to node; actorConstructed and incarnationEnded tell how it goes
    endIncarnation @29 :EndIncarnation;      # head to node
    incarnationEnded @30 :IncarnationEnded;  # node to head: its process is gone, or could not be started; head to node to caller: its node is lost
    actorAlive @31 :ActorAlive;              # head to node: answers startActor and connectActor
    refused @32 :Refused;                    # head to node: the answer to what could not be met; node to head, of a lease
    workerCrashed @33 :WorkerCrashed;        # zygote to node, after workerReaped said that it would come
    inspect @34 :Inspect;                    # caller to node, which asks its workers and the head; answered by inspected
    inspected @35 :Inspected;
    joinCluster @36 :JoinCluster;            # node to head, once, over TCP; answered by clusterJoined
    clusterJoined @37 :ClusterJoined;        # head to node
    leaseGranted @38 :LeaseGranted;          # node to head, and head to the node that asked: answers leaseWorker
    openStore @39 :Void;               # caller to node; answered by storeOpened
    storeOpened @40 :StoreOpened;      # node to caller, with ledger, objects, and what stays open while it uses them
    leaseSlab @41 :LeaseSlab;          # caller to node; answered by slabLeased
    slabLeased @42 :SlabLeased;        # node to caller
    returnSlab @43 :ReturnSlab;        # caller to node
    trimStore @44 :Void;               # node to caller: others need memory, so give back what is free
    stopJob @45 :StopJob;              # a job's node to the head, which tells those that run it; answered by jobStopped
    jobStopped @46 :JobStopped;        # the same way back, when all workers there are gone
    promiseActor @47 :PromiseActor;    # caller to node, which tells the head; answered by actorFound
    breakPromise @48 :BreakPromise;    # the same, unanswered
    bringObject @49 :Object;           # caller to node: to memory, or why not; answered by done
    importObject @50 :Object;          # caller to node, of another node's; answered by objectImported, or ahead, unanswered
    objectImported @51 :Object;        # node to caller: where it is here
    claimObject @52 :Object;           # node to the node that has it, which keeps it then; answered by objectClaimed
    objectClaimed @53 :ObjectClaimed;
    releaseObject @54 :Object;         # node to the node that has it
    findNode @55 :FindNode;            # node to head; answered by nodeFound
    nodeFound @56 :NodeFound;          # head to node
    placeGroup @57 :PlaceGroup;        # caller to node, which tells the head; answered by groupReady
    groupReady @58 :GroupReady;
    removeGroup @59 :RemoveGroup;      # caller to node, which tells the head
    holdBundle @60 :HoldBundle;        # head to node; answered by bundleHeld, when tasks have left what it needs
    bundleHeld @61 :Bundle;            # node to head
    releaseBundle @62 :Bundle;         # head to node
    nodeLoad @63 :NodeLoad;            # node to head
    listRows @64 :ListRows;            # people's question to any node, which tells the head or asks the node; answered by rows
    rows @65 :Rows;
    beat @66 :Beat;                    # node to head, and back; and on to its exclusive actors
    confirmed @67 :UInt64;             # head to node: so many of what it has said in vain else will outlive the head
    report @68 :Report;                # node to a head that has started again: what there is
    actorLife @69 :ActorLife;          # nobody's: what the head writes down, beside startActor and promiseActor
    groupPlaces @70 :GroupPlaces;      # the same, beside placeGroup
    endNode @71 :Void;                 # people to a node, which ends; from the head's node on to all others
    readLog @72 :ReadLog;              # people's question to any node, which asks the node; answered by logPart
    logPart @73 :LogPart;
    explain @74 :Void;                 # node to caller; answered by explained
    explained @75 :Explained;
    readStacks @76 :ReadStacks;        # node to zygote; answered by stacks
    stacks @77 :Stacks;
    drainNode @78 :DrainNode;          # people to a node, which tells the head; answered by rows; and head to that node
    recallLeases @79 :RecallLeases;    # node to caller, by way of the head if that is at another node: others wait
  }
}

struct Failure {
  code @0 :UInt8;
  outcome @1 :UInt8;
  message @2 :Text;
  remedy @3 :Text;
  context @4 :List(Text);
  thrownType @5 :Text;            # the exception that it stands for; empty: none
  thrown @6 :Data;
}

struct RegisterJob {
  executable @0 :Text;            # its path, for people; the descriptor beside the message is what runs
  arguments @1 :List(Text);
  environment @2 :List(Text);
  folder @3 :Text;
  buildId @4 :Data;
}
struct JobRegistered { job @0 :UInt64; caller @1 :UInt64; node @2 :UInt64; cpus @3 :UInt32; warning @4 :Text; address @5 :Text; }

struct Asker {                    # who asks the head: filled in by its node, which passes on what it asks
  job @0 :UInt64;
  caller @1 :UInt64;
  number @2 :UInt64;              # of the question, in the answer; the node's own numbers
}

struct Amount { name @0 :Text; amount @1 :Int64; }      # of a resource, in steps of 1/10000
struct GpuShare { index @0 :UInt32; amount @1 :Int64; }  # of one of the node's GPUs
struct Label { name @0 :Text; value @1 :Text; }
struct LabelRule { name @0 :Text; values @1 :List(Text); isNot @2 :Bool; }
struct Demand {                   # what somebody asks of a node, and which one
  amounts @0 :List(Amount);
  only @1 :UInt64;
  labels @2 :List(LabelRule);
  near @3 :UInt64;
  spread @4 :Bool;
  group @5 :UInt64;
  bundle @6 :Int32;               # negative: any
}
struct Holding {                  # what the code of a worker may use
  amounts @0 :List(Amount);
  gpus @1 :List(Text);            # as CUDA_VISIBLE_DEVICES names them
}

struct LeaseWorker {
  demand @0 :Demand;
  asker @1 :Asker;
  nested @2 :Bool;   # for a worker; filled in by its node
  onlyNow @3 :Bool;  # where there is room at this moment, else refused
}
struct ReturnLease { worker @0 :UInt64; caller @1 :UInt64; broken @2 :Bool; }  # caller: filled in by its node
struct RecallLeases { workers @0 :List(UInt64); count @1 :UInt32; }  # so many of these, those whose tasks end first
struct StartActor {
  actor @0 :UInt64;
  label @1 :Text;
  constructor @2 :UInt32;         # index in the program's table
  arguments @3 :Data;
  nameSpace @4 :Text;
  name @5 :Text;                  # empty: none
  type @6 :Text;                  # mangled
  maxRestarts @7 :Int32;          # negative: without end
  detached @8 :Bool;
  maxTaskRetries @9 :Int32;
  asker @10 :Asker;
  demand @11 :Demand;
  inPieces @12 :Bool;             # the arguments begin with a list of objects, as a call's payload does
  trace @13 :UInt64;              # of the constructor, also of later incarnations
  exclusive @14 :Bool;
  leaves @15 :Bool;               # a node that drains
}
struct PromiseActor {             # it will be started: the name is its own, and others have handles meanwhile
  actor @0 :UInt64;
  label @1 :Text;
  nameSpace @2 :Text;
  name @3 :Text;
  type @4 :Text;
  maxRestarts @5 :Int32;
  detached @6 :Bool;
  getIfExists @7 :Bool;           # one of that name, instead
  asker @8 :Asker;
}
struct BreakPromise { actor @0 :UInt64; why @1 :Failure; asker @2 :Asker; }  # it will not be started after all
struct KillActor {
  actor @0 :UInt64;
  asker @1 :Asker;
  gently @2 :Bool;   # the call that runs may go on, for so long
  graceMs @3 :UInt32;
  why @4 :Text;      # of a gentle end
}
struct ConnectActor { actor @0 :UInt64; seen @1 :UInt32; asker @2 :Asker; }  # seen: what the caller lost, 0 for none
struct FindActor { nameSpace @0 :Text; name @1 :Text; type @2 :Text; asker @3 :Asker; }
struct ActorFound { actor @0 :UInt64; label @1 :Text; number @2 :UInt64; }  # number: from the head, the asker's
struct HoldActor { actor @0 :UInt64; count @1 :Int32; asker @2 :Asker; }
struct ConstructActor {
  actor @0 :UInt64;
  incarnation @1 :UInt32;
  constructor @2 :UInt32;
  arguments @3 :Data;
  nameSpace @4 :Text;
  holding @5 :Holding;
  inPieces @6 :Bool;
  trace @7 :UInt64;
  exclusive @8 :Bool;
}
struct ActorConstructed { actor @0 :UInt64; incarnation @1 :UInt32; failure @2 :Failure; }  # failure: null, or what it threw
struct AddJob {
  job @0 :UInt64;
  program @1 :RegisterJob;
  node @2 :UInt64;          # its driver's
  others @3 :List(UInt64);  # nodes that may send the executable, too
}
struct EndJob { job @0 :UInt64; }
struct StopJob { job @0 :UInt64; }
struct JobStopped { job @0 :UInt64; }
struct EndCaller { caller @0 :UInt64; }
struct StartIncarnation {
  actor @0 :UInt64;
  incarnation @1 :UInt32;
  job @2 :UInt64;
  label @3 :Text;
  constructor @4 :UInt32;
  arguments @5 :Data;
  nameSpace @6 :Text;
  amounts @7 :List(Amount);
  gpus @8 :List(GpuShare);
  inPieces @9 :Bool;
  trace @10 :UInt64;
  group @11 :UInt64;              # of whose bundle the amounts are a part; none: of no group's
  bundle @12 :UInt32;
  exclusive @13 :Bool;
  mayRestart @14 :Bool;           # there is a restart left after this one
}
struct EndIncarnation {
  actor @0 :UInt64;
  incarnation @1 :UInt32;
  kill @2 :Bool;                  # at once, without a destructor
  graceMs @3 :UInt32;             # else: for the call that runs
  moves @4 :Bool;                 # it goes on elsewhere: what it has not begun goes there, too
}
struct EndWorker { graceMs @0 :UInt32; moves @1 :Bool; }
struct Beat {
  sent @0 :Int64;                 # ns, by the node's monotonic clock
  heard @1 :UInt64;               # messages of this session that the sender of this beat has heard
}
struct DrainNode { node @0 :UInt64; limitMs @1 :UInt32; number @2 :UInt64; }  # limit 0: none; number: of the question
struct IncarnationEnded { actor @0 :UInt64; incarnation @1 :UInt32; reason @2 :Text; outOfMemory @3 :Bool; }
struct ActorAlive { number @0 :UInt64; actor @1 :UInt64; incarnation @2 :UInt32; node @3 :UInt64; maxTaskRetries @4 :Int32; ended @5 :Text; address @6 :Text; outOfMemory @7 :Bool; }
struct JoinCluster {
  node @0 :UInt64;
  address @1 :Text;               # where other nodes reach it; empty: it has no workers
  amounts @2 :List(Amount);       # that it gives; nothing: it runs nothing
  labels @3 :List(Label);
  again @4 :Bool;                 # it has joined this cluster before
  session @5 :UInt64;             # that it would like to go on with; 0: none
  heard @6 :UInt64;               # messages of that session from the head
}
struct NodeLoad {
  tasks @0 :List(Amount);
  waiting @1 :List(WaitingTasks);
}
struct WaitingTasks { amounts @0 :List(Amount); workers @1 :UInt32; }
struct RowFilter { column @0 :Text; value @1 :Text; isNot @2 :Bool; }
struct ListRows {
  table @0 :Text;
  filters @1 :List(RowFilter);
  limit @2 :UInt32;
  number @3 :UInt64;
  node @4 :UInt64;                # whose table is meant; none: the head's
  passedOn @5 :Bool;              # by another node, which says that this is that one
}
struct ReadLog { node @0 :UInt64; log @1 :Text; from @2 :UInt64; most @3 :UInt32; passedOn @4 :Bool; }
struct LogPart { from @0 :UInt64; text @1 :Data; size @2 :UInt64; ended @3 :Bool; }
struct Explained { pid @0 :Int32; function @1 :Text; nanoseconds @2 :Int64; waits @3 :Text; }
struct ReadStacks { worker @0 :UInt64; }
struct Stacks { text @0 :Text; }
struct Rows { columns @0 :List(Text); rows @1 :List(List(Text)); matching @2 :UInt64; number @3 :UInt64; }
struct PlaceGroup {
  group @0 :UInt64;
  label @1 :Text;
  strategy @2 :UInt8;
  bundles @3 :List(Demand);
  asker @4 :Asker;
}
struct GroupReady { number @0 :UInt64; nodes @1 :List(UInt64); }
struct RemoveGroup { group @0 :UInt64; asker @1 :Asker; }
struct HoldBundle { group @0 :UInt64; bundle @1 :UInt32; amounts @2 :List(Amount); gpus @3 :List(GpuShare); }
struct Bundle { group @0 :UInt64; bundle @1 :UInt32; }
struct ClusterJoined {
  cpus @0 :UInt32;                # of all nodes
  lost @1 :Bool;                  # the cluster has given it up: it has not joined, and may do so as another node
  lasts @2 :Bool;                 # if the head ends, another one will go on
  session @3 :UInt64;
  resumed @4 :Bool;               # the session that the node asked for goes on
  heard @5 :UInt64;               # messages of that session from the node
}
struct Report {
  jobs @0 :List(UInt64);          # of other nodes' drivers
  callers @1 :List(ReportedCaller);
  holds @2 :List(ReportedHold);
  incarnations @3 :List(ReportedIncarnation);
  bundles @4 :List(Bundle);       # that it has set aside, or will
  unheld @5 :List(Bundle);        # of those: tasks have what they need
  lent @6 :List(ReportedLease);   # its workers, to callers of other nodes
  borrowed @7 :List(UInt64);      # other nodes' workers
  more @8 :Bool;                  # another one follows
}
struct ReportedCaller { caller @0 :UInt64; job @1 :UInt64; }
struct ReportedHold { caller @0 :UInt64; actor @1 :UInt64; count @2 :Int64; }
struct ReportedIncarnation { actor @0 :UInt64; incarnation @1 :UInt32; constructed @2 :Bool; }
struct ReportedLease { worker @0 :UInt64; caller @1 :UInt64; job @2 :UInt64; }
struct Share { node @0 :UInt64; amounts @1 :List(Amount); gpus @2 :List(GpuShare); }  # what somebody has of a node
struct ActorLife {
  actor @0 :UInt64;
  incarnation @1 :UInt32;
  restarts @2 :UInt32;
  backoff @3 :UInt32;
  waits @4 :Bool;                 # for its restart
  has @5 :Share;                  # its process; without a node: it has none
  group @6 :UInt64;               # of whose bundle that is a part
  bundle @7 :UInt32;
  over @8 :Failure;               # null, or why it ended for good
  label @9 :Text;                 # of one that ended for good, as the job is
  job @10 :UInt64;
  lastEnd @11 :Text;              # of the incarnation before
  outOfMemory @12 :Bool;          # that was why
}
struct GroupPlaces { group @0 :UInt64; places @1 :List(Share); removed @2 :Bool; }  # removed: actors have some still
struct LeaseGranted { number @0 :UInt64; worker @1 :UInt64; node @2 :UInt64; address @3 :Text; }  # address: empty for the head's
struct Refused { number @0 :UInt64; failure @1 :Failure; }
struct WorkerReady { worker @0 :UInt64; actor @1 :UInt64; incarnation @2 :UInt32; pid @3 :Int32; maxTaskRetries @4 :Int32; remote @5 :Bool; ended @6 :Text; outOfMemory @7 :Bool; }
struct WorkerEnded { worker @0 :UInt64; reason @1 :Text; outOfMemory @2 :Bool; }   # one that ran tasks
struct Output { label @0 :Text; pid @1 :Int32; error @2 :Bool; lines @3 :Data; report @4 :Bool; job @5 :UInt64; last @6 :Bool; }
struct Stop {}

struct StoreOpened { table @0 :UInt32; }
struct LeaseSlab { slotBytes @0 :UInt64; }
struct SlabLeased { offset @0 :UInt64; slotBytes @1 :UInt64; firstSlot @2 :UInt32; slots @3 :UInt32; }
struct ReturnSlab { firstSlot @0 :UInt32; }
struct Object { slot @0 :UInt32; generation @1 :UInt32; maker @2 :UInt64; number @3 :UInt64; owner @4 :UInt64; node @5 :UInt64; }
struct ObjectClaimed { size @0 :UInt64; label @1 :Text; elsewhere @2 :Object; }  # elsewhere: its node, which is to be asked
struct FindNode { node @0 :UInt64; number @1 :UInt64; }
struct NodeFound { number @0 :UInt64; address @1 :Text; }  # as in actorAlive

struct ZygoteReady { buildId @0 :Data; functions @1 :UInt32; cannotFork @2 :Text; }
struct ForkWorker { worker @0 :UInt64; variables @1 :List(Text); }  # "NAME=value", set before user code runs
struct WorkerForked { worker @0 :UInt64; pid @1 :Int32; }
struct WorkerReaped { worker @0 :UInt64; status @1 :Int32; crashed @2 :Bool; }
struct WorkerCrashed { worker @0 :UInt64; headline @1 :Text; report @2 :Text; }
struct WorkerBlocked { blocked @0 :Bool; }
struct ServeCaller {
  caller @0 :UInt64;
  actor @1 :UInt64;
  incarnation @2 :UInt32;
  remote @3 :Bool;                # as in WorkerReady
  holding @4 :Holding;            # of its tasks; an actor has its own
}

struct Inspect { asker @0 :Asker; }
struct Inspected {
  total @0 :List(Amount);         # of the node
  inUse @1 :List(Amount);
  cluster @4 :List(Amount);       # of all nodes
  workers @2 :List(InspectedWorker);
  number @3 :UInt64;
  store @5 :InspectedStore;       # for a driver without a job
}
struct InspectedStore {
  capacity @0 :UInt64;
  used @1 :UInt64;
  idle @2 :UInt64;
  onDisk @3 :UInt64;
  objects @4 :UInt64;
  largest @5 :List(InspectedObject);
  processes @6 :List(InspectedProcess);
}
struct InspectedObject {
  maker @0 :UInt64;
  number @1 :UInt64;
  size @2 :UInt64;
  label @3 :Text;
  sealed @4 :Bool;
  out @5 :Bool;
  copied @7 :Bool;
  uses @6 :List(ObjectUse);
}
struct ObjectUse { process @0 :UInt64; holds @1 :Bool; reads @2 :Bool; }
struct InspectedProcess { caller @0 :UInt64; pid @1 :Int32; label @2 :Text; }
struct InspectedWorker {
  worker @0 :UInt64;
  actor @1 :UInt64;
  label @2 :Text;
  state @3 :Text;
  pid @4 :Int32;
  answered @5 :Bool;              # what follows is known
  function @6 :UInt32;            # that it runs
  nanoseconds @7 :Int64;          # for so long
  caller @8 :UInt64;              # whose call that is
  number @9 :UInt64;
  waits @10 :List(PendingResult);
  amounts @11 :List(Amount);      # that it holds
  elsewhere @12 :Text;            # which other node it is on; empty: here, or nowhere
  mayRunAgain @13 :Bool;          # what runs, where a worker dies
}
struct PendingResult {
  argumentOf @0 :Int32;           # which of the results beside it; -1: a thread waits for it
  stage @1 :UInt8;
  function @2 :UInt32;
  actor @3 :UInt64;
  label @4 :Text;
  worker @5 :UInt64;
  number @6 :UInt64;
  thread @7 :Int32;
  inside @8 :UInt32;
  amounts @9 :List(Amount);       # that a task asks for
}
