#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <pharos/actors/arguments.hpp>
#include <pharos/actors/declaration.hpp>
#include <pharos/actors/registered_function.hpp>
#include <pharos/actors/signature.hpp>
#include <pharos/actors/thrown.hpp>
#include <pharos/async/async.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/codec.hpp>

/// Functions, methods and constructors register themselves when a call names them as a template argument. The types
/// here encode the arguments in the caller, and decode and apply them in the worker. They have no objects: only the
/// entries in the function table exist, from the start of the process to its end.
/// Threads: encoding runs on the thread that makes the call, everything else on the thread that runs the call. Failure:
/// an argument that cannot be encoded fails the Encoder of the Arguments. Exceptions of the user's codecs pass to the
/// program that makes the call. In the worker they, and those of the user's function, pass to the code that runs the
/// call (guarded()), which makes them the call's error.
namespace pharos::detail {

/// Throws BadArguments because the arguments in the call's frame are not those of the function: the call fails with
/// kInvalidArgument, and has not started.
[[noreturn]] PHAROS_API void throw_bad_arguments();

/// The type of the value that travels for a parameter of type P.
template <class P>
using Sent = std::remove_cvref_t<P>;

/// The type of the value that travels for an argument of a constructor, whose parameter types are not known:
/// std::string for text, and the type of the result for a Ref.
template <class A>
struct SentArgumentOf {
  using Type = std::conditional_t<std::is_convertible_v<A, std::string_view>, std::string, std::remove_cvref_t<A>>;
};
template <class T>
struct SentArgumentOf<Ref<T>> {
  using Type = T;
};
template <class A>
using SentArgument = typename SentArgumentOf<std::remove_cvref_t<A>>::Type;

template <class P>
constexpr void check_parameter() {
  static_assert(!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>,
                "a function that runs in another process cannot change its caller's variable: take the argument by "
                "value or by const reference, and return what is new");
  check_travels<Sent<P>>();
}

template <class R>
constexpr void check_result() {
  if constexpr (!std::is_void_v<R>) {
    check_travels<Sent<R>>();
  }
}

/// The parameters of a function, and how their values travel.
template <class... Params>
struct Parameters {
  template <class... Args>
  static void encode(Arguments& to, Args&&... args) {
    static_assert(
        sizeof...(Args) >= sizeof...(Params),
        "the call has fewer arguments than the function has parameters. Its default arguments do not come with "
        "its name: write them, or name a lambda that calls it, as in submit<[](int x) { return f(x); }>(1)");
    static_assert(sizeof...(Args) <= sizeof...(Params), "the call has more arguments than the function has parameters");
    (check_parameter<Params>(), ...);
    if constexpr (sizeof...(Args) == sizeof...(Params)) {
      encode_all(to, as_parameter<Sent<Params>>(std::forward<Args>(args))...);
    }
  }

  using Values = std::tuple<Sent<Params>...>;
  static Values decode(Decoder& from) {
    // Braces, because they are evaluated from left to right.
    Values values{Codec<Sent<Params>>::decode(from)...};
    if (from.failed() || from.left() != 0) throw_bad_arguments();
    return values;
  }
  template <class Callable>
  static decltype(auto) apply(Values& values, Callable&& callable) {
    return std::apply(
        [&](auto&... value) -> decltype(auto) { return callable(std::forward<PassAs<Params>>(value)...); }, values);
  }
  template <class Callable>
  static decltype(auto) decode_and_apply(Decoder& from, Callable&& callable) {
    Values values = decode(from);
    return apply(values, callable);
  }

 private:
  template <class... Args>
  static void encode_all(Arguments& to, const Args&... args) {
    do {
      (encode_as<Sent<Params>>(args, to), ...);
    } while (to.again());
  }

