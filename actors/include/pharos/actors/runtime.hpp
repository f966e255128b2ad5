#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/call_site.hpp>
#include <pharos/actors/function.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/actors/placement_group.hpp>
#include <pharos/actors/ref.hpp>
#include <pharos/actors/worker_output.hpp>
#include <pharos/actors/writable.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/id.hpp>

namespace pharos {

template <class T>
class ActorGroup;
struct ActorGroupOptions;

struct RuntimeOptions {
  /// The cluster to join: "unix:/path/node.sock". Empty: PHAROS_ADDRESS, and without that a cluster of this program's
  /// own, which ends with it.
  std::string address{};
  /// The cluster's token, 32 bytes in a file of mode 0600. Empty: PHAROS_TOKEN_FILE, else "token" beside the socket.
  std::string token_file{};
  /// Where the program's own cluster listens besides its Unix socket: "127.0.0.1:7000". Empty: nowhere.
  std::string listen{};
  /// How much memory large values may take at once in the program's own cluster. 0: half of what the machine has, or
  /// the cgroup allows.
  ByteCount object_store{};
  /// Where large values go that have no room there, to come back when they are read: a folder on a disk. Empty:
  /// PHAROS_SPILL_FOLDER, else /var/tmp. "none": nowhere, and a full store is an error (Exhausted).
  std::string spill_folder{};
  /// CPUs that its tasks may use at once. 0: as many as this process may.
  std::uint32_t cpus = 0;
  /// A line that several workers print alike is shown once, and how often it came back is told every five seconds.
  /// PHAROS_FOLD_OUTPUT=0 in the environment shows every line. Lines of numbers alone are always shown.
  bool fold_output = true;
};

struct ActorOptions {
  /// What it is called in messages and logs, and how others find it (Runtime::actor()): one actor of a namespace has a
  /// name at a time. Empty: its type, and nobody finds it.
  std::string name{};
  /// Where its name counts. Empty: in this program alone.
  std::string name_space{};
  /// The actor of that name, if there is one, instead of a new one.
  bool get_if_exists = false;
  /// What it holds as long as its process lives. Its calls wait until a node has that much left, first come first
  /// served; what no node could ever give is refused. When its process dies it asks anew.
  double cpus = 0;
  /// A share of one GPU (0.5), or so many whole ones. It sees those alone, in CUDA_VISIBLE_DEVICES, and none without.
  double gpus = 0;
  /// What it is expected to use at most, as for a task.
  ByteCount memory{};
  /// What else a node has by its PHAROS_RESOURCES: {{"fast_disk", 1}}.
  std::map<std::string, double> resources{};
  /// What has to be true of its node's labels (PHAROS_LABELS): {{"zone", "in(a, b)"}, {"disk", "!ssd"}}.
  std::map<std::string, std::string> labels{};
  /// On this node and no other. When that is gone it is refused.
  NodeId node{};
  /// On this node, if it has room: what it needs lies there.
  NodeId near{};
  /// On the node of which the least is in use. Else nodes are filled to the half, one after the other, before more goes
  /// to any of them; those with GPUs last, unless they are asked for.
  bool spread = false;
  /// It has a part of what this group has: of that bundle, or of any. Then labels, node, near and spread say nothing.
  PlacementGroup group{};
  std::int32_t bundle = -1;
  /// How often a new process takes over when its own dies: it is constructed anew, from the same arguments. Negative:
  /// always. Restarts that follow each other closely wait, longer each time.
  std::int32_t max_restarts = 0;
  /// How often a call that was on its way when the process died is sent again. It may then run twice.
  std::int32_t max_task_retries = 0;
  /// Lives without handles and without its program, until it is killed or stopped, or the cluster ends. Other programs
  /// of the same build find it by its name.
  bool detached = false;
  /// Never twice at once, wherever the network is cut: its process ends when it has not heard from the head for 8 s,
  /// before another one may be started elsewhere. So it does not outlive a head that is away for longer.
  bool exclusive = false;
  /// When its node is to be empty (pharos drain), it is stopped there, as by Actor::stop(): it need not stay until it
  /// ends by itself. One that may be restarted leaves in any case.
  bool leave_on_drain = false;
};

namespace detail {
class Driver;

/// This thread's next value to put; emptied by each use.
PHAROS_API Encoder& scratch_value(Caller& caller, CallSite site);

/// An extent, and where in the program it was written.
struct SitedExtent {
  template <std::integral T>
  SitedExtent(T extent, CallSite written_at = CallSite::here())
      : size{static_cast<std::size_t>(extent)}, site{written_at} {}
  std::size_t size;
  CallSite site;
};
}  // namespace detail

/// This program's place in a cluster: joins the one that it was started for, or starts one of its own.
/// Everything that it started ends with it. Any thread may use it; there may be several, in turn or at once.
/// Made by code that runs in a worker, it is the worker's place in the cluster that the worker belongs to: options are
/// not looked at, and what it started ends with the worker.
/// A child of fork() cannot use its parent's (RuntimeStopped), but may make its own.
class PHAROS_API Runtime {
 public:
  Runtime() : Runtime(RuntimeOptions{}) {}
  explicit Runtime(const RuntimeOptions& options);
  /// Takes `--pharos-address`, `--pharos-token-file` and `--pharos-listen` (with `=VALUE`) over the options, and leaves
  /// the other arguments alone.
  Runtime(int argc, char** argv, const RuntimeOptions& options = {});
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  /// Waits for nothing that was submitted: get() first what is needed.
  ~Runtime();

