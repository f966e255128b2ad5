#pragma once

#include <pharos/wire/codec_kinds.hpp>

namespace pharos::detail {

/// Fails to compile for a type that cannot be encoded. The message has the reason and an alternative.
template <class T>
constexpr void check_kind() {
  constexpr Kind kFound = kKind<T>;
  static_assert(kFound != Kind::kPointer,
                "a pointer means nothing in another process: pass the value itself, or a std::unique_ptr to it");
  static_assert(kFound != Kind::kReference,
                "a reference means nothing in another process: hold the value itself in what you send");
  static_assert(kFound != Kind::kFunction,
                "a function cannot be sent as a value: name it in the call, as in submit<&f>(), or send a value that "
                "says which one to run");
  static_assert(kFound != Kind::kView,
                "a view refers to this process's memory: pass what owns the elements, std::string for a string_view, "
                "std::vector or pharos::Bytes for a span");
  static_assert(kFound != Kind::kSharedPtr,
                "a shared_ptr or weak_ptr cannot share its object with another process: pass the value itself, or a "
                "std::unique_ptr to it");
  static_assert(kFound != Kind::kOddUniquePtr,
                "a unique_ptr travels only if it owns one object and has no deleter of its own: pass a std::vector for "
                "an array, the value itself for others");
  static_assert(kFound != Kind::kUniquePtrToVirtual,
                "a unique_ptr to a class with virtual functions may own an object of a derived class, which would "
                "arrive cut off: pass a std::variant of the classes");
  static_assert(kFound != Kind::kSynchronization,
                "a mutex, thread, atomic or future belongs to its process: pass the value that it guards, or leave it "
                "out of pharos_fields()");
  static_assert(kFound != Kind::kUnion, "a union does not record which member is set: use std::variant");
  static_assert(kFound != Kind::kLongDouble,
                "long double has another size and precision on other machines: pass a double");
  static_assert(kFound != Kind::kEnumOfNoType,
                "not every number is a value of this enum, so bytes could not be checked: give it an underlying type, "
                "as in enum Colour : int");
  static_assert(kFound != Kind::kStatefulKeys,
                "this container's comparison or hash has a state, which would not travel: make it a class without "
                "members, or pass a std::vector of the elements");
  static_assert(kFound != Kind::kVirtual,
                "a class with virtual functions must say what travels: give it auto pharos_fields() { return "
                "std::tie(a_, b_); }, or specialise pharos::Codec");
  static_assert(kFound != Kind::kBase,
                "a struct with a base class must say what travels: give it auto pharos_fields() { return std::tie(a, "
                "b); }, with the base's fields among them, or make the base a field");
  static_assert(kFound != Kind::kTooManyFields,
                "this struct has more than 64 fields: group them into structs, or give it auto pharos_fields() { "
                "return std::tie(a, b); }");
  static_assert(kFound != Kind::kOddField,
                "this struct has a field that is a reference, which means nothing in another process, or one that "
                "cannot be made alone: hold values, or specialise pharos::Codec");
  static_assert(kFound != Kind::kInheritedFields,
                "this class inherits pharos_fields() from its base, which does not know its other fields: give it one "
                "of its own, with std::tuple_cat(Base::pharos_fields(), std::tie(a_, b_))");
  static_assert(kFound != Kind::kOddFieldList,
                "pharos_fields() must be one function, not const, that returns std::tie(a_, b_): the fields are also "
                "written through it, when a value arrives");
  static_assert(kFound != Kind::kNoDefault,
                "a class with pharos_fields() needs a default constructor, to be filled when a value arrives; or "
                "specialise pharos::Codec");
  static_assert(kFound != Kind::kOpaque,
                "this class has private members or constructors, and nothing says what travels: give it auto "
                "pharos_fields() { return std::tie(a_, b_); }, or specialise pharos::Codec (deriving from "
                "pharos::PlainCodec if its bytes are all of its value)");
  static_assert(kFound != Kind::kNone);
}

}  // namespace pharos::detail
