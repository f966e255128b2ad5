#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/member.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/actors/placement_group.hpp>
#include <pharos/actors/ref.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/actors/wait.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/strategy.hpp>

namespace pharos {

/// A group's policy for the death of a member's process. The death of a spare counts, too. With every policy but kFail,
/// a member whose node drains is stopped with notice, and counts as one that has died.
enum class OnDeath : std::uint8_t {
  kFail,     ///< The group fails: all members are ended, and all calls throw which member has died, and why.
  kRestart,  ///< A new member is made in its place, with the same resources.
  kShrink,   ///< The group goes on with the other members. Members of higher rank move up.
  kSpare,    ///< A spare takes its place, and a new spare is made. Without a spare: as kRestart.
};

/// One dimension in which the ranks of a group lie, and how many places it has.
struct Dimension {
  std::string name{};
  std::size_t size = 0;
};

/// Places in some of a group's dimensions: {{"host", 0}, {"gpu", 3}}.
using Coordinates = std::map<std::string, std::size_t>;

/// How a group is made: `runtime.spawn_group<T>({.size = 8}, arguments…)`.
struct ActorGroupOptions {
  /// The group's name in messages and lists. The members are called "name/0", "name/1", …. If empty, it is the name of
  /// T.
  std::string name{};
  /// Number of members. It may be left out if `members` is given.
  std::size_t size = 0;
  /// The dimensions in which the ranks lie, for slices of the group: {{"host", 2}, {"gpu", 4}} makes eight members, of
  /// which the first four are at host 0. The size may be left out then.
  std::vector<Dimension> dimensions{};
  /// The resources of each member.
  Bundle member{};
  /// The resources of each member, by rank, if they differ. Spares, and members that resize() adds, get `member`.
  std::vector<Bundle> members{};
  /// How the members lie on the nodes, relative to each other.
  Strategy strategy = Strategy::kPack;
  /// As GroupOptions::wait_for_nodes.
  Duration wait_for_nodes{};
  /// As ActorOptions::env, for all members.
  std::map<std::string, std::string> env{};
  OnDeath on_death = OnDeath::kFail;
  /// Number of spares: actors that are made together with the members, and wait for a place.
  std::size_t spares = 0;
  /// With kShrink: the group fails when it has fewer members than this.
  std::size_t size_min = 1;
  /// Number of deaths that the group survives, of members and spares together. With one more it fails.
  std::size_t deaths_max = 3;
};

/// How ActorGroup::map() gives its items to the members.
struct MapOptions {
  /// Number of items that one member has at a time; at least 1.
  std::size_t in_flight = 2;
  /// How often an item is given to another member because the member that had it has died. The item may then run more
  /// than once. Negative for always.
  std::int32_t max_retries = 3;
  /// The options of each call. A deadline is one for all of them.
  CallOptions call{};
};

namespace detail {

/// The members of a group in one term. Immutable. Shared by the GroupCore and by the code that calls the members; keeps
/// the members' actors.
struct GroupTerm {
  Member place{};                                      ///< the place of every member, without its rank
  std::vector<std::shared_ptr<ActorHandle>> actors{};  ///< by rank
  std::vector<CellHandle> placed{};                    ///< ready when the members' resources are set aside
  std::optional<Error> failed{};                       ///< why the group has failed
  std::vector<Dimension> dimensions{};                 ///< those of the options
};

/// The type of a group's members, and how they are made. Kept by the GroupCore, which calls `make` and `greet` under
/// its lock, on any thread; `make` throws as Runtime::spawn() does.
struct MemberKind {
  const char* type_name;
  std::function<std::shared_ptr<ActorHandle>(Caller& caller, const ActorOptions& options, const std::string& label,
                                             const Member& place)>
      make;
  /// Makes a call that does nothing, to learn whether the member was constructed.
  CellHandle (*greet)(const ActorHandle& actor, const Member& place);
};
/// As Runtime::spawn(), with a label for messages.
PHAROS_API std::shared_ptr<ActorHandle> spawn_actor(Caller& caller, const ActorOptions& options, const char* type_name,
                                                    const std::string& label, const RegisteredFunction& constructor,
                                                    Arguments& arguments);

template <class T>
void do_nothing(T&) {}

/// The type in which a group keeps an argument of its members' constructor: members may be constructed later, too.
template <class A>
using KeptArgument = std::conditional_t<kIsRef<std::remove_cvref_t<A>>, std::remove_cvref_t<A>, SentArgument<A>>;

/// The state of a group: its members, from term to term. Shared by the handles of the group, and ends with the last
/// one. Any thread.
class GroupCore;
/// A null core fails the encoder. decode_group() returns null if the bytes are no group, or if they are decoded outside
/// of a worker and are no result; the decoder has failed then.
PHAROS_API void encode_group(const std::shared_ptr<GroupCore>& core, Encoder& to);
PHAROS_API std::shared_ptr<GroupCore> decode_group(Decoder& from);
/// Makes the members. Throws InvalidArgument if there are none, if `size` and `members` contradict each other, or if
/// the options of a member make no sense; and otherwise as Runtime::spawn() does. Members that were made before the
/// exception are let go.
PHAROS_API std::shared_ptr<GroupCore> make_group(const std::shared_ptr<Caller>& caller,
                                                 const ActorGroupOptions& options, MemberKind kind);
/// Returns the present term. Members that this process knows to be lost are replaced first. If one cannot be replaced,
/// the group fails, and the term says why.
PHAROS_API std::shared_ptr<const GroupTerm> term_of(GroupCore& core);
/// Returns the ranks at these coordinates. Throws InvalidArgument if there is no such dimension or place, and
/// FailedPrecondition if the term has not as many members as the dimensions have places.
PHAROS_API std::vector<std::size_t> ranks_at(const GroupTerm& term, const Coordinates& where);
/// Throws InvalidArgument if so many arguments were given for another number of members.
PHAROS_API void check_one_each(std::size_t members, std::size_t given);
/// A function that runs when a call of all members has thrown at one rank, and other ranks still run it a second later:
/// they may be waiting for that rank. Losses of processes and objects, deadlines and cancellations do not count. It
/// runs on the thread for callbacks, at most once for each call, and not after the group or its Runtime has ended. If
/// it throws an Exception, that is logged; any other exception ends the process.
using OnThrow = std::function<void(const GroupTerm& term, std::uint32_t rank, const Error& why)>;
PHAROS_API void set_on_throw(GroupCore& core, OnThrow then);
/// Calls the group's OnThrow, if it has one now, for a call of all members. `cells` are the results of the call, by
/// rank.
PHAROS_API void watch_for_throw(GroupCore& core, const std::shared_ptr<const GroupTerm>& term,
                                const std::vector<CellHandle>& cells);
/// These do what the members of ActorGroup say. resize_group() throws RuntimeStopped after the end of the Runtime.
PHAROS_API CellHandle resize_group(GroupCore& core, std::size_t size);
PHAROS_API void stop_group(GroupCore& core, Duration grace);
PHAROS_API void kill_group(GroupCore& core);
/// Returns a result that is an error, with Outcome::kNotStarted. Throws RuntimeStopped after the end of the Runtime.
PHAROS_API CellHandle failed_cell(GroupCore& core, const Error& why);

/// The items of ActorGroup::map(). Each item is given to the member that has the fewest items. Any thread. An item
/// fails with what `give` throws, with the error of its call, or with the failure of the group.
class PHAROS_API WorkList {
 public:
  struct Work {
    std::vector<CellHandle> made;  ///< for each item, the cell of the user's Ref
    /// Calls the member of this rank with the item. Runs inside start(), or on the thread for callbacks; never twice at
    /// once.
    std::function<CellHandle(std::size_t item, const GroupTerm& term, std::uint32_t rank)> give;
    /// Completes `made` of the item with the result of its call. Runs on the thread for callbacks, and must not throw.
    std::function<void(std::size_t item, const CellHandle& done)> finish;
  };
  /// Gives the first items, and returns. Keeps the group alive until each item has been given to a member and has
  /// ended.
  static void start(std::shared_ptr<GroupCore> core, const MapOptions& options, Work work);
  /// Returns a pending cell, to be completed later. cancel() of the cell does nothing. Throws RuntimeStopped after the
  /// end of the Runtime.
  static CellHandle new_cell(GroupCore& core);
};

}  // namespace detail

template <class T>
class GroupSlice;

/// A handle to a group: actors of one type, its members, which are placed together or not at all, and are called one by
/// one or all at once. Each member has a rank, which pharos::member() tells it. Copies refer to the same group. Any
/// thread may use it.
///
/// Terms: a group counts its terms. A new term begins when a member is lost, and when the size changes. A call goes to
/// the members of the term in which it is made, and names that term. A member that has heard of a later term refuses
/// the call (FailedPrecondition). Calls under way at a member that is lost throw ActorDied; later calls go to the
/// members of the new term.
///
/// Calls take the options of Actor::call() as their first argument: `group.call_all<&Worker::step>({.deadline = …},
/// n)`. A call waits for room in a member's full queue as Actor::call() does. member(rank).try_call() does not wait.
///
/// Failure: what goes wrong with a call is the error of its Ref. If the group fails (OnDeath, ActorGroupOptions), that
/// is the reason of the failure, and the group stays failed. The functions themselves throw InvalidArgument for a rank
/// that does not exist, and RuntimeStopped after the end of the Runtime.
/// End: by stop() or kill(), with its program, or when the last handle is gone. In the last case each member ends when
/// its calls have been answered and nobody has a handle of it from member(); a resize() that is under way throws
/// Cancelled.
/// Sent: a group may be an argument or a result. The receiver's handle has the members of the term in which it was
/// sent, keeps them, and calls them like any other; it does not hear of later terms. Calls of a member that is lost
/// then throw ActorDied, and those of members that have heard of a later term FailedPrecondition: ask for the group
/// again. resize() throws FailedPrecondition, stop() and kill() end those members. Spares and resources stay with the
/// first process.
template <class T>
class ActorGroup {
 public:
  explicit ActorGroup(std::shared_ptr<detail::GroupCore> core) : core_{std::move(core)} {}

