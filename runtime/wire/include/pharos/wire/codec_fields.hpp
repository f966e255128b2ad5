#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

/// Finds the fields of aggregates without help from their author. The number of fields is found by trying how many
/// initialisers the aggregate accepts; the fields themselves are reached with structured bindings. All of this happens
/// at compile time, except that visit_fields() passes references to the fields of a value to its visitor.
namespace pharos::detail {

template <class... Ts>
struct Types {
  static constexpr std::size_t kCount = sizeof...(Ts);
};

inline constexpr std::size_t kFieldsMax = 64;

/// The operations on aggregates with `count` fields.
template <std::size_t count>
struct BoundFields {
  template <class T, class... More>
  static constexpr bool kFits = false;
};

template <>
struct BoundFields<0> {
  template <class T, class... More>
  static constexpr bool kFits = requires {
    T{More{}...};
  };
  template <class T>
  static Types<> types(T& value);
  template <class T, class Visitor>
  static decltype(auto) visit(T&, Visitor&& visitor) {
    return visitor();
  }
};

// The macros make lists of up to 64 fields: full rows of eight, named a1 to a8, b1 to b8 and so on, then a partial row.
// clang-format off
#define PHAROS_1(X, row) X(row##1)
#define PHAROS_2(X, row) PHAROS_1(X, row), X(row##2)
#define PHAROS_3(X, row) PHAROS_2(X, row), X(row##3)
#define PHAROS_4(X, row) PHAROS_3(X, row), X(row##4)
#define PHAROS_5(X, row) PHAROS_4(X, row), X(row##5)
#define PHAROS_6(X, row) PHAROS_5(X, row), X(row##6)
#define PHAROS_7(X, row) PHAROS_6(X, row), X(row##7)
#define PHAROS_8(X, row) PHAROS_7(X, row), X(row##8)
#define PHAROS_ROWS_0(X)
#define PHAROS_ROWS_1(X) PHAROS_8(X, a),
#define PHAROS_ROWS_2(X) PHAROS_ROWS_1(X) PHAROS_8(X, b),
#define PHAROS_ROWS_3(X) PHAROS_ROWS_2(X) PHAROS_8(X, c),
#define PHAROS_ROWS_4(X) PHAROS_ROWS_3(X) PHAROS_8(X, d),
#define PHAROS_ROWS_5(X) PHAROS_ROWS_4(X) PHAROS_8(X, e),
#define PHAROS_ROWS_6(X) PHAROS_ROWS_5(X) PHAROS_8(X, f),
#define PHAROS_ROWS_7(X) PHAROS_ROWS_6(X) PHAROS_8(X, g),
#define PHAROS_NAME(field) field
#define PHAROS_TYPE(field) decltype(field)
#define PHAROS_BRACES(field) {}

#define PHAROS_BIND(rows, row, rest)                                                                           \
  template <>                                                                                                  \
  struct BoundFields<8 * rows + rest> {                                                                        \
    template <class T, class... More>                                                                          \
    static constexpr bool kFits = requires {                                                                   \
      T{PHAROS_ROWS_##rows(PHAROS_BRACES) PHAROS_##rest(PHAROS_BRACES, row), More{}...};                       \
    };                                                                                                         \
    template <class T>                                                                                         \
    static auto types(T& value) {                                                                              \
      [[maybe_unused]] auto& [PHAROS_ROWS_##rows(PHAROS_NAME) PHAROS_##rest(PHAROS_NAME, row)] = value;        \
      return Types<PHAROS_ROWS_##rows(PHAROS_TYPE) PHAROS_##rest(PHAROS_TYPE, row)>{};                         \
    }                                                                                                          \
    template <class T, class Visitor>                                                                          \
    static decltype(auto) visit(T& value, Visitor&& visitor) {                                                 \
      auto& [PHAROS_ROWS_##rows(PHAROS_NAME) PHAROS_##rest(PHAROS_NAME, row)] = value;                         \
      return visitor(PHAROS_ROWS_##rows(PHAROS_NAME) PHAROS_##rest(PHAROS_NAME, row));                         \
    }                                                                                                          \
  }
PHAROS_BIND(0, a, 1); PHAROS_BIND(0, a, 2); PHAROS_BIND(0, a, 3); PHAROS_BIND(0, a, 4);
PHAROS_BIND(0, a, 5); PHAROS_BIND(0, a, 6); PHAROS_BIND(0, a, 7); PHAROS_BIND(0, a, 8);
PHAROS_BIND(1, b, 1); PHAROS_BIND(1, b, 2); PHAROS_BIND(1, b, 3); PHAROS_BIND(1, b, 4);
PHAROS_BIND(1, b, 5); PHAROS_BIND(1, b, 6); PHAROS_BIND(1, b, 7); PHAROS_BIND(1, b, 8);
PHAROS_BIND(2, c, 1); PHAROS_BIND(2, c, 2); PHAROS_BIND(2, c, 3); PHAROS_BIND(2, c, 4);
PHAROS_BIND(2, c, 5); PHAROS_BIND(2, c, 6); PHAROS_BIND(2, c, 7); PHAROS_BIND(2, c, 8);
PHAROS_BIND(3, d, 1); PHAROS_BIND(3, d, 2); PHAROS_BIND(3, d, 3); PHAROS_BIND(3, d, 4);
PHAROS_BIND(3, d, 5); PHAROS_BIND(3, d, 6); PHAROS_BIND(3, d, 7); PHAROS_BIND(3, d, 8);
PHAROS_BIND(4, e, 1); PHAROS_BIND(4, e, 2); PHAROS_BIND(4, e, 3); PHAROS_BIND(4, e, 4);
PHAROS_BIND(4, e, 5); PHAROS_BIND(4, e, 6); PHAROS_BIND(4, e, 7); PHAROS_BIND(4, e, 8);
PHAROS_BIND(5, f, 1); PHAROS_BIND(5, f, 2); PHAROS_BIND(5, f, 3); PHAROS_BIND(5, f, 4);
PHAROS_BIND(5, f, 5); PHAROS_BIND(5, f, 6); PHAROS_BIND(5, f, 7); PHAROS_BIND(5, f, 8);
PHAROS_BIND(6, g, 1); PHAROS_BIND(6, g, 2); PHAROS_BIND(6, g, 3); PHAROS_BIND(6, g, 4);
PHAROS_BIND(6, g, 5); PHAROS_BIND(6, g, 6); PHAROS_BIND(6, g, 7); PHAROS_BIND(6, g, 8);
PHAROS_BIND(7, h, 1); PHAROS_BIND(7, h, 2); PHAROS_BIND(7, h, 3); PHAROS_BIND(7, h, 4);
PHAROS_BIND(7, h, 5); PHAROS_BIND(7, h, 6); PHAROS_BIND(7, h, 7); PHAROS_BIND(7, h, 8);
#undef PHAROS_BIND
#undef PHAROS_BRACES
#undef PHAROS_TYPE
#undef PHAROS_NAME
#undef PHAROS_ROWS_7
#undef PHAROS_ROWS_6
#undef PHAROS_ROWS_5
#undef PHAROS_ROWS_4
#undef PHAROS_ROWS_3
#undef PHAROS_ROWS_2
#undef PHAROS_ROWS_1
#undef PHAROS_ROWS_0
#undef PHAROS_8
#undef PHAROS_7
#undef PHAROS_6
#undef PHAROS_5
#undef PHAROS_4
#undef PHAROS_3
#undef PHAROS_2
#undef PHAROS_1
// clang-format on

// The conversion operators of AnyField and AnyBaseOf are never called. They have bodies because clang requires bodies
// for types without linkage.

/// Converts to any type, and so fits any field that can be initialised from a value.
struct AnyField {
  template <class T>
  operator T() const {
    __builtin_unreachable();
  }
};

/// Converts to any base class of T.
template <class T>
struct AnyBaseOf {
  template <class Base>
  requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>) operator Base() const { __builtin_unreachable(); }
};

template <class T>
inline constexpr bool kHasBase = requires {
  T{AnyBaseOf<T>{}};
};

template <class T, std::size_t... indexes>
consteval bool fits_any(std::index_sequence<indexes...>) {
  return requires {
    T{(static_cast<void>(indexes), AnyField{})...};
  };
}

inline constexpr std::size_t kFieldsUnknown = kFieldsMax + 2;

/// Returns how many `{}` initialisers T accepts. This is the number of fields (a C array is one field), unless a field
/// cannot be initialised with `{}`.
template <class T, std::size_t count = 0, bool fitted = false>
consteval std::size_t count_braces() {
  constexpr bool kFits = BoundFields<count>::template kFits<T>;
  if constexpr (fitted && !kFits) {
    return count - 1;
  } else if constexpr (count == kFieldsMax) {
    return kFits ? count : kFieldsUnknown;
  } else {
    return count_braces<T, count + 1, kFits>();
  }
}

/// Returns how many AnyField initialisers T accepts. This is the number of fields, unless there are C arrays, whose
/// elements are counted one by one.
template <class T, std::size_t count = 0, bool fitted = false>
consteval std::size_t count_values() {
  constexpr bool kFits = fits_any<T>(std::make_index_sequence<count>{});
  if constexpr (fitted && !kFits) {
    return count - 1;
  } else if constexpr (count > kFieldsMax) {
    return kFits ? count : kFieldsUnknown;
  } else {
    return count_values<T, count + 1, kFits>();
  }
}

// NOLINTBEGIN(bugprone-branch-clone): the second condition is only valid code if the first condition is false.
template <class T>
consteval std::size_t count_fields() {
  constexpr std::size_t kBraces = count_braces<T>();
  if constexpr (kBraces > kFieldsMax) {
    return count_values<T>();
  } else if constexpr (BoundFields<kBraces>::template kFits<T, AnyField>) {
    return count_values<T>();  // the next field cannot be initialised with `{}`, or is the 65th field
  } else {
    return kBraces;
  }
}
// NOLINTEND(bugprone-branch-clone)

/// The number of fields of an aggregate. More than kFieldsMax if there are more fields; kFieldsUnknown if the number
/// cannot be found, because a field fits no initialiser.
template <class T>
inline constexpr std::size_t kFieldCount = count_fields<T>();

/// The declared types of an aggregate's fields, as Types<...>. Does not compile if kFieldCount is above kFieldsMax;
/// codec_refusals.hpp has the messages for that.
template <class T>
using FieldTypes = decltype(BoundFields<kFieldCount<T>>::types(std::declval<T&>()));

/// Calls visitor(fields...) and returns its result.
template <class T, class Visitor>
decltype(auto) visit_fields(T& value, Visitor&& visitor) {
  return BoundFields<kFieldCount<std::remove_const_t<T>>>::visit(value, visitor);
}

}  // namespace pharos::detail
