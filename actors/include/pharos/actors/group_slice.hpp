#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <pharos/actors/actor_group.hpp>

namespace pharos {

/// Some members of a group whose ranks lie in dimensions: `group.slice({{"host", 0}})` are those of host 0. Calls go to
/// them in the order of their ranks, as ActorGroup's calls go to all members. A value; any thread may use it.
/// Failure: as that of ActorGroup. A call throws FailedPrecondition if the group has another size now than its
/// dimensions, because it has shrunk or was resized.
template <class T>
class GroupSlice {
 public:
  GroupSlice(ActorGroup<T> group, Coordinates where) : group_{std::move(group)}, where_{std::move(where)} {}

  /// The members' ranks in the whole group, which rise.
  std::vector<std::size_t> ranks() const { return detail::ranks_at(*detail::term_of(*group_.core()), where_); }
  std::size_t size() const { return ranks().size(); }
  /// The slice of this slice at these further coordinates; a coordinate that both have is the new one.
  GroupSlice slice(Coordinates where) const {
    where.insert(where_.begin(), where_.end());
    return {group_, std::move(where)};
  }

  /// Calls the slice's members with the same arguments. The results are in the order of the ranks.
  template <auto Method, class... Args>
  requires(!detail::kBeginsWith<CallOptions, Args...>) std::vector<Ref<detail::ResultOf<Method>>> call_all(
      const Args&... args)
  const { return call_all<Method>(CallOptions{}, args...); }
  template <auto Method, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> call_all(const CallOptions& options, const Args&... args) const {
    const auto term = detail::term_of(*group_.core());
    const std::vector<std::size_t> ranks = detail::ranks_at(*term, where_);
    return ActorGroup<T>::template call_some<Method>(*group_.core(), *term, ranks.size(), [&](std::size_t place) {
      return ActorGroup<T>::template call_in<Method>(options, *term, ranks[place], args...);
    });
  }
  /// Calls each of the slice's members with arguments of its own: each parameter takes a list with one element for
  /// each. Throws InvalidArgument if a list has another size.
  template <auto Method, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> call_each(const std::vector<Args>&... args) const {
    return call_each<Method>(CallOptions{}, args...);
  }
  template <auto Method, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> call_each(const CallOptions& options,
                                                       const std::vector<Args>&... args) const {
    static_assert(sizeof...(Args) != 0, "call_each() takes a list for each parameter; without any: call_all()");
    const auto term = detail::term_of(*group_.core());
    const std::vector<std::size_t> ranks = detail::ranks_at(*term, where_);
    (detail::check_one_each(ranks.size(), args.size()), ...);
    return ActorGroup<T>::template call_some<Method>(*group_.core(), *term, ranks.size(), [&](std::size_t place) {
      return ActorGroup<T>::template call_in<Method>(options, *term, ranks[place], args[place]...);
    });
  }
  /// Calls the slice's members, and returns one Ref of all results; see ActorGroup::gather().
  template <auto Method, class... Args>
  requires(!detail::kBeginsWith<CallOptions, Args...>) auto gather(const Args&... args) const {
    return gather<Method>(CallOptions{}, args...);
  }
  template <auto Method, class... Args>
  auto gather(const CallOptions& options, const Args&... args) const {
    return detail::all_of(call_all<Method>(options, args...), detail::Failure::kInTime);
  }

 private:
  ActorGroup<T> group_;
  Coordinates where_;
};

template <class T>
GroupSlice<T> ActorGroup<T>::slice(Coordinates where) const {
  GroupSlice<T> slice{*this, std::move(where)};
  static_cast<void>(slice.ranks());  // throws if there is no such slice
  return slice;
}

}  // namespace pharos
