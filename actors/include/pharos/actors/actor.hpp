#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <pharos/actors/function.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/actors/ref.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>

namespace pharos {

namespace detail {

class ActorHandle;
class Caller;

/// Returns this thread's Arguments, emptied, for its next call of this actor; or for the next task or constructor that
/// it asks this Caller for. The thread owns them, and its next call of one of these functions empties them. They may
/// write large arguments to the store of `actor` or `caller`, which must exist until then. The function that takes them
/// calls let_go() on them afterwards.
PHAROS_API Arguments& scratch_arguments(const ActorHandle& actor, const RegisteredFunction& function);
PHAROS_API Arguments& scratch_arguments(Caller& caller, const RegisteredFunction& function);

/// The following functions do what the members of Actor say, on any thread. call_actor(), try_call_actor() and
/// send_to_actor() throw RuntimeStopped if the Caller is gone; all other failures of a call are the error of its cell.
PHAROS_API CellHandle call_actor(const ActorHandle& actor, const CallOptions& options,
                                 const RegisteredFunction& function, Arguments& arguments);
/// The error that it returns is always kOverloaded; then nothing was sent.
PHAROS_API Result<CellHandle> try_call_actor(const ActorHandle& actor, const CallOptions& options,
                                             const RegisteredFunction& function, Arguments& arguments);
PHAROS_API void send_to_actor(const ActorHandle& actor, const CallOptions& options, const RegisteredFunction& function,
                              Arguments& arguments);
PHAROS_API void kill_actor(const ActorHandle& actor);
PHAROS_API void stop_actor(const ActorHandle& actor, Duration grace);
PHAROS_API void encode_actor(const std::shared_ptr<ActorHandle>& actor, Encoder& to);
/// Returns null if the bytes are no handle; the decoder has failed then. encode_actor() fails the encoder if the handle
/// is null.
PHAROS_API std::shared_ptr<ActorHandle> decode_actor(Decoder& from);
PHAROS_API ActorId id_of(const ActorHandle& actor);

}  // namespace detail

/// A handle to an object of type T, the actor, which lives in a worker process of its own. Copies of a handle refer to
/// the same actor. Any thread may use it. A handle that was moved from may only be destroyed or assigned to.
/// The calls of one process to one actor run in the order in which they were made, one at a time. (A method that is a
/// coroutine lets other calls run while it waits.)
/// A handle may travel in arguments and results. The actor lives as long as any process has a handle.
/// Failure: what goes wrong with a call is the error of its Ref; ActorDied if the actor is gone for good,
/// InvalidArgument if an argument cannot be encoded. After the end of the Runtime, call() and try_call() may also throw
/// RuntimeStopped themselves; kill() and stop() then do nothing. In a child of fork() every call throws RuntimeStopped.
/// End: by kill(), stop() or exit_actor(); when the last handle is gone and every call has been answered; and with its
/// program, unless it is detached. The destructor of the object then runs, unless the process was killed or a call
/// still runs.
template <class T>
class Actor {
 public:
  explicit Actor(std::shared_ptr<detail::ActorHandle> handle) : handle_{std::move(handle)} {}

