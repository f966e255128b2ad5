#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/codec.hpp>

/// Encodes values for files or for other programs. The bytes begin with a header: the version of the codec, and a hash
/// of the structure of the type (the kinds and the nesting of its fields, not their names). The header keeps the bytes
/// from being read as another type. Codecs of users need a kFormat for this; handles of actors and Refs are
/// refused by the compiler.
namespace pharos {

/// The version of the encoding. It is increased when the bytes of a value change their meaning.
inline constexpr std::uint32_t kCodecVersion = 1;

namespace detail {

consteval std::uint64_t mix(std::uint64_t hash, std::uint64_t next) {
  for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (next >> 8 * byte & 0xff)) * 0x100000001b3;  // FNV-1a
  return hash;
}
inline constexpr std::uint64_t kNoShape = 0xcbf29ce484222325;

template <class... Parts>
consteval std::uint64_t shape_from(std::string_view kind, Parts... parts) {
  std::uint64_t hash = kNoShape;
  for (const char c : kind) hash = mix(hash, static_cast<unsigned char>(c));
  ((hash = mix(hash, static_cast<std::uint64_t>(parts))), ...);
  return hash;
}

template <class T>
consteval std::string_view number_name() {
  if constexpr (std::is_floating_point_v<T>) {
    return "float";
  } else {
    return std::is_signed_v<T> ? "signed" : "unsigned";
  }
}

template <class T, class... Outer>
consteval std::uint64_t shape_of();

template <class... Outer, class... Fields>
consteval std::uint64_t shape_of_fields(Types<Fields...>) {
  return shape_from("fields", sizeof...(Fields), shape_of<std::remove_cvref_t<Fields>, Outer...>()...);
}
template <class... Outer, class... Ts>
consteval std::uint64_t shape_of_variant(Types<Ts...>) {
  return shape_from("variant", sizeof...(Ts), shape_of<Ts, Outer...>()...);
}

/// For a type that contains itself: the number of levels from the inner T to the outer T.
template <class T, class... Outer>
consteval std::uint64_t levels_up() {
  std::uint64_t levels = 0;
  static_cast<void>(((++levels, std::is_same_v<T, Outer>) || ...));
  return levels;
}

/// The hash of the structure of T. `Outer` are the types that contain T, innermost first.
template <class T, class... Outer>
consteval std::uint64_t shape_of() {
  constexpr Kind kFound = kKind<T>;
  if constexpr ((std::is_same_v<T, Outer> || ...)) {
    return shape_from("outer", levels_up<T, Outer...>());
  } else if constexpr (std::is_array_v<T>) {
    return shape_from("array", std::extent_v<T>, shape_of<std::remove_cv_t<std::remove_extent_t<T>>, Outer...>());
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return shape_of<std::vector<std::byte>>();
  } else if constexpr (kOwnCodec<T>) {
    if constexpr (requires { Codec<T>::kFormat; }) {
      return shape_from(Codec<T>::kFormat);
    } else {
      static_assert(!kOwnCodec<T>,
                    "to_bytes() needs a name for the format of a Codec that you wrote: give it static constexpr "
                    "std::string_view kFormat = \"my.Type/1\"");
      return 0;
    }
  } else if constexpr (kFound == Kind::kBool) {
    return shape_from("bool");
  } else if constexpr (kFound == Kind::kNumber) {
    return shape_from(number_name<T>(), sizeof(T));
  } else if constexpr (kFound == Kind::kEnum) {
    return shape_from("enum", shape_of<std::underlying_type_t<T>>());
  } else if constexpr (kFound == Kind::kComplex) {
    return shape_from("complex", shape_of<typename T::value_type>());
  } else if constexpr (kFound == Kind::kDuration) {
    return shape_from("duration", T::period::num, T::period::den, shape_of<typename T::rep, Outer...>());
  } else if constexpr (kFound == Kind::kTimePoint) {
    return shape_from("time point", shape_of<typename T::duration, Outer...>());
  } else if constexpr (kFound == Kind::kPath) {
    return shape_from("path");
  } else if constexpr (kFound == Kind::kArray) {
    return shape_from("array", std::tuple_size_v<T>, shape_of<typename T::value_type, Outer...>());
  } else if constexpr (kFound == Kind::kSequence) {
    return shape_from("sequence", shape_of<typename T::value_type, Outer...>());
  } else if constexpr (kFound == Kind::kSet) {
    return shape_from("set", kUniqueKeys<T>, shape_of<typename T::key_type, Outer...>());
  } else if constexpr (kFound == Kind::kMap) {
    return shape_from("map", kUniqueKeys<T>, shape_of<typename T::key_type, Outer...>(),
                      shape_of<typename T::mapped_type, Outer...>());
  } else if constexpr (kFound == Kind::kOptional) {
    return shape_from("optional", shape_of<std::remove_const_t<typename T::value_type>, Outer...>());
  } else if constexpr (kFound == Kind::kUniquePtr) {
    return shape_from("optional", shape_of<std::remove_const_t<typename T::element_type>, Outer...>());
  } else if constexpr (kFound == Kind::kTuple) {
    return shape_of_fields<Outer...>(typename ArgumentsOf<T>::Are{});
  } else if constexpr (kFound == Kind::kVariant) {
    return shape_of_variant<Outer...>(typename ArgumentsOf<T>::Are{});
  } else if constexpr (kFound == Kind::kAggregate) {
    return shape_of_fields<T, Outer...>(FieldTypes<T>{});
  } else if constexpr (kFound == Kind::kNamedFields) {
    return shape_of_fields<T, Outer...>(decltype(types_of(std::declval<T&>().pharos_fields())){});
  } else {
    check_kind<T>();
    return 0;
  }
}

struct StoredHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t shape;
};

PHAROS_API void begin_stored(std::uint64_t shape, Encoder& to);
PHAROS_API Result<std::vector<std::byte>> end_stored(const Encoder& encoder);
/// Reads the header. Returns an error with the reason if the bytes are not a value of this shape.
PHAROS_API Result<void> check_stored(std::uint64_t shape, Decoder& from);
PHAROS_API Error stored_error(const Decoder& decoder);

}  // namespace detail

/// Encodes a value with a header. Fails with kInvalidArgument for values that their Codec cannot encode (see Codec),
/// and throws EncodedTooLarge above kEncodedBytesMax. What codecs of users throw is passed on. Any thread.
template <class T>
Result<std::vector<std::byte>> to_bytes(const T& value) {
  Encoder encoder;
  detail::begin_stored(detail::shape_of<T>(), encoder);
  Codec<T>::encode(value, encoder);
  return detail::end_stored(encoder);
}

/// Decodes bytes of to_bytes(). Fails with kUnsupported if they were written with another version of the codec, with
/// kInvalidArgument if they are a value of another type, and with kCorrupt if they are not a value. The value does not
/// refer to the bytes. Any thread.
template <class T>
Result<T> from_bytes(std::span<const std::byte> bytes) {
  Decoder decoder{bytes};
  PHAROS_TRY_VOID(detail::check_stored(detail::shape_of<T>(), decoder));
  T value = Codec<T>::decode(decoder);
  if (decoder.failed() || decoder.left() != 0) return detail::stored_error(decoder);
  return Result<T>{std::move(value)};
}

}  // namespace pharos
