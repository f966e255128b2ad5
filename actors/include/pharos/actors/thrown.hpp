#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>

#include <pharos/actors/registered_function.hpp>
#include <pharos/wire/codec.hpp>

/// Types of exceptions: those that a function declares, and those after which a call is run again.
namespace pharos {

/// A list of types of exceptions, for declarations and options: `pharos::types<Overdrawn, std::runtime_error>`.
template <class... E>
inline constexpr detail::Types<E...> types{};  // NOLINT(readability-identifier-naming): users write it

/// The types of exceptions that a function or method declares. Its callers catch exceptions of these types as they are,
/// with all their fields, and everything else as UserError. Write the declaration at global scope, before the first
/// call:
///
///   template <>
///   inline constexpr auto pharos::throws<&bank::Account::take> = pharos::types<bank::Overdrawn, bank::NotYours>;
///
/// or in the class, for its constructors and all of its methods:
///
///   static constexpr auto pharos_throws = pharos::types<Overdrawn, NotYours>;
///
/// An exception travels as other values do (see Codec). One of more than 16 KiB, or one that cannot be encoded, arrives
/// as UserError. An exception that consists of its text alone needs no Codec: those of <stdexcept>, and classes that
/// derive from them and add no fields. If the thrown class derives from a declared one, only the declared part arrives.
template <auto F>
inline constexpr auto throws = types<>;  // NOLINT(readability-identifier-naming): users write it

namespace detail {

/// True if E derives from the <stdexcept> exception Base and adds nothing, so that its text is all that it has.
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

/// Returns the types that a class declares for all of its methods.
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

/// An option that lists types of exceptions, each with the types that derive from it: `pharos::types<Flaky, Busy>`. A
/// value, which refers to an entry of the function table. If the library of the list was loaded after the start of the
/// program, the Ref of the call throws FunctionNotFound.
class ExceptionTypes {
 public:
  constexpr ExceptionTypes() = default;  // an empty list
  template <class... E>
  ExceptionTypes(detail::Types<E...>) : registered_{detail::RegisteredTypes<E...>::registered} {}
  ExceptionTypes(detail::Types<>) {}

  const detail::RegisteredFunction* registered() const { return registered_; }

 private:
  const detail::RegisteredFunction* registered_ = nullptr;
};

}  // namespace pharos
