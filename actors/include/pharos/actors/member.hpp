#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include <pharos/actors/function.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/codec.hpp>

namespace pharos {

/// A member's place in its group (ActorGroup). It changes when the group does, and each change begins a new term.
struct Member {
  static constexpr std::uint32_t kSpare = std::numeric_limits<std::uint32_t>::max();

  std::uint64_t group = 0;  ///< another one for each group
  std::uint64_t term = 0;   ///< from 1
  std::uint32_t rank = 0;   ///< below `size`; kSpare: it waits for a place
  std::uint32_t size = 0;   ///< how many members there are in that term

  bool operator==(const Member&) const = default;
};

/// In a method of a member, or in its constructor: its place as the call says it; in a call that its group did not
/// make, as the group said it last. Throws FailedPrecondition elsewhere.
PHAROS_API Member member();

namespace detail {

/// The running call is the group's, and says where this actor is in it. Throws FailedPrecondition when the group has
/// said since that it is elsewhere: whoever called had an older term.
PHAROS_API void enter_group_call(const Member& place);

template <class Params>
struct WithPlace;
template <class... P>
struct WithPlace<Parameters<P...>> {
  using Params = Parameters<Member, P...>;
};

template <class T, class... Args>
struct MemberConstructorTag {};
template <class T, auto M>
struct GroupMethodTag {};

/// How a T is made that is a member of a group.
template <class T, class... Args>
struct MemberConstructor {
  using Params = Parameters<Member, Args...>;

  template <class... Given>
  static void encode(Arguments& to, const Member& place, const Given&... given) {
    static_assert(std::is_constructible_v<T, Args...>,
                  "T has no constructor for these arguments, as they arrive: text as std::string, a Ref as its result");
    Params::encode(to, place, given...);
  }
  static void* construct(Decoder& arguments) {
    return Params::decode_and_apply(arguments, [](Member&& place, auto&&... values) {
      enter_group_call(place);
      return new T(std::move(values)...);
    });
  }
  static inline RegisteredFunction* const registered =
      register_function(constructor_function<T>(typeid(MemberConstructorTag<T, Args...>), &construct));
};

/// A method as a group calls it: with the member's place before its arguments. This one is refused.
template <class T, auto M>
struct GroupMethod {
  static inline RegisteredFunction* const registered = nullptr;

  template <class... Args>
  static void encode(Arguments& to, const Member&, Args&&... args) {
    MethodFunction<T, M>::encode(to, std::forward<Args>(args)...);
  }
};

template <class T, auto M>
requires(NamesFunction<M> || is_method_of<T, M>()) struct GroupMethod<T, M> : CalledFunction<GroupMethod<T, M>> {
  using Method = MethodFunction<T, M>;
  using Result = typename Method::Result;
  using Params = typename WithPlace<typename Method::Params>::Params;

  static auto of(void* instance) {
    return [instance](const Member& place, auto&&... values) -> decltype(auto) {
      enter_group_call(place);
      return Method::of(instance)(std::forward<decltype(values)>(values)...);
    };
  }
  static inline RegisteredFunction* const registered =
      register_function(GroupMethod::function(typeid(GroupMethodTag<T, M>), Method::thrown()));
};

}  // namespace detail
}  // namespace pharos
