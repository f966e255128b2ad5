#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <pharos/wire/codec_fields.hpp>

/// Classifies types: the kind of a type T decides how T is encoded, or why it cannot be. The larger headers of the
/// standard library are not included for this. A map, for example, is recognised by its member types, so that the maps
/// of other libraries are recognised too. All of this happens at compile time.
namespace pharos::detail {

enum class Kind : std::uint8_t {
  kNone,
  // Kinds that can be encoded.
  kBool,
  kNumber,
  kEnum,
  kComplex,
  kDuration,
  kTimePoint,
  kPath,
  kArray,
  kSequence,
  kMap,
  kSet,
  kTuple,
  kOptional,
  kVariant,
  kUniquePtr,
  kAggregate,
  kNamedFields,  // a class with pharos_fields()
  // Kinds that cannot be encoded. codec_refusals.hpp has the messages for users.
  kPointer,
  kReference,
  kFunction,
  kView,
  kSharedPtr,
  kOddUniquePtr,
  kUniquePtrToVirtual,
  kSynchronization,
  kUnion,
  kLongDouble,
  kEnumOfNoType,
  kStatefulKeys,
  kVirtual,
  kBase,
  kTooManyFields,
  kOddField,
  kInheritedFields,
  kOddFieldList,
  kNoDefault,
  kOpaque,
};
inline constexpr bool travels(Kind kind) {
  return kind != Kind::kNone && kind < Kind::kPointer;
}

/// The kind of types that are recognised by their name; kNone for other types.
template <class T>
inline constexpr Kind kNamedKind = Kind::kNone;
template <class... Ts>
inline constexpr Kind kNamedKind<std::tuple<Ts...>> = (std::is_reference_v<Ts> || ...) ? Kind::kReference
                                                                                       : Kind::kTuple;
template <class A, class B>
inline constexpr Kind kNamedKind<std::pair<A, B>> =
    std::is_reference_v<A> || std::is_reference_v<B> ? Kind::kReference : Kind::kTuple;
template <class T, std::size_t count>
inline constexpr Kind kNamedKind<std::array<T, count>> = Kind::kArray;
template <class T>
inline constexpr Kind kNamedKind<std::optional<T>> = Kind::kOptional;
template <class T, class Deleter>
inline constexpr Kind kNamedKind<std::unique_ptr<T, Deleter>> = Kind::kOddUniquePtr;
template <class T>
inline constexpr Kind kNamedKind<std::unique_ptr<T>> =
    std::is_polymorphic_v<T> && !std::is_final_v<T> ? Kind::kUniquePtrToVirtual : Kind::kUniquePtr;
template <class T>
inline constexpr Kind kNamedKind<std::unique_ptr<T[]>> = Kind::kOddUniquePtr;
template <class T>
inline constexpr Kind kNamedKind<std::shared_ptr<T>> = Kind::kSharedPtr;
template <class T>
inline constexpr Kind kNamedKind<std::weak_ptr<T>> = Kind::kSharedPtr;
template <class T>
inline constexpr Kind kNamedKind<std::initializer_list<T>> = Kind::kView;
template <template <class> class F, class R, class... Args>  // std::function and similar templates
inline constexpr Kind kNamedKind<F<R(Args...)>> = Kind::kFunction;

template <class T>
struct ArgumentsOf {
  using Are = void;
};
template <template <class...> class C, class... Args>
struct ArgumentsOf<C<Args...>> {
  using Are = Types<Args...>;
};
/// T is an instance of a template with exactly these arguments. A class that derives from a vector does not match.
template <class T, class... Args>
concept MadeOf = std::same_as<typename ArgumentsOf<T>::Are, Types<Args...>>;

template <class T>
concept SequenceLike =
    (MadeOf<T, typename T::value_type, typename T::allocator_type> ||
     requires { requires MadeOf<T, typename T::value_type, typename T::traits_type, typename T::allocator_type>; }) &&
    requires(T& value) {
  value.push_back(std::declval<typename T::value_type>());
};
template <class T>
concept OrderedSet = MadeOf<T, typename T::key_type, typename T::key_compare, typename T::allocator_type>;
template <class T>
concept HashedSet =
    MadeOf<T, typename T::key_type, typename T::hasher, typename T::key_equal, typename T::allocator_type>;
template <class T>
concept OrderedMap =
    MadeOf<T, typename T::key_type, typename T::mapped_type, typename T::key_compare, typename T::allocator_type>;
template <class T>
concept HashedMap = MadeOf<T, typename T::key_type, typename T::mapped_type, typename T::hasher, typename T::key_equal,
                           typename T::allocator_type>;

/// True for a comparison or hash without state, which is therefore the same in every process.
template <class F>
inline constexpr bool kStateless = std::is_empty_v<F>&& std::is_default_constructible_v<F>;

template <class T>
consteval Kind container_kind() {
  if constexpr (SequenceLike<T>) {
    return Kind::kSequence;
  } else if constexpr (OrderedSet<T>) {
    return kStateless<typename T::key_compare> ? Kind::kSet : Kind::kStatefulKeys;
  } else if constexpr (OrderedMap<T>) {
    return kStateless<typename T::key_compare> ? Kind::kMap : Kind::kStatefulKeys;
  } else if constexpr (HashedSet<T>) {
    return kStateless<typename T::hasher> && kStateless<typename T::key_equal> ? Kind::kSet : Kind::kStatefulKeys;
  } else if constexpr (HashedMap<T>) {
    return kStateless<typename T::hasher> && kStateless<typename T::key_equal> ? Kind::kMap : Kind::kStatefulKeys;
  } else {
    return Kind::kNone;
  }
}

template <class T>
concept VariantLike = requires(const T& value) {
  { value.valueless_by_exception() } -> std::same_as<bool>;
  { value.index() } -> std::same_as<std::size_t>;
};
template <class T>
concept ComplexLike = requires(const T& value) {
  requires MadeOf<T, typename T::value_type> && std::floating_point<typename T::value_type>;
  { value.real() } -> std::same_as<typename T::value_type>;
  { value.imag() } -> std::same_as<typename T::value_type>;
};
template <class T>
concept DurationLike = requires(const T& value) {
  requires MadeOf<T, typename T::rep, typename T::period>;
  { value.count() } -> std::same_as<typename T::rep>;
};
template <class T>
concept TimePointLike = requires(const T& value) {
  requires MadeOf<T, typename T::clock, typename T::duration>;
  { value.time_since_epoch() } -> std::same_as<typename T::duration>;
};
template <class T>
concept PathLike = requires(const T& value) {
  T::preferred_separator;
  { value.native() } -> std::same_as<const typename T::string_type&>;
};

template <class T>
concept ReferenceWrapper = requires(const T& value) {
  requires MadeOf<T, typename T::type>;
  { value.get() } -> std::same_as<typename T::type&>;
};
/// A mutex, lock, thread, atomic, condition variable or future.
template <class T>
concept Synchronization = requires(T& value) {
  value.lock();
  value.unlock();
}
|| requires(T& value) {
  value.joinable();
  value.join();
}
|| requires(T& value) {
  value.load();
  value.is_lock_free();
}
|| requires(T& value) {
  value.notify_all();
}
|| requires(T& value) {
  value.wait();
  value.valid();
}
|| requires(T& value) {
  value.test_and_set();
};

template <class T>
concept HasFields = requires(T& value) {
  value.pharos_fields();
};
/// Returns true if the function is a member of `Owner` itself, not of a base class.
template <class Owner, class Fields, class C>
consteval bool is_own(Fields (C::*)()) {
  return std::is_same_v<Owner, C>;
}
template <class... Fields>
consteval bool are_writable(std::type_identity<std::tuple<Fields...>>) {
  return ((std::is_lvalue_reference_v<Fields> && !std::is_const_v<std::remove_reference_t<Fields>>)&&...);
}
template <class T>
concept NamesFields = requires(T& value) {
  is_own<T>(&T::pharos_fields);
  requires are_writable(std::type_identity<decltype(value.pharos_fields())>{});
};

template <class T>
consteval Kind named_fields_kind() {
  if constexpr (!NamesFields<T>) {
    return Kind::kOddFieldList;
  } else if constexpr (!is_own<T>(&T::pharos_fields)) {
    return Kind::kInheritedFields;
  } else if constexpr (!std::is_default_constructible_v<T>) {
    return Kind::kNoDefault;
  } else {
    return Kind::kNamedFields;
  }
}

template <class... Fields>
consteval bool holds_reference(Types<Fields...>) {
  return (std::is_reference_v<Fields> || ...);
}

template <class T>
consteval Kind aggregate_kind() {
  if constexpr (kHasBase<T>) {
    return Kind::kBase;
  } else if constexpr (kFieldCount<T> == kFieldsUnknown) {
    return Kind::kOddField;
  } else if constexpr (kFieldCount<T> > kFieldsMax) {
    return Kind::kTooManyFields;
  } else {
    return holds_reference(FieldTypes<T>{}) ? Kind::kReference : Kind::kAggregate;
  }
}

template <class T>
consteval Kind class_kind() {
  if constexpr (kNamedKind<T> != Kind::kNone) {
    return kNamedKind<T>;
  } else if constexpr (HasFields<T>) {
    return named_fields_kind<T>();
  } else if constexpr (std::is_union_v<T>) {
    return Kind::kUnion;
  } else if constexpr (container_kind<T>() != Kind::kNone) {
    return container_kind<T>();
  } else if constexpr (std::ranges::enable_view<T> || ReferenceWrapper<T>) {
    return Kind::kView;
  } else if constexpr (VariantLike<T>) {
    return Kind::kVariant;
  } else if constexpr (ComplexLike<T>) {
    return std::is_same_v<typename T::value_type, long double> ? Kind::kLongDouble : Kind::kComplex;
  } else if constexpr (DurationLike<T>) {
    return Kind::kDuration;
  } else if constexpr (TimePointLike<T>) {
    return Kind::kTimePoint;
  } else if constexpr (PathLike<T>) {
    return Kind::kPath;
  } else if constexpr (Synchronization<T>) {
    return Kind::kSynchronization;
  } else if constexpr (std::is_polymorphic_v<T>) {
    return Kind::kVirtual;
  } else if constexpr (std::is_aggregate_v<T>) {
    return aggregate_kind<T>();
  } else {
    return Kind::kOpaque;
  }
}

/// True if the enum has an explicit underlying type, so that every number may be cast to the enum. For other enums such
/// a cast can be undefined behaviour.
template <class T>
inline constexpr bool kAnyNumberIsValid = requires {
  T{std::underlying_type_t<T>{}};
};

template <class T>
consteval Kind kind_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return Kind::kBool;
  } else if constexpr (std::is_same_v<T, long double>) {
    return Kind::kLongDouble;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return Kind::kNumber;
  } else if constexpr (std::is_enum_v<T>) {
    return kAnyNumberIsValid<T> ? Kind::kEnum : Kind::kEnumOfNoType;
  } else if constexpr (std::is_reference_v<T>) {
    return Kind::kReference;
  } else if constexpr (std::is_function_v<std::remove_pointer_t<T>> || std::is_member_function_pointer_v<T>) {
    return Kind::kFunction;
  } else if constexpr (std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>) {
    return Kind::kPointer;
  } else if constexpr (std::is_class_v<T> || std::is_union_v<T>) {
    return class_kind<T>();
  } else {
    return Kind::kOpaque;
  }
}
template <class T>
inline constexpr Kind kKind = kind_of<T>();

}  // namespace pharos::detail
