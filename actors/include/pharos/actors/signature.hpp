#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <pharos/async/async.hpp>

namespace pharos {

/// Chooses one of several functions or methods of the same name: `submit<pharos::overload<int(int)>(&f)>(1)`,
/// `actor.call<pharos::overload<int() const>(&C::size)>()`.
template <class Function>
constexpr Function* overload(Function* function) {
  return function;
}
template <class Function, class C>
constexpr auto overload(Function C::*method) {
  return method;
}

namespace detail {

template <class... P>
struct Parameters;

/// The kind of entity that a call names. Only the first three can be called. All that follows is for the compiler:
/// nothing of it runs or exists in the program, and a wrong use stops the compiler.
enum class Callee : std::uint8_t {
  kFunction,       ///< a function or a static method
  kMethod,         ///< a method without &&, which leaves its object usable
  kObject,         ///< a lambda or a function object with one operator(), which is const
  kRvalueMethod,   ///< a method with &&
  kMutableObject,  ///< a function object whose operator() is not const
  kManyFunctions,  ///< a generic lambda, or an object without exactly one operator()
  kNothing,        ///< something that is no function
};

template <class R, class... P>
struct SignatureOf {
  using Result = R;
  using Params = Parameters<P...>;
};

template <class F>
struct Signature : SignatureOf<void> {
  static constexpr Callee kCallee = std::is_class_v<F> ? Callee::kManyFunctions : Callee::kNothing;
  static constexpr bool kIsConst = false;
};

template <class R, class... P>
struct Signature<R (*)(P...)> : SignatureOf<R, P...> {
  static constexpr Callee kCallee = Callee::kFunction;
};
template <class R, class... P>
struct Signature<R (*)(P...) noexcept> : Signature<R (*)(P...)> {};

#define PHAROS_METHOD(qualifiers, callee, is_const)                    \
  template <class R, class C, class... P>                              \
  struct Signature<R (C::*)(P...) qualifiers> : SignatureOf<R, P...> { \
    using Class = C;                                                   \
    static constexpr Callee kCallee = callee;                          \
    static constexpr bool kIsConst = is_const;                         \
  };                                                                   \
  template <class R, class C, class... P>                              \
  struct Signature<R (C::*)(P...) qualifiers noexcept> : Signature<R (C::*)(P...) qualifiers> {}
PHAROS_METHOD(, Callee::kMethod, false);
PHAROS_METHOD(&, Callee::kMethod, false);
PHAROS_METHOD(&&, Callee::kRvalueMethod, false);
PHAROS_METHOD(const, Callee::kMethod, true);
PHAROS_METHOD(const&, Callee::kMethod, true);
PHAROS_METHOD(const&&, Callee::kRvalueMethod, true);
#undef PHAROS_METHOD

template <class F>
requires requires {
  &F::operator();
}
struct Signature<F> : Signature<decltype(&F::operator())> {
  static constexpr Callee kCallee =
      Signature<decltype(&F::operator())>::kIsConst ? Callee::kObject : Callee::kMutableObject;
};

template <auto F>
using SignatureOfNamed = Signature<std::remove_cv_t<decltype(F)>>;

/// The type that callers get from a function with result R: for a coroutine, what it returns in the end (kLater).
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
using BroughtBy = Brought<typename SignatureOfNamed<F>::Result>;
template <auto F>
using ResultOf = typename BroughtBy<F>::Type;

template <auto F>
inline constexpr Callee kCallee = SignatureOfNamed<F>::kCallee;

/// F names a function or a function object.
template <auto F>
concept NamesFunction = kCallee<F>
== Callee::kFunction || kCallee<F> == Callee::kObject;

/// Returns whether M names a method of T. T need not be complete before the call.
template <class T, auto M>
consteval bool is_method_of() {
  if constexpr (kCallee<M> == Callee::kMethod) {
    return std::is_base_of_v<typename SignatureOfNamed<M>::Class, T>;
  } else {
    return false;
  }
}

/// Stops the compiler if F cannot be called, with the reason and what to do instead.
template <auto F>
constexpr void check_callee() {
  constexpr Callee kFound = kCallee<F>;
  static_assert(
      kFound != Callee::kRvalueMethod,
      "a method with && moves from its object, but an actor is used again: call a method without &&, or with &");
  static_assert(kFound != Callee::kMutableObject,
                "a function object that is named in a call is a constant: its operator() must be const, a lambda's "
                "not mutable");
  static_assert(kFound != Callee::kManyFunctions,
                "a generic lambda, or an object without exactly one operator(), is not exactly one function: give the "
                "lambda's parameters types, as in [](int x) { return f(x); }");
  static_assert(kFound != Callee::kNothing,
                "this cannot be called: name a function, a method or a lambda, as in submit<&f>(), "
                "call<&C::m>(), submit<[](int x) { return 2 * x; }>()");
}

template <class... Args>
constexpr void refuse_callee_as_argument() {
  static_assert(
      sizeof...(Args) == ~std::size_t{0},
      "the function must be a template argument, so that another process finds it by its name: submit<&f>(1), "
      "actor.call<&C::m>(1). A lambda may be one if it captures nothing: pass as arguments what it would capture");
}

}  // namespace detail
}  // namespace pharos