  /// Runs a function in a worker process: `runtime.submit<&add>(1, 2)`. Returns at once: the task waits here for a
  /// worker. With 4 million tasks that wait, the Ref of the next one throws Overloaded. A Ref may stand for an
  /// argument: the task waits until its result is there. What may be named: functions and static methods, one of
  /// several by `overload`, instances of templates, lambdas that capture nothing, objects that are constants.
  template <auto F, class... Args>
  requires(!detail::kBeginsWith<TaskOptions, Args...>) Ref<detail::ResultOf<F>> submit(Args&&... args) {
    return submit<F>(TaskOptions{}, std::forward<Args>(args)...);
  }
  template <auto F, class... Args>
  Ref<detail::ResultOf<F>> submit(const TaskOptions& options, Args&&... args) {
    using Function = detail::TaskFunction<F>;
    detail::Arguments& arguments = detail::scratch_arguments(*caller_, *Function::registered);
    Function::encode(arguments, std::forward<Args>(args)...);
    return Ref<detail::ResultOf<F>>{submit_encoded(options, *Function::registered, arguments)};
  }
  /// What is called is named, not passed.
  template <class... Args>
  void submit(Args&&...) const {
    detail::refuse_callee_as_argument<Args...>();
  }

  /// Makes a T in a worker process of its own: `runtime.spawn<Counter>(10)`. Returns at once; what its constructor
  /// throws, its calls throw.
  template <class T, class... Args>
  requires(!detail::kBeginsWith<ActorOptions, Args...>) Actor<T> spawn(Args&&... args) {
    return spawn<T>(ActorOptions{}, std::forward<Args>(args)...);
  }
  template <class T, class... Args>
  Actor<T> spawn(const ActorOptions& options, Args&&... args) {
    using Function = detail::ConstructorFunction<T, detail::SentArgument<Args>...>;
    detail::Arguments& arguments = detail::scratch_arguments(*caller_, *Function::registered);
    Function::encode(arguments, std::forward<Args>(args)...);
    return Actor<T>{spawn_encoded(options, typeid(T).name(), *Function::registered, arguments)};
  }

  /// The actor of that name. Throws NotFound, or InvalidArgument if it is none of that type.
  template <class T>
  Actor<T> actor(const std::string& name, const std::string& name_space = {}) {
    return Actor<T>{find_actor(name, name_space, typeid(T).name())};
  }

  /// A value that is there, as a Ref: to be an argument again and again. One that takes more than 100 KiB lies in the
  /// object store until the last Ref is gone: it is written there once, its Ref travels without it, and Bytes and views
  /// (SharedSpan) that get() gives, or that a function receives, are the object itself. A full store throws Exhausted.
  /// Waits for the Refs that the value holds.
  template <class T>
  Ref<T> put(const T& value, CallSite site = CallSite::here()) {
    detail::check_travels<T>();
    Encoder& encoded = detail::scratch_value(*caller_, site);
    detail::encode_when_ready(value, encoded);
    return Ref<T>{put_encoded(encoded)};
  }

  /// Elements in the object store that are to be filled where they lie (see Writable): as many as the product of the
  /// extents, row by row. A full store throws Exhausted.
  template <class T, class... Extents>
  Writable<T> create(detail::SitedExtent first, Extents... others) {
    std::size_t size = first.size;
    ((size = detail::saturating_product(size, static_cast<std::size_t>(others))), ...);
    return Writable<T>{*caller_, size, first.site};
  }
  Writable<std::byte> create_bytes(detail::SitedExtent size) { return create<std::byte>(size); }

  /// Sets resources aside for actors that come, all together or not at all:
  /// `runtime.reserve({.bundles = {{.gpus = 1}, {.gpus = 1}}, .strategy = Strategy::kStrictSpread})`. Returns at once.
  PlacementGroup reserve(const GroupOptions& options);

  /// Makes several T, together or not at all, each in a process of its own, from the same arguments:
  /// `runtime.spawn_group<Trainer>({.size = 8, .member = {.gpus = 1}}, config)`. Returns at once.
  template <class T, class... Args>
  ActorGroup<T> spawn_group(const ActorGroupOptions& options, Args&&... args);

  template <class T>
  void kill(const Actor<T>& actor) {
    actor.kill();
  }

  /// Is given what this program's workers print, as long as somebody has it. In a worker: nothing, since that goes to
  /// the program.
  void listen_to_output(const std::shared_ptr<const OutputListener>& listener);

  JobId job() const;
  /// Of the cluster's daemon; for tests and for people who look at it.
  std::string address() const;

 private:
  detail::CellHandle put_encoded(const Encoder& value);
  detail::CellHandle submit_encoded(const TaskOptions& options, const detail::RegisteredFunction& function,
                                    detail::Arguments& arguments);
  std::shared_ptr<detail::ActorHandle> spawn_encoded(const ActorOptions& options, const char* type_name,
                                                     const detail::RegisteredFunction& constructor,
                                                     detail::Arguments& arguments);
  std::shared_ptr<detail::ActorHandle> find_actor(const std::string& name, const std::string& name_space,
                                                  const char* type_name);

  std::shared_ptr<detail::Caller> caller_;
  std::shared_ptr<detail::Driver> driver_;  // none in a worker
};

/// Inside of a call that runs in a worker: whether somebody has asked for it to stop. False elsewhere.
PHAROS_API bool cancelled();

/// The same: whether the worker is told to end, as by Actor::stop(), and waits for the call.
PHAROS_API bool stopping();
/// In a method: this actor ends for good when the call has come back, after its destructor; calls behind it throw
/// ActorDied. Throws FailedPrecondition elsewhere.
PHAROS_API void exit_actor();

/// Where this code runs, and for whom. In a thread that an actor has started: as in its methods, but for what is of a
/// call. In a program: the job, node and namespace of its Runtime, the newest if it has several; empty before and
/// after.
PHAROS_API Context context();

}  // namespace pharos
