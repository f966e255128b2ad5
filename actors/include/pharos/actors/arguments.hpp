#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include <pharos/actors/ref.hpp>
#include <pharos/wire/codec.hpp>
#include <pharos/wire/shared_span.hpp>

namespace pharos {

namespace detail {

/// The arguments of one call before it is sent: their bytes, and in the context the handles and Refs that they hold.
/// Each Ref leaves a Placeholder in the bytes. The placeholders are filled when all results are ready, which may be at
/// once. Each thread owns one, for one call after the other (scratch_arguments()). If an argument cannot be encoded, or
/// has no room in the object store, bytes.failed() is true, and the call's result is then that error.
struct Arguments {
  Encoder bytes;
  CodecContext context;

  Arguments() {
    context.keeps_placeholders = true;
    bytes.set_context(&context);
  }
  Arguments(Arguments&&) = delete;
  const std::vector<Placeholder>& placeholders() const { return context.placeholders; }
  void clear() {
    bytes.clear();
    let_go();
  }
  /// Releases what the context holds: the call has taken its own share, or never will.
  void let_go() { context.clear(); }
  /// Returns true if the arguments are large and must be encoded once more, this time into the object store.
  bool again() {
    if (!bytes.again()) [[likely]]
      return false;
    let_go();
    return true;
  }
};

template <class T>
inline constexpr bool kIsRef = false;
template <class T>
inline constexpr bool kIsRef<Ref<T>> = true;

/// Encodes a result of type From as an argument of type To. Returns false if the bytes are no From. Exceptions of the
/// codecs and of the conversion pass through.
template <class From, class To>
bool convert_result(const CellHandle& cell, const Encoded& result, Encoder& to) {
  ResultDecoder decoder{cell, result};
  From value = Codec<From>::decode(decoder);
  if (!decoder.done()) return false;
  Codec<To>::encode(static_cast<To>(std::move(value)), to);
  return true;
}

/// Stands for an argument at which the compiler has stopped, so that no further errors follow.
struct RefusedArgument {
  using Value = void;
};

/// Returns what is encoded for a parameter. An argument that is of the parameter's type, or a Ref, is returned by
/// reference. Any other argument is converted, and is moved from if the caller allows that.
template <class Target, class Given>
decltype(auto) as_parameter(Given&& given) {
  using Argument = std::remove_cvref_t<Given>;
  if constexpr (std::is_same_v<Target, Argument>) {
    return static_cast<const Target&>(given);
  } else if constexpr (kIsRef<Argument>) {
    static_assert(
        kSameBytes<typename Argument::Value, Target> || std::is_constructible_v<Target, typename Argument::Value>,
        "the result that this Ref stands for does not convert to the parameter's type");
    return static_cast<const Argument&>(given);
  } else {
    constexpr bool kFits = std::is_constructible_v<Target, Given>;
    constexpr bool kFitsMoved = std::is_constructible_v<Target, Argument&&>;
    static_assert(kFits || !kFitsMoved,
                  "this argument converts to the parameter's type only by being moved: pass it with std::move()");
    static_assert(kFits || kFitsMoved, "this argument does not convert to the parameter's type");
    if constexpr (kFits) {
      return static_cast<Target>(std::forward<Given>(given));
    } else {
      return RefusedArgument{};
    }
  }
}

template <class Target, class Argument>
void encode_as(const Argument& argument, Arguments& to) {
  if constexpr (std::is_same_v<Target, Argument>) {
    Codec<Target>::encode(argument, to.bytes);
  } else if (!argument.cell()) {
    to.bytes.fail(CodecFailure::kInvalid);  // the Ref was moved from
  } else if constexpr (kSameBytes<typename Argument::Value, Target>) {
    to.context.placeholders.push_back(
        {.what = Placeholder::kResult, .offset = to.bytes.size(), .cell = argument.cell()});
  } else if constexpr (std::is_constructible_v<Target, typename Argument::Value>) {
    to.context.placeholders.push_back({.what = Placeholder::kConverted,
                                       .offset = to.bytes.size(),
                                       .cell = argument.cell(),
                                       .convert = &convert_result<typename Argument::Value, Target>});
  }
}

}  // namespace detail
}  // namespace pharos