  std::size_t size() const { return detail::term_of(*core_)->actors.size(); }
  std::uint64_t term() const { return detail::term_of(*core_)->place.term; }
  /// Returns a member as an ordinary actor, whose calls name no term.
  Actor<T> member(std::size_t rank) const { return Actor<T>{term_with(rank)->actors[rank]}; }

  /// Returns the members at these places of the group's dimensions: `group.slice({{"host", 0}}).call_all<…>(…)`. Throws
  /// InvalidArgument if there is no such dimension or place.
  GroupSlice<T> slice(Coordinates where) const;

  /// Returns a Ref that is ready when all members of the present term have been constructed. It throws why the members
  /// cannot be placed, or what a constructor has thrown; and ActorDied or FailedPrecondition if a new term begins
  /// meanwhile.
  Ref<void> ready() const {
    std::vector<detail::CellHandle> cells = detail::term_of(*core_)->placed;
    for (const auto& ref : call_all<&detail::do_nothing<T>>()) cells.push_back(ref.cell());
    return detail::when_ready<void>(cells, [] {});
  }

  /// Calls the member of this rank.
  template <auto Method, class... Args>
  Ref<detail::ResultOf<Method>> call(std::size_t rank, Args&&... args) const {
    return call<Method>(CallOptions{}, rank, std::forward<Args>(args)...);
  }
  template <auto Method, class... Args>
  Ref<detail::ResultOf<Method>> call(const CallOptions& options, std::size_t rank, Args&&... args) const {
    const auto term = term_with(rank);
    if (term->failed) return Ref<detail::ResultOf<Method>>{detail::failed_cell(*core_, *term->failed)};
    return call_in<Method>(options, *term, rank, std::forward<Args>(args)...);
  }
  /// Calls all members with the same arguments. The results are in the order of the ranks. Each has only the failure of
  /// its own rank; gather() gives the first failure of all.
  template <auto Method, class... Args>
  requires(!detail::kBeginsWith<CallOptions, Args...>) std::vector<Ref<detail::ResultOf<Method>>> call_all(
      const Args&... args)
  const { return call_all<Method>(CallOptions{}, args...); }
  template <auto Method, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> call_all(const CallOptions& options, const Args&... args) const {
    return call_ranks<Method>(
        [&](const detail::GroupTerm& term, std::size_t rank) { return call_in<Method>(options, term, rank, args...); });
  }
  /// Calls each member with arguments of its own: each parameter takes a list with one element for each member. Throws
  /// InvalidArgument if a list has another size.
  template <auto Method, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> call_each(const std::vector<Args>&... args) const {
    return call_each<Method>(CallOptions{}, args...);
  }
  template <auto Method, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> call_each(const CallOptions& options,
                                                       const std::vector<Args>&... args) const {
    static_assert(sizeof...(Args) != 0, "call_each() takes a list for each parameter; without any: call_all()");
    return call_ranks<Method>([&](const detail::GroupTerm& term, std::size_t rank) {
      (detail::check_one_each(term.actors.size(), args.size()), ...);
      return call_in<Method>(options, term, rank, args[rank]...);
    });
  }
  /// Cuts a list into parts of nearly equal length, and calls each member with one part, in the order of the ranks. The
  /// other arguments are the same for all members.
  template <auto Method, class Item, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> scatter(const std::vector<Item>& items, const Args&... args) const {
    return scatter<Method>(CallOptions{}, items, args...);
  }
  template <auto Method, class Item, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> scatter(const CallOptions& options, const std::vector<Item>& items,
                                                     const Args&... args) const {
    return call_ranks<Method>([&](const detail::GroupTerm& term, std::size_t rank) {
      const std::size_t n = term.actors.size();
      const auto part = [&](std::size_t end) {
        return items.begin() + static_cast<std::ptrdiff_t>(items.size() / n * end + std::min(end, items.size() % n));
      };
      return call_in<Method>(options, term, rank, std::vector<Item>(part(rank), part(rank + 1)), args...);
    });
  }
  /// Calls all members, and returns one Ref of all results. When a call fails, get() throws its error at once, with its
  /// rank. It does not wait for the other calls, which may be waiting for that rank; they go on.
  template <auto Method, class... Args>
  requires(!detail::kBeginsWith<CallOptions, Args...>) auto gather(const Args&... args) const {
    return gather<Method>(CallOptions{}, args...);
  }
  template <auto Method, class... Args>
  auto gather(const CallOptions& options, const Args&... args) const {
    return detail::all_of(call_all<Method>(options, args...), detail::Failure::kInTime);
  }
  /// Calls `Method` with each item, at the member that has the fewest items. The results are in the order of the items.
  /// If the group fails, the results of the items that wait are that error. An item whose member has died goes to
  /// another member (MapOptions::max_retries); after the last try its result is the error of its call. cancel() of a
  /// result cancels the call of its item; an item that no member has yet is then given to none.
  template <auto Method, class Item>
  std::vector<Ref<detail::ResultOf<Method>>> map(std::vector<Item> items, const MapOptions& options = {}) const {
    using Made = Ref<detail::ResultOf<Method>>;
    detail::WorkList::Work work;
    std::vector<Made> results;
    for (std::size_t i = 0; i < items.size(); ++i) {
      results.emplace_back(work.made.emplace_back(detail::WorkList::new_cell(*core_)));
    }
    work.give = [items = std::move(items), call = options.call](std::size_t item, const detail::GroupTerm& term,
                                                                std::uint32_t rank) {
      return call_in<Method>(call, term, rank, items[item]).cell();
    };
    work.finish = [made = work.made](std::size_t item, const detail::CellHandle& done) {
      const Made result{done};
      auto there = done.wait(Deadline::never());
      if (!there) return made[item].set_error(std::move(there).error());
      detail::complete_with<detail::ResultOf<Method>>(made[item], [&] { return result.get(); });
    };
    detail::WorkList::start(core_, options, std::move(work));
    return results;
  }

