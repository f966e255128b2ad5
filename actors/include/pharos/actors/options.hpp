#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <pharos/actors/placement_group.hpp>
#include <pharos/actors/thrown.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>

// TaskOptions, ActorOptions and Bundle each have the fields for resources. They do not inherit them from one struct: a
// designated initialiser cannot name a field of a base, and `{.gpus = 1}` is what programs write.

namespace pharos {

using async::Deadline;

/// How one task is run: `runtime.submit<&f>({.max_retries = 3}, arguments…)`.
///
/// The task holds its resources (`cpus`, `gpus`, `memory`, `resources`) while it runs, and waits until a node has them
/// free. If no node could ever have them, or an option makes no sense, its Ref throws InvalidArgument. A value, as the
/// other options here.
struct TaskOptions {
  /// CPUs that the task holds. While it waits in get() for other results, its node lends these CPUs to other tasks.
  ///
  /// OpenMP and libtorch compute with as many threads as the task or the actor has whole CPUs, and at least with one.
  /// Another number that an actor sets itself (omp_set_num_threads(), torch::set_num_threads()) stays for its later
  /// calls. The number is not set in a process that has the variable OMP_NUM_THREADS, for OpenMP in threads that user
  /// code starts, and for libraries that the program loads by dlopen().
  double cpus = 1;
  /// A share of one GPU (0.5), or a whole number of GPUs. The process sees only these GPUs, in CUDA_VISIBLE_DEVICES;
  /// with 0 it sees none.
  double gpus = 0;
  /// The most memory that the task is expected to use: `.memory = 2_GiB`. A node runs at once only as many tasks and
  /// actors as its memory is enough for. A task may use more, but when the node runs short of memory it kills workers,
  /// and their tasks fail with Exhausted.
  ByteCount memory{};
  /// Other resources, which nodes declare in PHAROS_RESOURCES: {{"fast_disk", 1}}.
  std::map<std::string, double> resources{};
  /// Rules that the labels of the node (PHAROS_LABELS) must satisfy: {{"zone", "in(a, b)"}, {"disk", "!ssd"}}.
  std::map<std::string, std::string> labels{};
  /// The only node on which the task may run. If that node is gone, the Ref throws InvalidArgument.
  NodeId node{};
  /// The preferred node, which the task gets if that node has room. If neither this nor `node`, `prefer` or `spread` is
  /// set, it is the node where most bytes of the task's large arguments lie: of Refs, and of views on stored objects.
  NodeId near{};
  /// Rules about labels that the node should satisfy, the most important ones first. The task goes to a node that
  /// satisfies the first rules and has room, else to one that satisfies the second ones, else to any:
  /// {{{"gpu_type", "H200"}}, {{"zone", "a"}}}. `near` counts more.
  std::vector<std::map<std::string, std::string>> prefer{};
  /// If true, the task goes to the node of which the least is in use. If false, nodes are filled up to one half, one
  /// after the other, beginning with the node of the caller, before any of them gets more. In both cases nodes with
  /// GPUs are used last, unless GPUs are asked for.
  bool spread = false;
  /// If no node of the cluster could ever run the task: how long it waits for a node that can and joins. With 0 the Ref
  /// throws InvalidArgument at once.
  Duration wait_for_nodes{};
  /// The task takes its resources from this group: from bundle number `bundle`, or from any bundle if that is negative.
  /// It waits until a bundle has them free. `labels`, `node`, `near`, `prefer`, `spread` and `wait_for_nodes` are then
  /// ignored. The group lasts at least until the task has ended. If it is removed before the task has begun, the Ref
  /// throws NotFound.
  PlacementGroup group{};
  std::int32_t bundle = -1;
  /// Variables of the environment of the process that runs the task, beside those of the program and in their place:
  /// {{"OMP_NUM_THREADS", "4"}}. The program is loaded anew with them, once on each node, so libraries see them from
  /// their start. A node has at most 8 such environments at a time; a task with another one waits until none of the
  /// processes of one of them lives.
  std::map<std::string, std::string> env{};
  /// After this moment the Ref throws DeadlineExceeded. A task that has not begun then does not begin, and one that
  /// runs sees pharos::cancelled(). Calls that the task makes have no later deadline.
  Deadline deadline = Deadline::never();
  /// How often the task is run again, at most 254 times, or always if negative: when the worker that ran it dies, and
  /// when it throws one of `retry_on`. It may then run more than once. Runs for `retry_on` in a worker that then dies
  /// are not counted, because the caller does not know of them.
  std::int32_t max_retries = 0;
  /// When the task throws an exception of one of these types, the same worker runs it again:
  /// `.retry_on = pharos::types<Flaky>`.
  ExceptionTypes retry_on{};
};

/// How an actor is made: `runtime.spawn<T>({.name = "counter", .cpus = 1}, arguments…)`.
///
/// The actor holds its resources (`cpus`, `gpus`, `memory`, `resources`) as long as its process lives. Until a node has
/// them free, the actor has no process, and its calls wait. Actors that wait get resources in the order in which they
/// asked, and a later actor may take what the earlier ones cannot use. If no node could ever have the resources, the
/// calls throw InvalidArgument. If an option makes no sense (a negative amount, a name that is too long), spawn()
/// itself throws InvalidArgument. When the process dies and the actor restarts, it asks for the resources again.
struct ActorOptions {
  /// The actor's name in messages and logs, by which Runtime::actor() finds it. A namespace has at most one living
  /// actor of a name; the calls of a second one throw AlreadyExists. At most 256 bytes. If empty, messages use the name
  /// of the type, and the actor cannot be found.
  std::string name{};
  /// The namespace of the name. If empty, only this program finds the actor.
  std::string name_space{};
  /// If true and an actor of this name exists, spawn() returns a handle of that actor and makes no new one. spawn()
  /// then waits for the answer of the node. If the existing actor is of another type, the calls throw InvalidArgument;
  /// if it is of another build of the program, they throw FailedPrecondition.
  bool get_if_exists = false;
  /// CPUs that the actor holds, and with which it computes: see TaskOptions::cpus. With 0 it computes with one thread.
  double cpus = 0;
  /// A share of one GPU (0.5), or a whole number of GPUs. The process sees only these GPUs, in CUDA_VISIBLE_DEVICES;
  /// with 0 it sees none.
  double gpus = 0;
  /// The most memory that the actor is expected to use, as in TaskOptions::memory.
  ByteCount memory{};
  /// Other resources, which nodes declare in PHAROS_RESOURCES: {{"fast_disk", 1}}.
  std::map<std::string, double> resources{};
  /// Rules that the labels of the node (PHAROS_LABELS) must satisfy: {{"zone", "in(a, b)"}, {"disk", "!ssd"}}.
  std::map<std::string, std::string> labels{};
  /// The only node on which the actor may run. If that node is gone, the calls throw InvalidArgument.
  NodeId node{};
  /// The preferred node, as in TaskOptions::near, with the arguments of the constructor.
  NodeId near{};
  /// Rules about labels that the node should satisfy, as in TaskOptions::prefer.
  std::vector<std::map<std::string, std::string>> prefer{};
  /// If true, the actor goes to the node of which the least is in use. If false, nodes are filled up to one half, one
  /// after the other, beginning with the node of the caller, before any of them gets more. In both cases nodes with
  /// GPUs are used last, unless GPUs are asked for.
  bool spread = false;
  /// If no node of the cluster could ever run the actor: how long each process of it waits for a node that can and
  /// joins. With 0 the calls throw InvalidArgument at once.
  Duration wait_for_nodes{};
  /// The actor takes its resources from this group: from bundle number `bundle`, or from any bundle if that is
  /// negative. `labels`, `node`, `near`, `prefer`, `spread` and `wait_for_nodes` are then ignored.
  PlacementGroup group{};
  std::int32_t bundle = -1;
  /// Variables of the environment of the actor's process, as in TaskOptions::env. If its node has no room for another
  /// environment, that process counts as one that has died.
  std::map<std::string, std::string> env{};
  /// How often a new process takes over when the actor's process dies; negative for always. The new process constructs
  /// the object again, from the same arguments. Restarts that follow each other closely wait: 100 ms at first, then
  /// longer each time, up to 10 s.
  std::int32_t max_restarts = 0;
  /// How often a call that was under way when the process died is sent to the next process. It may then run more
  /// than once. At most 254; negative for always.
  std::int32_t max_task_retries = 0;
  /// If true, the actor lives without handles and after the end of its program, until it is killed or stopped, or the
  /// cluster ends. Other programs of the same build find it by its namespace and name; programs of other builds, too,
  /// as a ForeignActor.
  bool detached = false;
  /// If true, two processes of this actor never run at once, wherever the network is cut: a process that has heard
  /// nothing from the head for 8 s ends itself, before the head may start another one elsewhere. So the actor does not
  /// outlive a head that is away for longer.
  bool exclusive = false;
  /// If true, the actor is stopped, as by Actor::stop(), when its node drains (`pharos drain`). If false, the node
  /// waits until the actor ends by itself, or until the time limit of the drain. An actor that may be restarted leaves
  /// the node in both cases.
  bool leave_on_drain = false;
};

/// How one call of an actor is made: `actor.call<&T::m>({.deadline = …}, arguments…)`.
struct CallOptions {
  /// As TaskOptions::deadline. It also limits the time that call() waits for room in a full queue.
  Deadline deadline = Deadline::never();
  /// If true, the call need not wait for earlier calls whose arguments are not ready.
  bool unordered = false;
  /// How often the call is run again when it throws one of `retry_on`: at most 254 times, or always if negative. How
  /// often it is sent again when the actor's process dies is said by ActorOptions::max_task_retries.
  std::int32_t max_retries = 0;
  /// When the call throws an exception of one of these types, it is run again in its place: later calls of the same
  /// caller wait for it.
  ExceptionTypes retry_on{};
};

/// The answer of context(): where code runs, and for which call. A value.
struct Context {
  JobId job{};
  NodeId node{};
  WorkerId worker{};                      ///< empty in a program
  ActorId actor{};                        ///< empty in a program and in a task
  std::uint32_t incarnation = 0;          ///< number of the actor's process, from 1
  bool restarted = false;                 ///< this is not the actor's first incarnation
  std::string name_space{};               ///< namespace of names that give none; in an actor, the actor's own namespace
  std::uint32_t attempt = 0;              ///< how often the running call was run or sent before
  TraceId trace{};                        ///< the call tree of the running call; empty outside of calls
  Deadline deadline = Deadline::never();  ///< deadline of the running call
  double cpus = 0;                        ///< CPUs that the task or actor holds
  std::vector<std::string> gpus{};        ///< GPUs that it sees, as CUDA_VISIBLE_DEVICES names them
  ByteCount memory{};                     ///< memory that it has asked for
  std::map<std::string, double> resources{};  ///< other resources that it holds
};

}  // namespace pharos
