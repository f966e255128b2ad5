#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/wire/bytes.hpp>
#include <pharos/wire/codec_fields.hpp>
#include <pharos/wire/codec_kinds.hpp>
#include <pharos/wire/codec_refusals.hpp>
#include <pharos/wire/decoder.hpp>
#include <pharos/wire/encoder.hpp>

namespace pharos {

namespace detail {
template <class T, Kind kind>
struct KindCodec;
}  // namespace detail

/// Converts a T to bytes and back: `static void encode(const T&, Encoder&)` and `static T decode(Decoder&)`.
///
/// These types need no code: numbers, bool, enums, strings, the standard containers, optional, variant, tuple, pair,
/// unique_ptr, complex, durations and time points, paths, Bytes, and structs of up to 64 fields of such types, with any
/// nesting. A class with private members or a base class lists its fields in one function, through which encoding reads
/// the fields and decoding writes them:
///
///   auto pharos_fields() { return std::tie(name_, weights_); }
///   auto pharos_fields() { return std::tuple_cat(Base::pharos_fields(), std::tie(depth_)); }
///
/// For other types specialise Codec. The specialisation must write at least one byte (a container's count is checked
/// against the bytes that are left), and must call `from.fail()` on bytes that are not a value. It needs a `static
/// constexpr std::string_view kFormat = "my.Type/1"` if to_bytes() is to accept the type. An enum may have a function
/// `constexpr bool pharos_valid(Colour)` in its namespace; values that arrive must satisfy it.
///
/// Encoding fails (`Encoder::failed()`) for values nested deeper than kNestingMax and for a variant without a value.
/// For bytes that are not a value, decode() returns some value and `Decoder::failed()` is true: the caller must ask.
/// Neither function throws, except what the constructors of T and codecs of users throw, std::bad_alloc and
/// EncodedTooLarge. Codecs have no state: any thread may call them, with an Encoder or Decoder of its own. Decoded
/// values own their bytes, except that Bytes and SharedSpans may share the Decoder's owner.
template <class T>
struct Codec : detail::KindCodec<T, detail::kKind<T>> {};

/// The Codec of a trivially copyable class without pointers and padding: copies its bytes. Every pattern of bytes is
/// accepted when decoding.
/// `template <> struct pharos::Codec<Version> : pharos::PlainCodec<Version> {};`
template <class T>
struct PlainCodec {
  static_assert(std::is_trivially_copyable_v<T>, "only a trivially copyable class is its bytes");
  static void encode(const T& value, Encoder& to) { to.write(&value, sizeof value); }
  static T decode(Decoder& from) {
    if constexpr (std::is_default_constructible_v<T>) {
      T value;
      from.read(static_cast<void*>(&value), sizeof value);
      return value;
    } else {
      alignas(T) std::byte storage[sizeof(T)];
      from.read(storage, sizeof storage);
      return *std::launder(reinterpret_cast<T*>(storage));
    }
  }
};

namespace detail {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory, lowest byte first");

/// The base of the Codecs that Pharos provides; a Codec that a user wrote does not have it.
struct OfPharos {};
template <class T>
inline constexpr bool kOwnCodec = !std::is_base_of_v<OfPharos, Codec<T>>;

/// True if the bytes of a T can be copied to the wire and back unchanged: no byte is padding, and all byte patterns are
/// valid values.
template <class T>
consteval bool is_plain();
template <class T>
inline constexpr bool kPlain = is_plain<T>();

template <class T>
concept CheckedEnum = requires(T value) {
  { pharos_valid(value) } -> std::same_as<bool>;
};

template <class T, class... Fields>
consteval bool are_plain(Types<Fields...>) {
  if constexpr ((kPlain<std::remove_cv_t<Fields>> && ...)) {
    constexpr bool kUnique = (std::has_unique_object_representations_v<Fields> && ...);  // bit-fields may leave gaps
    return (0 + ... + sizeof(Fields)) == sizeof(T) && (!kUnique || std::has_unique_object_representations_v<T>);
  } else {
    return false;
  }
}

// NOLINTBEGIN(bugprone-branch-clone): each branch uses members that only its own kind of type has.
template <class T>
consteval bool is_plain() {
  if constexpr (std::is_array_v<T>) {
    return kPlain<std::remove_cv_t<std::remove_extent_t<T>>>;
  } else if constexpr (kOwnCodec<T>) {
    return std::is_base_of_v<PlainCodec<T>, Codec<T>>;
  } else if constexpr (kKind<T> == Kind::kNumber) {
    return true;
  } else if constexpr (kKind<T> == Kind::kEnum) {
    return !CheckedEnum<T> && !std::is_same_v<std::underlying_type_t<T>, bool>;
  } else if constexpr (!std::is_trivially_copyable_v<T>) {
    return false;
  } else if constexpr (kKind<T> == Kind::kComplex) {
    return kPlain<typename T::value_type>;
  } else if constexpr (kKind<T> == Kind::kDuration) {
    return kPlain<typename T::rep>;
  } else if constexpr (kKind<T> == Kind::kTimePoint) {
    return kPlain<typename T::duration>;
  } else if constexpr (kKind<T> == Kind::kArray) {
    if constexpr (std::tuple_size_v<T> == 0) {
      return false;
    } else {
      return kPlain<std::remove_cv_t<typename T::value_type>>;
    }
  } else if constexpr (kKind<T> == Kind::kAggregate && !std::is_empty_v<T>) {
    return are_plain<T>(FieldTypes<T>{});
  } else {
    return false;
  }
}
// NOLINTEND(bugprone-branch-clone)

// C arrays may be fields, but a Codec cannot return them. So they are handled here.

template <class T>
void encode_value(const T& value, Encoder& to) {
  if constexpr (!std::is_array_v<T>) {
    Codec<T>::encode(value, to);
  } else if constexpr (kPlain<T>) {
    to.write(&value, sizeof value);
  } else {
    for (const auto& element : value) encode_value(element, to);
  }
}

template <class T>
void decode_into(T& value, Decoder& from) {
  if constexpr (!std::is_array_v<T>) {
    value = Codec<T>::decode(from);
  } else if constexpr (kPlain<T>) {
    from.read(&value, sizeof value);
  } else {
    for (auto& element : value) decode_into(element, from);
  }
}

// An empty list of fields is encoded as one zero byte, because every value must have at least one byte.

inline void encode_fields(Encoder& to) {
  to.write("", 1);
}
template <class... Fields>
requires(sizeof...(Fields) != 0) void encode_fields(Encoder& to, const Fields&... fields) {
  (encode_value(fields, to), ...);
}
inline void decode_nothing(Decoder& from) {
  std::uint8_t byte = 0;
  from.read(&byte, 1);
  if (byte != 0) from.fail();
}

/// Reads a byte that must be zero or one.
inline bool decode_flag(Decoder& from) {
  std::uint8_t byte = 0;
  from.read(&byte, 1);
  if (byte > 1) from.fail();
  return byte == 1;
}

inline void encode_count(std::size_t count, Encoder& to) {
  const std::uint64_t wide = count;
  to.write(&wide, sizeof wide);
}

/// How much memory may be reserved for elements that are not decoded yet, per byte that is left.
inline constexpr std::size_t kMemoryPerByte = 16;

/// Reserves memory for `count` elements if the container supports it, but not more than kMemoryPerByte allows.
template <class T>
void reserve(T& container, std::size_t count, const Decoder& from) {
  if constexpr (requires { container.reserve(count); }) {
    const std::size_t most = from.left() / sizeof(typename T::value_type) * kMemoryPerByte + 1;
    container.reserve(count < most ? count : most);
  }
}

template <class T>
void encode_elements(const T& container, Encoder& to) {
  const Nested nested{to};
  if (to.failed()) return;
  encode_count(container.size(), to);
  for (const auto& element : container) Codec<typename T::value_type>::encode(element, to);
}

/// For types that cannot be encoded: fails to compile with the reason.
template <class T, Kind kind>
struct KindCodec : OfPharos {
  static void encode(const T&, Encoder&) { check_kind<T>(); }
  static T decode(Decoder&) {
    check_kind<T>();
    __builtin_unreachable();
  }
};

template <class T>
struct KindCodec<T, Kind::kNumber> : OfPharos, PlainCodec<T> {};
template <class T>
struct KindCodec<T, Kind::kComplex> : OfPharos, PlainCodec<T> {};

template <class T>
struct KindCodec<T, Kind::kBool> : OfPharos {
  static void encode(bool value, Encoder& to) { to.write(&value, 1); }
  static bool decode(Decoder& from) { return decode_flag(from); }
};

template <class T>
struct KindCodec<T, Kind::kEnum> : OfPharos {
  using Number = std::underlying_type_t<T>;
  static void encode(T value, Encoder& to) { Codec<Number>::encode(static_cast<Number>(value), to); }
  static T decode(Decoder& from) {
    const auto value = static_cast<T>(Codec<Number>::decode(from));
    if constexpr (CheckedEnum<T>) {
      if (!pharos_valid(value)) from.fail();
    }
    return value;
  }
};

template <class T>
struct KindCodec<T, Kind::kDuration> : OfPharos {
  static void encode(T value, Encoder& to) { Codec<typename T::rep>::encode(value.count(), to); }
  static T decode(Decoder& from) { return T{Codec<typename T::rep>::decode(from)}; }
};
template <class T>
struct KindCodec<T, Kind::kTimePoint> : OfPharos {
  static void encode(T value, Encoder& to) { Codec<typename T::duration>::encode(value.time_since_epoch(), to); }
  static T decode(Decoder& from) { return T{Codec<typename T::duration>::decode(from)}; }
};

template <class T>
struct KindCodec<T, Kind::kPath> : OfPharos {
  static void encode(const T& value, Encoder& to) { Codec<typename T::string_type>::encode(value.native(), to); }
  static T decode(Decoder& from) { return T{Codec<typename T::string_type>::decode(from)}; }
};

template <class T>
struct KindCodec<T, Kind::kArray> : OfPharos {
  using Element = typename T::value_type;
  static constexpr std::size_t kCount = std::tuple_size_v<T>;

