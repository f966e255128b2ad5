#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/declaration.hpp>
#include <pharos/actors/function.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/actors/ref.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/id.hpp>

namespace pharos {

template <class Signature>
class ForeignMethod;

namespace detail {

// The name of this tag's type is the name of the method in this program's function table.
template <class Signature>
struct ForeignTag {};

/// A method of an actor of another build, as its callers see it. Its entry in the function table of this program has
/// only a name, for messages.
template <class Signature>
struct ForeignFunction;
template <class R, class... P>
struct ForeignFunction<R(P...)> {
  using Result = Sent<typename Brought<R>::Type>;
  using Params = Parameters<P...>;

  static std::string declaration(const std::string& name) { return declaration_of<Result>(name, Types<Sent<P>...>{}); }
  static inline RegisteredFunction* const registered =
      register_function({.tag = &typeid(ForeignTag<R(P...)>), .kind = FunctionKind::kForeign});
};

/// Returns the index of a method in the function table of the actor's program. Waits for the actor's answer.
PHAROS_API std::uint32_t find_method(const ActorHandle& actor, const RegisteredFunction& function,
                                     const std::string& name, const std::string& declaration, Deadline deadline);
/// The same as call_actor() and send_to_actor(), for a method with this index in the actor's program.
PHAROS_API CellHandle call_foreign(const ActorHandle& actor, const CallOptions& options,
                                   const RegisteredFunction& function, std::uint32_t index, Arguments& arguments);
PHAROS_API void send_foreign(const ActorHandle& actor, const CallOptions& options, const RegisteredFunction& function,
                             std::uint32_t index, Arguments& arguments);

}  // namespace detail

/// A method of an actor of another build (ForeignActor::method()). Copies stand for the same method. Any thread may use
/// it. It stays valid when the actor restarts, and keeps the actor as a handle does.
template <class R, class... P>
class ForeignMethod<R(P...)> {
  using Function = detail::ForeignFunction<R(P...)>;

 public:
  using Result = typename Function::Result;

  ForeignMethod(std::shared_ptr<detail::ActorHandle> actor, std::uint32_t index)
      : actor_{std::move(actor)}, index_{index} {}

  /// Calls the method: `add.call(1)`. It is like Actor::call(), with two differences: `retry_on` is refused, by
  /// InvalidArgument as the error of the Ref, and an exception that the method declares arrives as UserError. (Its type
  /// may differ in the two programs.)
  template <class... Args>
  requires(!detail::kBeginsWith<CallOptions, Args...>) Ref<Result> call(Args&&... args)
  const { return call(CallOptions{}, std::forward<Args>(args)...); }
  template <class... Args>
  Ref<Result> call(const CallOptions& options, Args&&... args) const {
    detail::Arguments& arguments = detail::scratch_arguments(*actor_, *Function::registered);
    Function::Params::encode(arguments, std::forward<Args>(args)...);
    return Ref<Result>{detail::call_foreign(*actor_, options, *Function::registered, index_, arguments)};
  }
  /// Calls the method as Actor::send() does.
  template <class... Args>
  requires(!detail::kBeginsWith<CallOptions, Args...>) void send(Args&&... args) const {
    send(CallOptions{}, std::forward<Args>(args)...);
  }
  template <class... Args>
  void send(const CallOptions& options, Args&&... args) const {
    detail::Arguments& arguments = detail::scratch_arguments(*actor_, *Function::registered);
    Function::Params::encode(arguments, std::forward<Args>(args)...);
    detail::send_foreign(*actor_, options, *Function::registered, index_, arguments);
  }

 private:
  std::shared_ptr<detail::ActorHandle> actor_;
  std::uint32_t index_;
};

/// A handle to an actor whose class this program need not have: another program has made the actor, or another build of
/// this one (Runtime::foreign_actor()). Its methods are those that its class offers (pharos::methods), and are named by
/// name and types. Otherwise this is a handle like Actor: it may travel to the processes of this program, and kill()
/// and stop() do what they do there.
class ForeignActor {
 public:
  explicit ForeignActor(std::shared_ptr<detail::ActorHandle> handle) : handle_{std::move(handle)} {}

  /// Returns a method of the actor: `counter.method<int(int)>("add")`. Asks the actor for the method, and waits for the
  /// answer, which comes after the call that the actor runs; keep the method for the calls that follow. The signature
  /// has the types of the values: std::string or const std::string& for either of them, and the T of an Async<T>.
  ///
  /// Throws FunctionNotFound if the actor offers no such method. The message has the declaration that was asked for,
  /// and those that the actor has: of the methods of this name, or of all if there are none. Throws what calls of an
  /// actor throw, as ActorDied and DeadlineExceeded.
  template <class Signature>
  ForeignMethod<Signature> method(const std::string& name, Deadline deadline = Deadline::never()) const {
    using Function = detail::ForeignFunction<Signature>;
    return {handle_, detail::find_method(*handle_, *Function::registered, name, Function::declaration(name), deadline)};
  }

  void kill() const { detail::kill_actor(*handle_); }
  void stop(Duration grace = std::chrono::seconds{30}) const { detail::stop_actor(*handle_, grace); }
  ActorId id() const { return detail::id_of(*handle_); }
  const std::shared_ptr<detail::ActorHandle>& handle() const { return handle_; }

 private:
  std::shared_ptr<detail::ActorHandle> handle_;
};

template <>
struct Codec<ForeignActor> {
  static void encode(const ForeignActor& actor, Encoder& to) { detail::encode_actor(actor.handle(), to); }
  static ForeignActor decode(Decoder& from) { return ForeignActor{detail::decode_actor(from)}; }
};

}  // namespace pharos
