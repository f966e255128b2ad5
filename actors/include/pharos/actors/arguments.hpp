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

/// The arguments of one call on their way out: bytes, and what else they hold. A result that is there goes in at once,
/// the others when the last of them is.
struct Arguments {
  Encoder bytes;
  CodecContext context;

  Arguments() {
    context.fills_holes = true;
    bytes.set_context(&context);
  }
  Arguments(Arguments&&) = delete;
  const std::vector<Hole>& holes() const { return context.holes; }
  void clear() {
    bytes.clear();
    let_go();
  }
  /// Of what the call has taken a share in, or never will.
  void let_go() { context.clear(); }
  /// They are large: they must be encoded once more, into the object store.
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

/// Encodes a result of type From as an argument of type To.
template <class From, class To>
bool convert_result(const CellHandle& cell, const Encoded& result, Encoder& to) {
  ResultDecoder decoder{cell, result};
  From value = Codec<From>::decode(decoder);
  if (!decoder.done()) return false;
  Codec<To>::encode(static_cast<To>(std::move(value)), to);
  return true;
}

/// In place of an argument at which the compiler has stopped, so that it says nothing more.
struct RefusedArgument {
  using Value = void;
};

/// What is encoded for a parameter: the argument itself, where it is, if it is of the parameter's type or a Ref; else
/// what it converts to, being moved where it may be.
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
  } else if constexpr (kSameBytes<typename Argument::Value, Target>) {
    to.context.holes.push_back({.what = Hole::kResult, .offset = to.bytes.size(), .cell = argument.cell()});
  } else if constexpr (std::is_constructible_v<Target, typename Argument::Value>) {
    to.context.holes.push_back({.what = Hole::kConverted,
                                .offset = to.bytes.size(),
                                .cell = argument.cell(),
                                .convert = &convert_result<typename Argument::Value, Target>});
  }
}

}  // namespace detail
}  // namespace pharos
