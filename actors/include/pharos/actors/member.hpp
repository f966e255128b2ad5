#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include <pharos/actors/function.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/codec.hpp>

namespace pharos {

/// A member's place in its group (ActorGroup). A term is the time between two changes of a group: when a member is
/// replaced or the size changes, a new term begins, and members may get other places. A value.
struct Member {
  static constexpr std::uint32_t kSpare = std::numeric_limits<std::uint32_t>::max();

  std::uint64_t group = 0;  ///< identifies the group; 0 for an actor that is in none
  std::uint64_t term = 0;   ///< number of the term, from 1
  std::uint32_t rank = 0;   ///< below `size`; kSpare for an actor that waits for a place
  std::uint32_t size = 0;   ///< number of members in that term

  bool operator==(const Member&) const = default;
};

/// For the methods and the constructor of a member: returns the member's place. It is the place that the running call
/// gives; in a call that the group did not make, it is the place that the group gave last. Throws FailedPrecondition
/// where no member runs: in a task, in an actor of no group, in a callback of then(), and in a thread that the member
/// has started.
PHAROS_API Member member();

namespace detail {

/// Notes the place that the running call, which the group has made, gives to this actor. Called only by a thread that
/// runs such a call. Throws FailedPrecondition if the actor has heard of a later term: the caller had an old one.
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

/// How a T is constructed that is a member of a group: its place travels before the constructor's arguments.
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

/// A method as a group calls it: the member's place travels before the arguments. The primary template stops the
/// compiler, as MethodFunction does.
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