  /// Changes the number of members. The returned Ref is ready when the new term has begun.
  /// New members are placed together or not at all, and constructed as the first ones were; until then the others go on
  /// in the present term. If the new members cannot be placed or constructed, the Ref throws why, and the group stays
  /// as it was. The same happens after cancel() of the Ref, and with Cancelled if a resize() to no more than the
  /// present size follows. While a group grows, another growth fails with FailedPrecondition. A size of 0 fails with
  /// InvalidArgument. Members that go are those of the highest ranks; they end as by Actor::stop() with its default
  /// grace.
  Ref<void> resize(std::size_t size) const { return Ref<void>{detail::resize_group(*core_, size)}; }
  /// End all members and spares, as the methods of Actor do, without a wait. From then on, calls throw ActorDied, or
  /// the earlier failure of the group.
  void stop(Duration grace = std::chrono::seconds{30}) const { detail::stop_group(*core_, grace); }
  void kill() const { detail::kill_group(*core_); }

  const std::shared_ptr<detail::GroupCore>& core() const { return core_; }

 private:
  template <auto Method, class... Args>
  static Ref<detail::ResultOf<Method>> call_in(const CallOptions& options, const detail::GroupTerm& term,
                                               std::size_t rank, Args&&... args) {
    using Function = detail::GroupMethod<T, Method>;
    const detail::ActorHandle& actor = *term.actors[rank];
    detail::Arguments& arguments = detail::scratch_arguments(actor, *Function::registered);
    Member place = term.place;
    place.rank = static_cast<std::uint32_t>(rank);
    Function::encode(arguments, place, std::forward<Args>(args)...);
    return Ref<detail::ResultOf<Method>>{detail::call_actor(actor, options, *Function::registered, arguments)};
  }
  /// Makes so many calls of members of this term: `call` gets the number of each, from 0.
  template <auto Method, class Call>
  static std::vector<Ref<detail::ResultOf<Method>>> call_some(detail::GroupCore& core, const detail::GroupTerm& term,
                                                              std::size_t count, const Call& call) {
    std::vector<Ref<detail::ResultOf<Method>>> results;
    results.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (term.failed) {
        results.emplace_back(detail::failed_cell(core, *term.failed));
      } else {
        results.push_back(call(i));
      }
    }
    return results;
  }
  template <auto Method, class Call>
  std::vector<Ref<detail::ResultOf<Method>>> call_ranks(Call&& call) const {
    const auto term = detail::term_of(*core_);
    auto results =
        call_some<Method>(*core_, *term, term->actors.size(), [&](std::size_t rank) { return call(*term, rank); });
    if (!term->failed) detail::watch_for_throw(*core_, term, detail::cells_of(results));
    return results;
  }
  std::shared_ptr<const detail::GroupTerm> term_with(std::size_t rank) const {
    auto term = detail::term_of(*core_);
    if (rank >= term->actors.size()) {
      throw_error(Error{ErrorCode::kInvalidArgument, "the group has " + std::to_string(term->actors.size()) +
                                                         " members, so there is no rank " + std::to_string(rank)});
    }
    return term;
  }

