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
#include <pharos/actors/cluster_node.hpp>
#include <pharos/actors/foreign_actor.hpp>
#include <pharos/actors/function.hpp>
#include <pharos/actors/key_values.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/actors/placement_group.hpp>
#include <pharos/actors/ref.hpp>
#include <pharos/actors/runtime_options.hpp>
#include <pharos/actors/worker_output.hpp>
#include <pharos/actors/writable.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/id.hpp>

namespace pharos {

template <class T>
class ActorGroup;
struct ActorGroupOptions;

namespace detail {
class Driver;

/// Returns this thread's encoder for the next value to put. encode_ready() empties it before each use. A large value is
/// written to the store of `caller`, which must exist until the value is put.
PHAROS_API Encoder& scratch_value(Caller& caller, CallSite site);

/// An extent of an array, and the place in the program where it was written. A value.
struct SitedExtent {
  template <std::integral T>
  SitedExtent(T extent, CallSite written_at = CallSite::here())
      : size{static_cast<std::size_t>(extent)}, site{written_at} {}
  std::size_t size;
  CallSite site;
};
}  // namespace detail

/// A program's connection to a cluster. The constructor joins the cluster that the options or the environment name, or
/// starts one for this program alone. The program owns it. Any thread may use it. A program may have several Runtimes,
/// one after the other or at once.
/// Failure: the constructor throws if there is no cluster to join or start: Unavailable, PermissionDenied, NotFound (no
/// `pharos` executable or no socket), InvalidArgument (an address that is none), DeadlineExceeded (the node is not
/// ready after 60 s), FailedPrecondition (the program was linked without the start object). spawn(), spawn_group() and
/// reserve() throw InvalidArgument for options that make no sense. What goes wrong with a task or a call is the error
/// of its Ref. When the node dies, everything fails with RuntimeStopped.
/// End: all that it started ends with it, but for detached actors. Handles may outlive it. exit() ends a Runtime that
/// is still there, unless one of the Runtime's own threads calls exit().
/// In a worker, a Runtime stands for the worker's own connection to its cluster: the options are ignored, and what it
/// started ends with the worker.
/// A child of fork() cannot use the Runtime of its parent (RuntimeStopped), but may make its own. There the destructor
/// of the parent's Runtime does nothing. A Runtime that was moved from may only be destroyed or assigned to.
class PHAROS_API Runtime {
 public:
  Runtime() : Runtime(RuntimeOptions{}) {}
  explicit Runtime(const RuntimeOptions& options);
  /// The arguments `--pharos-address=VALUE`, `--pharos-token-file=VALUE` and `--pharos-listen=VALUE` replace the values
  /// in the options. Other arguments are ignored, and all of them stay in place.
  Runtime(int argc, char** argv, const RuntimeOptions& options = {});
  Runtime(Runtime&&) noexcept;
  /// Exchanges the two: the Runtime that this object had ends with the other object.
  Runtime& operator=(Runtime&&) noexcept;
  /// Does not wait for tasks and calls: get() the results that are needed first. Refs that are pending get the error
  /// RuntimeStopped. Callbacks (Ref::then()) of results that have come before still run, and the destructor waits for
  /// them without a limit. It also waits up to 10 s for the node and as long for the cluster's keeper, and prints the
  /// last output of the workers. A callback must not destroy its Runtime. In a worker the destructor does nothing.
  ~Runtime();

  /// Runs a function as a task in a worker process: `runtime.submit<&add>(1, 2)`. Returns at once, unless the node must
  /// first give memory for a large argument (more than 100 KiB); the task waits in this process until a worker is free.
  /// An argument may be a Ref: the task then waits until that result is ready.
  ///
  /// The template argument names the function. It may be a function or a static method (`overload` chooses one of
  /// several), an instance of a template, a lambda that captures nothing, or a constant function object.
  ///
  /// The Ref throws all errors: InvalidArgument for options that make no sense or an argument that cannot be encoded,
  /// Exhausted if the object store has no room for an argument. It throws Overloaded if 4 million tasks with the same
  /// options for resources and nodes wait already, or if the program has used more than 256 different combinations of
  /// these options.
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
  /// Stops the compiler: the function must be named as a template argument, not passed as an argument.
  template <class... Args>
  void submit(Args&&...) const {
    detail::refuse_callee_as_argument<Args...>();
  }

  /// Constructs a T in a worker process of its own: `runtime.spawn<Counter>(10)`. Returns at once. If the constructor
  /// throws, the actor's calls throw ActorDied with that reason, or the exception itself if T declares its type (see
  /// pharos::throws). spawn() itself throws InvalidArgument for a name or resources that make no sense,
  /// FunctionNotFound if T's library was loaded after the start of the program, and RuntimeStopped in a child of
  /// fork().
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

