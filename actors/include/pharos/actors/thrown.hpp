#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>

#include <pharos/actors/registered_function.hpp>
#include <pharos/wire/codec.hpp>

/// Types of exceptions: what a function declares, and what a call is tried again for.
namespace pharos {

/// `pharos::types<Overdrawn, std::runtime_error>`, where types of exceptions are asked for.
template <class... E>
inline constexpr detail::Types<E...> types{};

/// What a function or method declares to throw: its callers catch exceptions of these types as they are, with all their
/// fields, and everything else as UserError. Declared at global scope, before the first call:
///
///   template <>
///   inline constexpr auto pharos::throws<&bank::Account::take> = pharos::types<bank::Overdrawn, bank::NotYours>;
///
/// or in the class, for its constructors and all of its methods:
///
///   static constexpr auto pharos_throws = pharos::types<Overdrawn, NotYours>;
///
/// An exception travels as other values do (see Codec), in at most 16 KiB; one that is made of its text alone, as those
/// of <stdexcept> and what derives from them without adding fields, without a word. Of a class that is derived from a
/// declared one the declared part arrives.
template <auto F>
inline constexpr auto throws = types<>;

namespace detail {

/// Derived from an exception of <stdexcept> with nothing added to it, so that its text is all of it.
template <class E, class Base>
inline constexpr bool kAddsNothingTo = std::is_base_of_v<Base, E> && sizeof(E) == sizeof(Base);
template <class E>
concept MadeOfText = std::is_constructible_v<E, const std::string&> && !HasFields<E> &&
                     (kAddsNothingTo<E, std::runtime_error> || kAddsNothingTo<E, std::logic_error>);

template <class E>
bool encode_thrown(Encoder& to) {
  try {
    throw;
  } catch (const E& thrown) {
    if constexpr (MadeOfText<E>) {
      Codec<std::string>::encode(thrown.what(), to);
    } else {
      Codec<E>::encode(thrown, to);
    }
    return true;
  } catch (...) {
    return false;
  }
}

template <class E>
E decode_thrown(Decoder& from) {
  if constexpr (MadeOfText<E>) {
    return E{Codec<std::string>::decode(from)};
  } else {
    return Codec<E>::decode(from);
  }
}

template <class E>
void rethrow(Decoder& from) {
  E thrown = decode_thrown<E>(from);
  if (!from.failed() && from.left() == 0) throw thrown;
}

template <class E>
constexpr void check_thrown() {
  constexpr bool kPlain = std::is_same_v<E, std::decay_t<E>>;
  static_assert(kPlain, "declare the type of the exception itself: no reference, no const");
  if constexpr (kPlain && !MadeOfText<E>) check_travels<E>();
}

template <class... E>
inline constexpr ThrownType kThrownTypes[] = {{&typeid(E), &encode_thrown<E>, &rethrow<E>}...};

template <class... E>
constexpr std::span<const ThrownType> thrown_types(Types<E...>) {
  (check_thrown<E>(), ...);
  if constexpr (sizeof...(E) == 0) {
    return {};
  } else {
    return kThrownTypes<std::decay_t<E>...>;
  }
}

template <class... A, class... B>
constexpr Types<A..., B...> joined(Types<A...>, Types<B...>) {
  return {};
}

/// What a class declares for all of its methods.
template <class T>
constexpr auto thrown_by_class() {
  if constexpr (requires { T::pharos_throws; }) {
    return T::pharos_throws;
  } else {
    return types<>;
  }
}

template <class E>
bool handles() {
  try {
    throw;
  } catch (const E&) {
    return true;
  } catch (...) {
    return false;
  }
}

template <class... E>
struct ExceptionTypesTag {};

template <class... E>
struct RegisteredTypes {
  static bool handles_any() { return (handles<E>() || ...); }
  static inline RegisteredFunction* const registered = register_function(
      {.tag = &typeid(ExceptionTypesTag<E...>), .kind = FunctionKind::kExceptionTypes, .handles = &handles_any});
};

}  // namespace detail

/// Types of exceptions and of what is derived from them: `pharos::types<Flaky, std::runtime_error>`.
class ExceptionTypes {
 public:
  constexpr ExceptionTypes() = default;  // none
  template <class... E>
  ExceptionTypes(detail::Types<E...>) : registered_{detail::RegisteredTypes<E...>::registered} {}
  ExceptionTypes(detail::Types<>) {}

  const detail::RegisteredFunction* registered() const { return registered_; }

 private:
  const detail::RegisteredFunction* registered_ = nullptr;
};

}  // namespace pharos
