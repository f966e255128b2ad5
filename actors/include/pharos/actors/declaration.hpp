#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <pharos/actors/signature.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/codec.hpp>
#include <pharos/wire/shared_span.hpp>

namespace pharos {

namespace detail {
template <auto... M>
struct Methods {};
}  // namespace detail

/// The methods of a class that programs of other builds may call (ForeignActor). The class lists them below their
/// declarations:
///
///   static constexpr auto pharos_methods = pharos::methods<&Counter::add, &Counter::value>;
///
/// Types in these methods may be all that to_bytes() accepts. So handles and Refs are refused by the compiler, and a
/// Codec that a user wrote needs a kFormat.
template <auto... M>
inline constexpr detail::Methods<M...> methods{};  // NOLINT(readability-identifier-naming): users write it

namespace detail {

/// The declaration of a method as a text, by which programs of different builds name the method:
/// `double area(Shape), where Shape is {Point, Point}, Point is {double, double}`. It has the names of the types, and
/// says of what the values of structs, enums and types with a user's Codec consist. So if two programs have the same
/// text, each can read the values that the other one has encoded. A value, used by one thread. The types that it refers
/// to live as long as the process.
class PHAROS_API Declaration {
 public:
  explicit Declaration(const std::type_info& result) : result_{&result} {}
  void add_parameter(const std::type_info& type) { parameters_.push_back(&type); }
  /// Says of which parts the values of a type consist. Returns false, and changes nothing, if that was said before.
  bool explain(const std::type_info& type, std::initializer_list<const std::type_info*> parts);
  /// The same for a type with a Codec that names its format.
  bool explain(const std::type_info& type, std::string_view format);
  /// Returns the text for a method of this name.
  std::string text(std::string_view method) const;

 private:
  struct Explained {
    const std::type_info* type;
    std::string values;
  };
  bool is_explained(const std::type_info& type) const;

  const std::type_info* result_;
  std::vector<const std::type_info*> parameters_;
  std::vector<Explained> explained_;
};

template <class T>
void explain_type(Declaration& to);

template <class... Parts>
void explain_types(Declaration& to, Types<Parts...>) {
  (explain_type<std::remove_cv_t<std::remove_all_extents_t<Parts>>>(to), ...);
}

template <class... Parts>
bool explain_parts(const std::type_info& type, Declaration& to, Types<Parts...>) {
  return to.explain(type, std::initializer_list<const std::type_info*>{&typeid(Parts)...});
}

template <class T>
void explain_format(Declaration& to, std::string_view format) {
  to.explain(typeid(T), format);
}
template <class T, class As>
void explain_format(Declaration& to, FormatOf<As> /*format*/) {
  explain_type<As>(to);
}

/// Says of what a T consists, if its name does not say that: T is a struct, an enum, or has a user's Codec, or contains
/// such types.
template <class T>
void explain_type(Declaration& to) {
  constexpr Kind kFound = kKind<T>;
  if constexpr (kOwnCodec<T> && !std::is_same_v<T, Bytes>) {
    constexpr bool kHasFormat = requires {
      Codec<T>::kFormat;
    };
    static_assert(kHasFormat,
                  "a method for programs of other builds takes and returns only types that these know, too: no handle "
                  "and no Ref; a Codec that you wrote needs static constexpr std::string_view kFormat = \"my.Type/1\"");
    if constexpr (kHasFormat) explain_format<T>(to, Codec<T>::kFormat);
  } else if constexpr (kFound == Kind::kEnum) {
    explain_parts(typeid(T), to, Types<std::underlying_type_t<T>>{});
  } else if constexpr (kFound == Kind::kAggregate || kFound == Kind::kNamedFields) {
    if (explain_parts(typeid(T), to, parts_of<T>())) explain_types(to, parts_of<T>());
  } else {
    explain_types(to, parts_of<T>());
  }
}

/// Returns the declaration of a method with this result and these parameters, which are the types that travel.
template <class R, class... P>
std::string declaration_of(std::string_view method, Types<P...> parameters) {
  Declaration declaration{typeid(R)};
  (declaration.add_parameter(typeid(P)), ...);
  if constexpr (!std::is_void_v<R>) explain_type<R>(declaration);
  explain_types(declaration, parameters);
  return declaration.text(method);
}

}  // namespace detail
}  // namespace pharos