  friend class Runtime;
  friend class GroupSlice<T>;

  std::shared_ptr<detail::GroupCore> core_;
};

template <class T, class... Args>
ActorGroup<T> Runtime::spawn_group(const ActorGroupOptions& options, Args&&... args) {
  using Kept = std::tuple<detail::KeptArgument<Args>...>;
  detail::MemberKind kind{.type_name = typeid(T).name(), .make = {}, .greet = {}};
  kind.make = [kept = std::make_shared<const Kept>(std::forward<Args>(args)...)](
                  detail::Caller& caller, const ActorOptions& its, const std::string& label, const Member& place) {
    using Constructor = detail::MemberConstructor<T, detail::SentArgument<Args>...>;
    detail::Arguments& arguments = detail::scratch_arguments(caller, *Constructor::registered);
    std::apply([&](const auto&... each) { Constructor::encode(arguments, place, each...); }, *kept);
    return detail::spawn_actor(caller, its, typeid(T).name(), label, *Constructor::registered, arguments);
  };
  kind.greet = [](const detail::ActorHandle& actor, const Member& place) {
    using Function = detail::GroupMethod<T, &detail::do_nothing<T>>;
    detail::Arguments& arguments = detail::scratch_arguments(actor, *Function::registered);
    Function::encode(arguments, place);
    return detail::call_actor(actor, {}, *Function::registered, arguments);
  };
  return ActorGroup<T>{detail::make_group(caller_, options, std::move(kind))};
}

template <class T>
struct Codec<ActorGroup<T>> {
  static void encode(const ActorGroup<T>& group, Encoder& to) { detail::encode_group(group.core(), to); }
  static ActorGroup<T> decode(Decoder& from) { return ActorGroup<T>{detail::decode_group(from)}; }
};

}  // namespace pharos