  static void encode(const T& value, Encoder& to) {
    if constexpr (kPlain<T>) {
      to.write(&value, sizeof value);
    } else if constexpr (kCount == 0) {
      encode_fields(to);
    } else {
      for (const Element& element : value) encode_value(element, to);
    }
  }
  static T decode(Decoder& from) {
    if constexpr (kPlain<T>) {
      return PlainCodec<T>::decode(from);
    } else if constexpr (kCount == 0) {
      decode_nothing(from);
      return {};
    } else if constexpr (std::is_default_constructible_v<T>) {
      T value{};
      for (Element& element : value) decode_into(element, from);
      return value;
    } else {
      return decode_all(from, std::make_index_sequence<kCount>{});
    }
  }

 private:
  template <std::size_t... indexes>
  static T decode_all(Decoder& from, std::index_sequence<indexes...>) {
    return T{{(static_cast<void>(indexes), Codec<Element>::decode(from))...}};
  }
};

/// For strings, vectors, deques and lists.
template <class T>
struct KindCodec<T, Kind::kSequence> : OfPharos {
  using Element = typename T::value_type;
  static constexpr bool kContiguous =
      kPlain<Element> && std::is_default_constructible_v<Element> && requires(T & value) {
    value.data();
    value.resize(1);
  };

  static void encode(const T& value, Encoder& to) {
    if constexpr (kContiguous) {
      encode_count(value.size(), to);
      to.write(value.data(), value.size() * sizeof(Element));
    } else {
      encode_elements(value, to);
    }
  }
  static T decode(Decoder& from) {
    T value;
    if constexpr (kContiguous) {
      read_pieces(value, from.read_count(sizeof(Element)), from);
    } else {
      const Nested nested{from};
      const std::size_t count = from.read_count();
      reserve(value, count, from);
      for (std::size_t i = 0; i < count && !from.failed(); ++i) value.push_back(Codec<Element>::decode(from));
    }
    return value;
  }

