#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <pharos/actors/arguments.hpp>
#include <pharos/async/async.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/codec.hpp>

/// How functions, methods and constructors register themselves: by being named as a template argument. Each name has
/// one entry in the program's table, made by a static initialiser, so that driver and workers, which are the same
/// executable, agree on it.
namespace pharos::detail {

enum class FunctionKind : std::uint8_t { kTask, kMethod, kConstructor };

/// What a worker runs. Only the members of its kind are set.
struct Function {
  const char* name = nullptr;  ///< mangled; the same from every compiler of the Itanium ABI
  FunctionKind kind{};
  void (*call)(void* instance, Decoder& arguments, Encoder& result) = nullptr;
  /// Instead of `call`, of a method that is a coroutine. The arguments are there until its first wait, the result until
  /// its end.
  async::Async<void> (*begin)(void* instance, Decoder* arguments, Encoder* result) = nullptr;
  void* (*construct)(Decoder& arguments) = nullptr;
  void (*destroy)(void* instance) = nullptr;
};

/// A Function in the table. Its index is known once the table is sorted, just before main; a library that is loaded
/// later has none, because workers do not load it.
struct RegisteredFunction {
  Function function;
  std::uint32_t index = kNoIndex;
  static constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};
};

/// Never fails: two functions of one name are found when the table is sorted.
PHAROS_API RegisteredFunction* register_function(const Function& function);

/// The arguments in the call's frame are not those of the function.
[[noreturn]] PHAROS_API void throw_bad_arguments();

/// What travels for a parameter of type P.
template <class P>
using Sent = std::remove_cvref_t<P>;

/// What travels for a constructor's argument, whose parameter type is not known: text becomes std::string, and a Ref
/// its result.
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

/// A function's parameters, as they travel.
template <class... Params>
struct Parameters {
  static constexpr std::size_t kCount = sizeof...(Params);

  template <class... Args>
  static void encode(Arguments& to, const Args&... args) {
    static_assert(sizeof...(Args) == kCount, "the call has another number of arguments than the function");
    (check_parameter<Params>(), ...);
    if constexpr (sizeof...(Args) == kCount) {
      do {
        (encode_as<Sent<Params>>(args, to), ...);
      } while (to.again());
    }
  }

  using Values = std::tuple<Sent<Params>...>;
  static Values decode(Decoder& from) {
    // Braces: decoded from left to right.
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
  // By-value parameters are moved into the function; const references refer to the decoded value.
  template <class P>
  using PassAs = std::conditional_t<std::is_lvalue_reference_v<P>, P, Sent<P>&&>;
};

template <class F>
struct Signature;
template <class R, class... P>
struct Signature<R (*)(P...)> {
  using Result = R;
  using Params = Parameters<P...>;
};
template <class R, class... P>
struct Signature<R (*)(P...) noexcept> : Signature<R (*)(P...)> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...)> : Signature<R (*)(P...)> {
  using Class = C;
};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const> : Signature<R (C::*)(P...)> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) noexcept> : Signature<R (C::*)(P...)> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const noexcept> : Signature<R (C::*)(P...)> {};

/// What a coroutine brings in the end.
template <class R>
struct Brought {
  using Type = std::remove_cvref_t<R>;
  static constexpr bool kLater = false;
};
template <class T>
struct Brought<async::Async<T>> {
  using Type = T;
  static constexpr bool kLater = true;
};
template <auto F>
using ResultOf = typename Brought<typename Signature<decltype(F)>::Result>::Type;

template <class R, class Call>
void encode_result_of(Call&& call, Encoder& to) {
  if constexpr (std::is_void_v<R>) {
    call();
  } else {
    const Sent<R>& value = call();
    do {
      Codec<Sent<R>>::encode(value, to);
    } while (to.again());
  }
}

// Tags: their type names are the functions' names on the wire.
template <auto F>
struct Tag {};
template <class T, auto M>
struct MethodTag {};
template <class T, class... Args>
struct ConstructorTag {};

template <auto F>
struct TaskFunction {
  using Result = typename Signature<decltype(F)>::Result;
  using Params = typename Signature<decltype(F)>::Params;

  static_assert(!Brought<Result>::kLater,
                "a task is a function and no coroutine: it has a thread of its own to wait on, with get(). Methods of "
                "actors can be coroutines");

  static void call(void*, Decoder& arguments, Encoder& result) {
    check_result<Result>();
    encode_result_of<Result>([&]() -> decltype(auto) { return Params::decode_and_apply(arguments, F); }, result);
  }
  static inline RegisteredFunction* const registered =
      register_function({.name = typeid(Tag<F>).name(), .kind = FunctionKind::kTask, .call = &call});
};

template <class T, auto M>
struct MethodFunction {
  using Result = typename Signature<decltype(M)>::Result;
  using Params = typename Signature<decltype(M)>::Params;

  static void call(void* instance, Decoder& arguments, Encoder& result) {
    check_result<Result>();
    encode_result_of<Result>([&]() -> decltype(auto) { return Params::decode_and_apply(arguments, of(instance)); },
                             result);
  }
  // The values are this frame's, so that the method may refer to them as long as it runs.
  static async::Async<void> begin(void* instance, Decoder* arguments, Encoder* result) {
    check_result<typename Brought<Result>::Type>();
    typename Params::Values values = Params::decode(*arguments);
    auto method = Params::apply(values, of(instance));
    if constexpr (std::is_void_v<typename Brought<Result>::Type>) {
      co_await std::move(method);
    } else {
      auto brought = co_await std::move(method);
      do {
        Codec<typename Brought<Result>::Type>::encode(brought, *result);
      } while (result->again());
    }
  }
  static auto of(void* instance) {
    return [instance](auto&&... values) -> decltype(auto) {
      return (static_cast<T*>(instance)->*M)(std::forward<decltype(values)>(values)...);
    };
  }
  static Function function() {
    Function function{.name = typeid(MethodTag<T, M>).name(), .kind = FunctionKind::kMethod};
    if constexpr (Brought<Result>::kLater) {
      function.begin = &begin;
    } else {
      function.call = &call;
    }
    return function;
  }
  static inline RegisteredFunction* const registered = register_function(function());
};

template <class T, class... Args>
struct ConstructorFunction {
  using Params = Parameters<Args...>;

  static void* construct(Decoder& arguments) {
    return Params::decode_and_apply(arguments, [](auto&&... values) { return new T(std::move(values)...); });
  }
  static void destroy(void* instance) { delete static_cast<T*>(instance); }
  static inline RegisteredFunction* const registered =
      register_function({.name = typeid(ConstructorTag<T, Args...>).name(),
                         .kind = FunctionKind::kConstructor,
                         .construct = &construct,
                         .destroy = &destroy});
};

}  // namespace pharos::detail