  /// Calls a method: `actor.call<&Counter::add>(1)`. Returns at once, unless the actor's queue is full, or the node
  /// must first give memory for a large argument (more than 100 KiB). If the object store has no room for that
  /// argument, the Ref throws Exhausted. An argument may be a Ref: the call, and later calls of this process to this
  /// actor, then wait until that result is ready.
  ///
  /// The queue is full when 64 MiB of this process's calls wait for the actor to read them. In a program, call() then
  /// waits until there is room, or until the call's deadline. If the deadline comes first, the Ref throws
  /// DeadlineExceeded, and the call has not begun. If the call that makes this one is cancelled meanwhile, the Ref
  /// throws Cancelled. In a worker, call() waits only while the actor goes on reading. An actor that has read nothing
  /// for 100 ms may itself be waiting for the caller, so call() then keeps the call in the caller's memory and returns.
  /// When 1 GiB of calls is kept in this way, call() waits again, and the Ref throws Overloaded when the actor has read
  /// nothing for 30 s. While one thread of a worker waits here, the worker still reads and answers.
  ///
  /// Calls to an actor whose process has not started yet, and calls behind an argument that is not ready, are kept
  /// without a wait. When 16 million calls have no answer, the Ref of the next one throws Overloaded.
  ///
  /// Instead of a method, the template argument may name a static method, a function or a lambda. If its first
  /// parameter is T&, it receives the object:
  /// `actor.call<[](Counter& counter, int n) { return counter.add(2 * n); }>(1)`.
  template <auto Method, class... Args>
  requires(!detail::kBeginsWith<CallOptions, Args...>) Ref<detail::ResultOf<Method>> call(Args&&... args)
  const { return call<Method>(CallOptions{}, std::forward<Args>(args)...); }
  template <auto Method, class... Args>
  Ref<detail::ResultOf<Method>> call(const CallOptions& options, Args&&... args) const {
    using Function = detail::MethodFunction<T, Method>;
    detail::Arguments& arguments = detail::scratch_arguments(*handle_, *Function::registered);
    Function::encode(arguments, std::forward<Args>(args)...);
    return Ref<detail::ResultOf<Method>>{detail::call_actor(*handle_, options, *Function::registered, arguments)};
  }
  /// The same as call(), but never waits for the actor: if the queue is full, 64 MiB of calls are kept, or 16 million
  /// calls have no answer, it returns the error kOverloaded, and nothing was sent. All other failures are the error of
  /// the Ref.
  template <auto Method, class... Args>
  requires(!detail::kBeginsWith<CallOptions, Args...>) Result<Ref<detail::ResultOf<Method>>> try_call(Args&&... args)
  const { return try_call<Method>(CallOptions{}, std::forward<Args>(args)...); }
  template <auto Method, class... Args>
  Result<Ref<detail::ResultOf<Method>>> try_call(const CallOptions& options, Args&&... args) const {
    using Function = detail::MethodFunction<T, Method>;
    detail::Arguments& arguments = detail::scratch_arguments(*handle_, *Function::registered);
    Function::encode(arguments, std::forward<Args>(args)...);
    auto cell = detail::try_call_actor(*handle_, options, *Function::registered, arguments);
    if (!cell) return std::move(cell).error();
    return Ref<detail::ResultOf<Method>>{*std::move(cell)};
  }
  /// Calls a method whose result nobody wants: `actor.send<&Counter::add>(1)`. Everything is as with call(): the order
  /// of the calls, what happens if the queue is full, retries, and that the actor lives until the call has run. But it
  /// costs less, because the worker answers many such calls at once, and nothing is returned. A call that fails is
  /// written to this process's log, at most one in a second. A program that ends does not wait for what it has sent:
  /// get() the Ref of a later call() first.
  template <auto Method, class... Args>
  requires(!detail::kBeginsWith<CallOptions, Args...>) void send(Args&&... args) const {
    send<Method>(CallOptions{}, std::forward<Args>(args)...);
  }
  template <auto Method, class... Args>
  void send(const CallOptions& options, Args&&... args) const {
    using Function = detail::MethodFunction<T, Method>;
    detail::Arguments& arguments = detail::scratch_arguments(*handle_, *Function::registered);
    Function::encode(arguments, std::forward<Args>(args)...);
    detail::send_to_actor(*handle_, options, *Function::registered, arguments);
  }
  /// Stops the compiler: the method must be named as a template argument, not passed as an argument.
  template <class... Args>
  void call(Args&&...) const {
    detail::refuse_callee_as_argument<Args...>();
  }

  /// Ends the actor for good and its process at once, whatever the process does. Calls of this process that have no
  /// answer throw ActorDied at once. Does not wait. An actor of another program is ended only if it is detached:
  /// otherwise it goes on, the head's log says so, and only the calls of this process throw ActorDied.
  void kill() const { detail::kill_actor(*handle_); }

  /// Ends the actor for good, with notice. The running call, and coroutines that have begun, see pharos::stopping() and
  /// may go on for `grace`. The calls behind them throw ActorDied. Then the destructor runs, and the process ends. A
  /// call that still runs after `grace` is cut off, and the destructor does not run. The name is free at once. Does not
  /// wait. A `grace` below 1 ms counts as 1 ms. Does nothing after kill(), or to an actor of another program that is
  /// not detached.
  void stop(Duration grace = std::chrono::seconds{30}) const { detail::stop_actor(*handle_, grace); }

  ActorId id() const { return detail::id_of(*handle_); }

  const std::shared_ptr<detail::ActorHandle>& handle() const { return handle_; }

 private:
  std::shared_ptr<detail::ActorHandle> handle_;
};

template <class T>
struct Codec<Actor<T>> {
  static void encode(const Actor<T>& actor, Encoder& to) { detail::encode_actor(actor.handle(), to); }
  static Actor<T> decode(Decoder& from) { return Actor<T>{detail::decode_actor(from)}; }
};

}  // namespace pharos