 private:
  static constexpr std::size_t kPiece = 4096 / sizeof(Element) + 1;

  // resize() would write all elements of a large container to memory before read() overwrites them. So the elements are
  // appended in pieces that fit into the first-level cache, and the memory is written once.
  static void read_pieces(T& value, std::size_t count, Decoder& from) {
    if (count <= kPiece) {
      value.resize(count);
      from.read(value.data(), count * sizeof(Element));
      return;
    }
    value.reserve(count);
    Element piece[kPiece];
    for (std::size_t left = count; left != 0;) {
      const std::size_t next = left < kPiece ? left : kPiece;
      from.read(piece, next * sizeof(Element));
      value.insert(value.end(), piece, piece + next);
      left -= next;
    }
  }
};

/// True for sets and maps with unique keys, whose insert() returns a pair.
template <class T>
inline constexpr bool kUniqueKeys = requires(T& container, const typename T::value_type& value) {
  container.insert(value).second;
};

template <class T>
struct KindCodec<T, Kind::kSet> : OfPharos {
  static void encode(const T& value, Encoder& to) { encode_elements(value, to); }
  static T decode(Decoder& from) {
    const Nested nested{from};
    T value;
    const std::size_t count = from.read_count();
    reserve(value, count, from);
    for (std::size_t i = 0; i < count && !from.failed(); ++i) {
      value.emplace_hint(value.end(), Codec<typename T::key_type>::decode(from));
      if (kUniqueKeys<T> && value.size() != i + 1) from.fail();
    }
    return value;
  }
};

template <class T>
struct KindCodec<T, Kind::kMap> : OfPharos {
  static void encode(const T& value, Encoder& to) {
    const Nested nested{to};
    if (to.failed()) return;
    encode_count(value.size(), to);
    for (const auto& [key, mapped] : value) encode_fields(to, key, mapped);
  }
  static T decode(Decoder& from) {
    const Nested nested{from};
    T value;
    const std::size_t count = from.read_count();
    reserve(value, count, from);
    for (std::size_t i = 0; i < count && !from.failed(); ++i) {
      auto key = Codec<typename T::key_type>::decode(from);
      auto mapped = Codec<typename T::mapped_type>::decode(from);
      value.emplace_hint(value.end(), std::move(key), std::move(mapped));
      if (kUniqueKeys<T> && value.size() != i + 1) from.fail();
    }
    return value;
  }
};

template <class T>
struct KindCodec<T, Kind::kOptional> : OfPharos {
  static void encode(const T& value, Encoder& to) {
    Codec<bool>::encode(value.has_value(), to);
    if (value.has_value()) Codec<std::remove_const_t<typename T::value_type>>::encode(*value, to);
  }
  static T decode(Decoder& from) {
    if (!decode_flag(from)) return std::nullopt;
    return T{std::in_place, Codec<std::remove_const_t<typename T::value_type>>::decode(from)};
  }
};

template <class T>
struct KindCodec<T, Kind::kUniquePtr> : OfPharos {
  using Element = std::remove_const_t<typename T::element_type>;