  // By-value parameters are moved into the function; const references refer to the decoded value.
  template <class P>
  using PassAs = std::conditional_t<std::is_lvalue_reference_v<P>, P, Sent<P>&&>;
};

template <class R, class Call>
void encode_result_of(Call&& call, Encoder& to) {
  if constexpr (std::is_void_v<R>) {
    call();
  } else {
    encode_when_ready<Sent<R>>(call(), to);
  }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
// A user's type may be in an anonymous namespace. Then the type of this coroutine's frame is local to the file, too.
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif
/// Runs a method that is a coroutine: calls `callable` with the arguments, awaits it, and encodes its result, for whose
/// Refs it waits. `arguments` is read before the first wait; `result` must exist until the end. The values of the
/// arguments are in this coroutine's frame, so that the method may refer to them as long as it runs.
template <class Params, class Result, class Callable>
async::Async<void> begin_with(Callable callable, Decoder* arguments, Encoder* result) {
  check_result<typename Brought<Result>::Type>();
  typename Params::Values values = Params::decode(*arguments);
  auto called = Params::apply(values, callable);
  if constexpr (std::is_void_v<typename Brought<Result>::Type>) {
    co_await std::move(called);
  } else {
    const auto brought = co_await std::move(called);
    while (!encode_ready(brought, *result)) {
      for (const CellHandle& cell : pending_refs(*result)) co_await until_ready(cell);
    }
  }
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

// Tags. The name of a tag's type is the name of the function on the wire.
template <auto F>
struct Tag {};
template <class T, auto M>
struct MethodTag {};
template <class T, class... Args>
struct ConstructorTag {};

/// A function that is to run as a task. The primary template stops the compiler: F cannot be a task.
template <auto F>
struct TaskFunction {
  static inline RegisteredFunction* const registered = nullptr;

  template <class... Args>
  static void encode(Arguments&, Args&&...) {
    check_callee<F>();
    static_assert(
        kCallee<F> != Callee::kMethod,
        "a method needs an object: make an actor of its class with spawn<C>(), and call<&C::m>() that; or name "
        "a lambda that makes the object and calls it");
    static_assert(
        !NamesFunction<F> || !BroughtBy<F>::kLater,
        "a task must be an ordinary function, not a coroutine: it has a thread of its own to wait on, with get(). "
        "Methods of actors can be coroutines");
  }
};

template <auto F>
requires(NamesFunction<F> && !BroughtBy<F>::kLater) struct TaskFunction<F> {
  using Result = typename SignatureOfNamed<F>::Result;
  using Params = typename SignatureOfNamed<F>::Params;

  template <class... Args>
  static void encode(Arguments& to, Args&&... args) {
    Params::encode(to, std::forward<Args>(args)...);
  }
  static void call(void*, Decoder& arguments, Encoder& result) {
    check_result<Result>();
    encode_result_of<Result>([&]() -> decltype(auto) { return Params::decode_and_apply(arguments, F); }, result);
  }
  static inline RegisteredFunction* const registered = register_function(
      {.tag = &typeid(Tag<F>), .kind = FunctionKind::kTask, .call = &call, .throws = thrown_types(throws<F>)});
};

/// The parameters, as callers see them, of a function that runs in an actor of class T. A function whose first
/// parameter is T& receives the actor's object there, and callers pass the others. (No argument could be passed for a
/// T&.)
template <class T, class Params>
struct ParametersAfterObject {
  using Rest = Params;
  static constexpr bool kTakesObject = false;
};
template <class T, class C, class... P>
requires(!std::is_const_v<C> && std::is_base_of_v<C, T>) struct ParametersAfterObject<T, Parameters<C&, P...>> {
  using Rest = Parameters<P...>;
  static constexpr bool kTakesObject = true;
};

/// How a call of an actor runs. `Self` has the Params that travel, the Result, and of(instance), which returns a
/// callable that takes the parameters.
template <class Self>
struct CalledFunction {
  template <class... Args>
  static void encode(Arguments& to, Args&&... args) {
    Self::Params::encode(to, std::forward<Args>(args)...);
  }
  static void call(void* instance, Decoder& arguments, Encoder& result) {
    using Result = typename Self::Result;
    check_result<Result>();
    encode_result_of<Result>(
        [&]() -> decltype(auto) { return Self::Params::decode_and_apply(arguments, Self::of(instance)); }, result);
  }
  static async::Async<void> begin(void* instance, Decoder* arguments, Encoder* result) {
    return begin_with<typename Self::Params, typename Self::Result>(Self::of(instance), arguments, result);
  }
  static Function function(const std::type_info& tag, std::span<const ThrownType> throws) {
    Function function{.tag = &tag, .kind = FunctionKind::kMethod, .throws = throws};
    if constexpr (Brought<typename Self::Result>::kLater) {
      function.begin = &begin;
    } else {
      function.call = &call;
    }
    return function;
  }
};

/// A method or function that is to run in an actor of class T. The primary template stops the compiler: M cannot.
template <class T, auto M>
struct MethodFunction {
  static inline RegisteredFunction* const registered = nullptr;

  template <class... Args>
  static void encode(Arguments&, Args&&...) {
    check_callee<M>();
    static_assert(kCallee<M> != Callee::kMethod, "this is a method of another class than the actor's");
  }
};

template <class T, auto M>
requires(NamesFunction<M> || is_method_of<T, M>()) struct MethodFunction<T, M> : CalledFunction<MethodFunction<T, M>> {
  using Result = typename SignatureOfNamed<M>::Result;
  using Object = ParametersAfterObject<T, typename SignatureOfNamed<M>::Params>;
  using Params = typename Object::Rest;

  static auto of(void* instance) {
    return [instance](auto&&... values) -> decltype(auto) {
      auto& object = *static_cast<T*>(instance);
      if constexpr (kCallee<M> == Callee::kMethod) {
        return (object.*M)(std::forward<decltype(values)>(values)...);
      } else if constexpr (Object::kTakesObject) {
        return M(object, std::forward<decltype(values)>(values)...);
      } else {
        return M(std::forward<decltype(values)>(values)...);
      }
    };
  }
  static auto thrown() { return thrown_types(joined(throws<M>, thrown_by_class<T>())); }
  static inline RegisteredFunction* const registered =
      register_function(MethodFunction::function(typeid(MethodTag<T, M>), thrown()));
};

template <class T, auto M>
std::string declaration_of_method(std::string_view name) {
  using Method = MethodFunction<T, M>;
  using Result = Sent<typename Brought<typename Method::Result>::Type>;
  return declaration_of<Result>(name, typename ArgumentsOf<typename Method::Params::Values>::Are{});
}

template <class T, auto... M>
inline constexpr OfferedMethod kOfferedMethods[] = {
    {&MethodFunction<T, M>::registered, &declaration_of_method<T, M>}...};

template <class T, auto... M>
constexpr std::span<const OfferedMethod> offered_methods(Methods<M...>) {
  constexpr bool kAreMethods = (is_method_of<T, M>() && ...);
  static_assert(kAreMethods,
                "pharos_methods lists methods of the class and of its bases, without &&, and nothing else");
  if constexpr (kAreMethods && sizeof...(M) != 0) {
    return kOfferedMethods<T, M...>;
  } else {
    return {};
  }
}

/// Returns the methods of T that programs of other builds may call. They are in the function table, too.
template <class T>
constexpr std::span<const OfferedMethod> offered_by_class() {
  if constexpr (requires { T::pharos_methods; }) {
    return offered_methods<T>(T::pharos_methods);
  } else {
    return {};
  }
}

template <class T>
Function constructor_function(const std::type_info& tag, void* (*construct)(Decoder& arguments)) {
  return {.tag = &tag,
          .kind = FunctionKind::kConstructor,
          .construct = construct,
          .destroy = [](void* instance) { delete static_cast<T*>(instance); },
          .throws = thrown_types(thrown_by_class<T>()),
          .offers = offered_by_class<T>()};
}

/// How a T is constructed from arguments that have travelled. The worker owns the new object and deletes it with
/// `destroy`. The primary template stops the compiler: T has no such constructor.
template <class T, class... Args>
struct ConstructorFunction {
  static inline RegisteredFunction* const registered = nullptr;

  template <class... Given>
  static void encode(Arguments&, Given&&...) {
    static_assert(!std::is_abstract_v<T>, "T is abstract: spawn a class that derives from it");
    static_assert(std::is_abstract_v<T> || std::is_constructible_v<T, Args...>,
                  "T has no constructor for these arguments, as they arrive: text as std::string, a Ref as its result");
  }
};

template <class T, class... Args>
requires std::is_constructible_v<T, Args...>
struct ConstructorFunction<T, Args...> {
  using Params = Parameters<Args...>;

  template <class... Given>
  static void encode(Arguments& to, Given&&... given) {
    Params::encode(to, std::forward<Given>(given)...);
  }
  static void* construct(Decoder& arguments) {
    return Params::decode_and_apply(arguments, [](auto&&... values) { return new T(std::move(values)...); });
  }
  static inline RegisteredFunction* const registered =
      register_function(constructor_function<T>(typeid(ConstructorTag<T, Args...>), &construct));
};

/// True if the first of a call's arguments is of type Options.
template <class Options, class... Args>
inline constexpr bool kBeginsWith = false;
template <class Options, class First, class... More>
inline constexpr bool kBeginsWith<Options, First, More...> = std::is_same_v<Options, std::remove_cvref_t<First>>;

}  // namespace pharos::detail