  /// Returns a handle of the actor with this name; waits for the answer of the node. If `name_space` is empty, the name
  /// is looked up among the actors of this program. Throws NotFound, InvalidArgument if the actor is of another type,
  /// FailedPrecondition if another build of the program made it (foreign_actor() returns also that), or RuntimeStopped.
  template <class T>
  Actor<T> actor(const std::string& name, const std::string& name_space = {}) {
    return Actor<T>{find_actor(name, name_space, typeid(T).name())};
  }

  /// The same for an actor whose program may be of another build, and of whose class this program may know nothing. Its
  /// methods are named by name and types: `runtime.foreign_actor("counter", "shop").method<int(int)>("add").call(1)`.
  ForeignActor foreign_actor(const std::string& name, const std::string& name_space = {}) {
    return ForeignActor{find_actor(name, name_space, "")};
  }

  /// Makes a Ref of a value, which may then be an argument of many calls. A value of more than 100 KiB is written to
  /// the object store once, and stays there until the last Ref is gone. Its Ref travels without the value. Bytes and
  /// views (SharedSpan) that get() returns, or that a function receives, refer to the stored object, without a copy.
  /// Waits until the Refs that the value holds are ready. Throws Exhausted if the store is full. If the value cannot be
  /// encoded, the Ref throws InvalidArgument. The Ref may outlive the Runtime.
  template <class T>
  Ref<T> put(const T& value, CallSite site = CallSite::here()) {
    detail::check_travels<T>();
    Encoder& encoded = detail::scratch_value(*caller_, site);
    detail::encode_when_ready(value, encoded);
    return Ref<T>{put_encoded(encoded)};
  }

  /// Makes an array in the object store, which the program fills in place (see Writable): `create<float>(rows,
  /// columns)`. With several extents its value is a SharedArray, which knows them; with one it is a SharedSpan. May
  /// wait for the node. Throws Exhausted if the store is full.
  template <class T, class... Extents>
  Writable<T, 1 + sizeof...(Extents)> create(detail::SitedExtent first, Extents... others) {
    return {*caller_, {first.size, static_cast<std::size_t>(others)...}, first.site};
  }
  Writable<std::byte> create_bytes(detail::SitedExtent size) { return create<std::byte>(size); }

  /// Sets resources aside for actors that are made later, all of them or none:
  /// `runtime.reserve({.bundles = {{.gpus = 1}, {.gpus = 1}}, .strategy = Strategy::kStrictSpread})`. Returns at once;
  /// PlacementGroup::nodes() waits for the resources. Throws InvalidArgument for a name or an amount that makes no
  /// sense.
  PlacementGroup reserve(const GroupOptions& options);

  /// Constructs several T, all of them or none, each in a process of its own, from the same arguments:
  /// `runtime.spawn_group<Trainer>({.size = 8, .member = {.gpus = 1}}, config)`. Returns at once; ActorGroup::ready()
  /// waits for the members. Throws InvalidArgument if there are no members or the options make no sense.
  template <class T, class... Args>
  ActorGroup<T> spawn_group(const ActorGroupOptions& options, Args&&... args);

  template <class T>
  void kill(const Actor<T>& actor) {
    actor.kill();
  }

  /// From now on `listener` gets everything that this program's workers print, as long as the program keeps the
  /// shared_ptr; one call may still run after that. Does nothing in a worker, because the output of workers goes to the
  /// program.
  void listen_to_output(const std::shared_ptr<const OutputListener>& listener);

  /// The nodes of the cluster that offer resources, in the order of their ids, as the head knows them now. Waits for
  /// the head's answer, also while the head is away. Throws RuntimeStopped.
  std::vector<ClusterNode> nodes() const;
  /// What all nodes have together, but those that are silent or drain. Waits and throws like nodes().
  ClusterResources resources() const;

  /// The key-value store of the cluster. All programs share the keys of a name space.
  KeyValues kv(std::string name_space = {}) const { return {caller_, std::move(name_space)}; }

  JobId job() const;
  /// The address of the daemon that serves this program, for tests and for people who inspect the cluster.
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
  std::shared_ptr<detail::Driver> driver_;  // null in a worker
};

/// Returns whether somebody has asked to cancel the call that this thread runs (Ref::cancel()), or whether its caller
/// has given it up at its deadline. Returns false in a thread that runs no call.
PHAROS_API bool cancelled();

/// Returns whether the worker was told to end, as by Actor::stop(), and waits for the call that this thread runs.
/// Returns false in a thread that runs no call.
PHAROS_API bool stopping();
/// For the methods of an actor: ends the actor for good, as Actor::stop() does with a grace of 30 s, once the running
/// call has returned. The actor's destructor runs, and calls behind this one throw ActorDied. Throws FailedPrecondition
/// where no method of an actor runs. Does not wait; a second call of it does nothing.
PHAROS_API void exit_actor();

/// Describes where this code runs, and for which call. In a thread that an actor's code has started, everything is as
/// in the actor's methods, except the fields that describe a call. In a program, it has the job, node and namespace of
/// the newest Runtime, and is empty while there is no Runtime.
PHAROS_API Context context();

}  // namespace pharos