  static void encode(const T& value, Encoder& to) {
    const Nested nested{to};
    if (to.failed()) return;
    Codec<bool>::encode(value != nullptr, to);
    if (value != nullptr) Codec<Element>::encode(*value, to);
  }
  static T decode(Decoder& from) {
    const Nested nested{from};
    if (!decode_flag(from)) return nullptr;
    return T{new Element(Codec<Element>::decode(from))};  // constructed in place: a large object is never on the stack
  }
};

template <class... Ts>
struct KindCodec<std::tuple<Ts...>, Kind::kTuple> : OfPharos {
  static void encode(const std::tuple<Ts...>& value, Encoder& to) {
    std::apply([&to](const Ts&... elements) { encode_fields(to, elements...); }, value);
  }
  static std::tuple<Ts...> decode(Decoder& from) {
    if constexpr (sizeof...(Ts) == 0) decode_nothing(from);
    return std::tuple<Ts...>{Codec<std::remove_const_t<Ts>>::decode(from)...};  // braces evaluate from left to right
  }
};
template <class A, class B>
struct KindCodec<std::pair<A, B>, Kind::kTuple> : OfPharos {
  static void encode(const std::pair<A, B>& value, Encoder& to) { encode_fields(to, value.first, value.second); }
  static std::pair<A, B> decode(Decoder& from) {
    return std::pair<A, B>{Codec<std::remove_const_t<A>>::decode(from), Codec<std::remove_const_t<B>>::decode(from)};
  }
};

template <template <class...> class V, class... Ts>
struct KindCodec<V<Ts...>, Kind::kVariant> : OfPharos {
  using T = V<Ts...>;
  using Index = std::uint16_t;

  static void encode(const T& value, Encoder& to) {
    if (value.valueless_by_exception()) return to.fail(CodecFailure::kInvalid);
    const auto index = static_cast<Index>(value.index());
    to.write(&index, sizeof index);
    encode_alternative(value, to, std::index_sequence_for<Ts...>{});
  }
  static T decode(Decoder& from) {
    const auto index = Codec<Index>::decode(from);
    if (index >= sizeof...(Ts)) from.fail();
    return decode_alternative(from.failed() ? 0 : index, from, std::index_sequence_for<Ts...>{});
  }

 private:
  template <std::size_t... indexes>
  static void encode_alternative(const T& value, Encoder& to, std::index_sequence<indexes...>) {
    static_cast<void>(((value.index() == indexes && (Codec<Ts>::encode(get<indexes>(value), to), true)) || ...));
  }
  template <std::size_t... indexes>
  static T decode_alternative(Index index, Decoder& from, std::index_sequence<indexes...>) {
    using Decode = T (*)(Decoder&);
    static constexpr Decode kDecode[] = {[](Decoder& source) {
      return T{std::in_place_index<indexes>, Codec<Ts>::decode(source)};
    }...};
    return kDecode[index](from);
  }
};

template <class T>
struct KindCodec<T, Kind::kAggregate> : OfPharos {
  static void encode(const T& value, Encoder& to) {
    if constexpr (kPlain<T>) {
      to.write(&value, sizeof value);
    } else {
      visit_fields(value, [&to](const auto&... fields) { encode_fields(to, fields...); });
    }
  }
  static T decode(Decoder& from) {
    if constexpr (kPlain<T>) {
      return PlainCodec<T>::decode(from);
    } else {
      return decode_fields(from, FieldTypes<T>{});
    }
  }

