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

/// Those of this thread's next call, of this actor or by this Runtime. Whoever takes them lets go of what they hold.
PHAROS_API Arguments& scratch_arguments(const ActorHandle& actor, const RegisteredFunction& function);
PHAROS_API Arguments& scratch_arguments(Caller& caller, const RegisteredFunction& function);

PHAROS_API CellHandle call_actor(const ActorHandle& actor, const CallOptions& options,
                                 const RegisteredFunction& function, Arguments& arguments);
/// kOverloaded: it was not taken.
PHAROS_API Result<CellHandle> try_call_actor(const ActorHandle& actor, const CallOptions& options,
                                             const RegisteredFunction& function, Arguments& arguments);
PHAROS_API void kill_actor(const ActorHandle& actor);
PHAROS_API void stop_actor(const ActorHandle& actor, Duration grace);
PHAROS_API void encode_actor(const std::shared_ptr<ActorHandle>& actor, Encoder& to);
/// Null after a failure.
PHAROS_API std::shared_ptr<ActorHandle> decode_actor(Decoder& from);
PHAROS_API ActorId id_of(const ActorHandle& actor);

}  // namespace detail

/// A handle to an object that lives in a worker process of its own. Copies are the same actor; any thread may call.
/// Calls of one process to one actor run in the order in which they were made, one at a time.
/// A handle may travel in arguments and results; the actor lives as long as any process has one.
/// Ends: by kill(), stop() or exit_actor(); when the last handle is gone and every call has been answered; with its
/// program, unless it is detached. Its destructor runs unless it was killed.
template <class T>
class Actor {
 public:
  explicit Actor(std::shared_ptr<detail::ActorHandle> handle) : handle_{std::move(handle)} {}

  /// Calls the method; returns at once, unless the actor's queue is full. An actor that is gone gives a Ref that throws
  /// ActorDied. A Ref may stand for an argument: the call, and later ones of this process to this actor, wait until its
  /// result is there.
  ///
  /// The queue is full when 64 MiB of this process's calls wait for the actor to read them. In a program call() then
  /// waits until there is room, or until the call's deadline: its Ref throws DeadlineExceeded, and the call has not
  /// begun. In a worker it waits only while the actor goes on reading. An actor that has read nothing for 100 ms may
  /// itself be waiting for the caller: call() then keeps the call in the caller's memory and returns. With 1 GiB kept
  /// so it waits again, and the Ref throws Overloaded when the actor has read nothing for 30 s. A worker reads and
  /// answers while one of its threads waits here. Calls to an actor that is not there yet, and calls behind an argument
  /// that is not, are kept without a wait. With 16 million calls without an answer the Ref of the next one throws
  /// Overloaded.
  ///
  /// Instead of a method, a static one, a function or a lambda may run there; if its first parameter is T&, it is given
  /// the object: `actor.call<[](Counter& counter, int n) { return counter.add(2 * n); }>(1)`.
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
  /// As call(), but never waits: with a full queue, or with 64 MiB kept, it returns the error Overloaded, and nothing
  /// was sent.
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
  /// What is called is named, not passed.
  template <class... Args>
  void call(Args&&...) const {
    detail::refuse_callee_as_argument<Args...>();
  }

  /// Ends its process now, whatever it does. Calls that are under way throw ActorDied.
  void kill() const { detail::kill_actor(*handle_); }

  /// Ends it for good, with notice: the call that runs, and coroutines that have begun, see pharos::stopping(), and may
  /// go on for so long; those behind them throw ActorDied; then its destructor runs. Its name is free at once.
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