 private:
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // bit-fields
  template <class... Fields>
  static T decode_fields(Decoder& from, Types<Fields...>) {
    if constexpr ((std::is_array_v<Fields> || ...)) {
      T value{};
      visit_fields(value, [&from](auto&... fields) { (decode_into(fields, from), ...); });
      return value;
    } else {
      if constexpr (sizeof...(Fields) == 0) decode_nothing(from);
      return T{Codec<std::remove_cv_t<Fields>>::decode(from)...};  // braces evaluate from left to right
    }
  }
#pragma GCC diagnostic pop
};

template <class T>
struct KindCodec<T, Kind::kNamedFields> : OfPharos {
  static void encode(const T& value, Encoder& to) {
    // pharos_fields() is not const, so that one function serves for reading and writing. The fields are only read here.
    std::apply([&to](const auto&... fields) { encode_fields(to, fields...); }, const_cast<T&>(value).pharos_fields());
  }
  static T decode(Decoder& from) {
    T value{};
    auto fields = value.pharos_fields();
    if constexpr (std::tuple_size_v<decltype(fields)> == 0) decode_nothing(from);
    std::apply([&from](auto&... field) { (decode_into(field, from), ...); }, fields);
    return value;
  }
};

/// True if T has a usable Codec. Does not examine the types inside T.
template <class T>
inline constexpr bool kTravels = kOwnCodec<T> || travels(kKind<T>);

template <class... Fields>
Types<std::remove_reference_t<Fields>...> types_of(const std::tuple<Fields...>&);

/// The types of the direct parts of a T, as Types<...>.
template <class T>
consteval auto parts_of() {
  constexpr Kind kFound = kKind<T>;
  if constexpr (kOwnCodec<T>) {
    return Types<>{};
  } else if constexpr (kFound == Kind::kArray || kFound == Kind::kSequence || kFound == Kind::kSet ||
                       kFound == Kind::kOptional) {
    return Types<typename T::value_type>{};
  } else if constexpr (kFound == Kind::kMap) {
    return Types<typename T::key_type, typename T::mapped_type>{};
  } else if constexpr (kFound == Kind::kTuple || kFound == Kind::kVariant) {
    return typename ArgumentsOf<T>::Are{};
  } else if constexpr (kFound == Kind::kUniquePtr) {
    return Types<typename T::element_type>{};
  } else if constexpr (kFound == Kind::kAggregate) {
    return FieldTypes<T>{};
  } else if constexpr (kFound == Kind::kNamedFields) {
    return decltype(types_of(std::declval<T&>().pharos_fields())){};
  } else {
    return Types<>{};
  }
}

template <class... Parts>
constexpr void check_parts(Types<Parts...>);

/// Fails to compile if T or a part of T cannot be encoded, with the reason and an alternative. It runs before the
/// codecs are instantiated, so that the compiler's messages name the path of types to the innermost such part, not the
/// functions that encode them.
template <class T>
constexpr void check_travels() {
  if constexpr (!kOwnCodec<T>) {
    check_kind<T>();
    check_parts(parts_of<T>());
  }
}
template <class... Parts>
constexpr void check_parts(Types<Parts...>) {
  // The functions are instantiated, but not called, because a type may be a part of itself.
  (static_cast<void>(&check_travels<std::remove_cv_t<std::remove_all_extents_t<Parts>>>), ...);
}

}  // namespace detail

template <>
struct Codec<std::string> : detail::OfPharos {
  static void encode(std::string_view value, Encoder& to) {
    detail::encode_count(value.size(), to);
    to.write(value.data(), value.size());
  }
  static std::string decode(Decoder& from) {
    const auto bytes = from.take(from.read_count());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

template <>
struct Codec<Bytes> {
  static constexpr std::string_view kFormat = "pharos.Bytes/1";
  static void encode(const Bytes& value, Encoder& to) {
    detail::encode_count(value.size(), to);
    to.write_shared(value);
  }
  static Bytes decode(Decoder& from) { return from.take_shared(from.read_count()); }
};

}  // namespace pharos
