#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
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
#include <pharos/base/strategy.hpp>

namespace pharos {

/// What becomes of a group when the process of a member dies. With all but kFail a member whose node drains is stopped,
/// with notice, and counts as one that has died.
enum class OnDeath : std::uint8_t {
  kFail,     ///< All members are ended, and all calls throw which member has died, and of what.
  kRestart,  ///< Another one is made in its place, where there is room for it.
  kShrink,   ///< The others go on without it; those of higher rank move up.
  kSpare,    ///< A spare takes its place, and another spare is made. Without one: as kRestart.
};

struct ActorGroupOptions {
  /// What it is called in messages and lists; its members are "name/0", "name/1", …. Empty: T.
  std::string name{};
  /// How many members there are.
  std::size_t size = 0;
  /// What each of them has.
  Bundle member{};
  /// What each has of its own, instead; spares, and those that come later, have `member`.
  std::vector<Bundle> members{};
  /// Where they are, seen from each other.
  Strategy strategy = Strategy::kPack;
  OnDeath on_death = OnDeath::kFail;
  /// Members that are made with the others, and wait for a place.
  std::size_t spares = 0;
  /// With kShrink: with fewer members than that it fails.
  std::size_t size_min = 1;
  /// So many deaths it bears; with one more it fails.
  std::size_t deaths_max = 3;
};

struct MapOptions {
  /// Of its items, at one member.
  std::size_t in_flight = 2;
  /// How often an item is given to another member when the one that had it dies. It may then run more than once.
  std::size_t max_retries = 3;
};

namespace detail {

/// A group's members in one term. Immutable.
struct GroupTerm {
  Member place{};  ///< but for the rank
  std::vector<std::shared_ptr<ActorHandle>> actors{};
  std::vector<CellHandle> placed{};  ///< what they have
  std::optional<Error> failed{};
};

/// What members are.
struct MemberKind {
  const char* type_name;
  std::function<std::shared_ptr<ActorHandle>(Caller& caller, const ActorOptions& options, const std::string& label,
                                             const Member& place)>
      make;
  /// A call of it that does nothing.
  CellHandle (*greet)(const ActorHandle& actor, const Member& place);
};
PHAROS_API std::shared_ptr<ActorHandle> spawn_actor(Caller& caller, const ActorOptions& options, const char* type_name,
                                                    const std::string& label, const RegisteredFunction& constructor,
                                                    Arguments& arguments);

template <class T>
void do_nothing(T&) {}

template <class A>
using KeptArgument = std::conditional_t<kIsRef<std::remove_cvref_t<A>>, std::remove_cvref_t<A>, SentArgument<A>>;

/// Who is a member, from term to term; any thread. Owned by the handles of the group.
class GroupCore;
PHAROS_API std::shared_ptr<GroupCore> make_group(const std::shared_ptr<Caller>& caller,
                                                 const ActorGroupOptions& options, MemberKind kind);
/// As far as this process knows by now.
PHAROS_API std::shared_ptr<const GroupTerm> term_of(GroupCore& core);
/// What is to be done when a call of all members has thrown, at one rank, and other ranks are at it a second later:
/// they may be waiting for that rank. On the thread for callbacks.
using OnThrow = std::function<void(const GroupTerm& term, std::uint32_t rank, const Error& why)>;
PHAROS_API void set_on_throw(GroupCore& core, OnThrow then);
/// `cells`: the results of a call of all members, by rank.
PHAROS_API void watch_for_throw(GroupCore& core, const std::shared_ptr<const GroupTerm>& term,
                                const std::vector<CellHandle>& cells);
PHAROS_API CellHandle resize_group(GroupCore& core, std::size_t size);
PHAROS_API void stop_group(GroupCore& core, Duration grace);
PHAROS_API void kill_group(GroupCore& core);
/// A result that is an error already.
PHAROS_API CellHandle failed_cell(GroupCore& core, const Error& why);

/// Gives each of so many items to a member that has few of them, and ends `made` of an item with what came of it.
/// Any thread.
class PHAROS_API WorkList {
 public:
  struct Work {
    std::vector<CellHandle> made;  ///< of each item: what the user has
    std::function<CellHandle(std::size_t item, const GroupTerm& term, std::uint32_t rank)> give;
    std::function<void(std::size_t item, const CellHandle& done)> finish;
  };
  static void start(std::shared_ptr<GroupCore> core, const MapOptions& options, Work work);
  /// To be completed later.
  static CellHandle new_cell(GroupCore& core);
};

}  // namespace detail

/// Actors of one type that were placed together or not at all, and are called one by one or all at once. Each has its
/// rank, and pharos::member() tells it. Copies are the same group; any thread may call. It lives as long as a handle of
/// it, and its members with it.
///
/// When a member is lost, and when the size changes, a new term begins: calls made afterwards go to the members of that
/// term, and say so; a member that has heard of a later term refuses them (FailedPrecondition). Calls that were under
/// way at a member that is lost throw ActorDied; the next ones reach who is there then.
///
/// Calls of a group wait for room in a member's full queue as Actor::call() does; those that do not want to wait use
/// member(rank).try_call().
template <class T>
class ActorGroup {
 public:
  explicit ActorGroup(std::shared_ptr<detail::GroupCore> core) : core_{std::move(core)} {}

  std::size_t size() const { return detail::term_of(*core_)->actors.size(); }
  std::uint64_t term() const { return detail::term_of(*core_)->place.term; }
  /// As an actor like others: its calls say nothing of a term.
  Actor<T> member(std::size_t rank) const { return Actor<T>{term_with(rank)->actors[rank]}; }

  /// When the members of this term have been constructed. Throws what a constructor has thrown, and why they cannot be
  /// placed.
  Ref<void> ready() const {
    std::vector<detail::CellHandle> cells = detail::term_of(*core_)->placed;
    for (const auto& ref : call_all<&detail::do_nothing<T>>()) cells.push_back(ref.cell());
    return detail::when_ready<void>(cells, [] {});
  }

  /// Calls one of them.
  template <auto Method, class... Args>
  Ref<detail::ResultOf<Method>> call(std::size_t rank, Args&&... args) const {
    const auto term = term_with(rank);
    if (term->failed) return Ref<detail::ResultOf<Method>>{detail::failed_cell(*core_, *term->failed)};
    return call_in<Method>(*term, rank, std::forward<Args>(args)...);
  }
  /// Calls all of them with the same arguments. The results are in the order of the ranks, and each is that of its rank
  /// alone: see gather() for the first failure among them.
  template <auto Method, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> call_all(const Args&... args) const {
    return call_ranks<Method>(
        [&](const detail::GroupTerm& term, std::size_t rank) { return call_in<Method>(term, rank, args...); });
  }
  /// Calls each with arguments of its own: one list for each parameter, with an element for each member.
  template <auto Method, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> call_each(const std::vector<Args>&... args) const {
    static_assert(sizeof...(Args) != 0, "call_each() takes a list for each parameter; without any: call_all()");
    return call_ranks<Method>([&](const detail::GroupTerm& term, std::size_t rank) {
      (check_one_each(term, args.size()), ...);
      return call_in<Method>(term, rank, args[rank]...);
    });
  }
  /// Cuts a list into parts of nearly equal length, one for each member, in their order; what else is given goes to
  /// all.
  template <auto Method, class Item, class... Args>
  std::vector<Ref<detail::ResultOf<Method>>> scatter(const std::vector<Item>& items, const Args&... args) const {
    return call_ranks<Method>([&](const detail::GroupTerm& term, std::size_t rank) {
      const std::size_t n = term.actors.size();
      const auto part = [&](std::size_t end) {
        return items.begin() + static_cast<std::ptrdiff_t>(items.size() / n * end + std::min(end, items.size() % n));
      };
      return call_in<Method>(term, rank, std::vector<Item>(part(rank), part(rank + 1)), args...);
    });
  }
  /// Calls all of them, and brings the results together. When a call fails, get() throws that at once, with its rank,
  /// and does not wait for the others, which may themselves be waiting for that rank; they go on.
  template <auto Method, class... Args>
  auto gather(const Args&... args) const {
    return detail::all_of(call_all<Method>(args...), detail::Failure::kInTime);
  }
  /// Calls `Method` with each item, at whichever member has the least to do. The results are in the order of the items.
  template <auto Method, class Item>
  std::vector<Ref<detail::ResultOf<Method>>> map(std::vector<Item> items, const MapOptions& options = {}) const {
    using Made = Ref<detail::ResultOf<Method>>;
    detail::WorkList::Work work;
    std::vector<Made> results;
    for (std::size_t i = 0; i < items.size(); ++i) {
      results.emplace_back(work.made.emplace_back(detail::WorkList::new_cell(*core_)));
    }
    work.give = [items = std::move(items)](std::size_t item, const detail::GroupTerm& term, std::uint32_t rank) {
      return call_in<Method>(term, rank, items[item]).cell();
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

  /// Another number of members, in a new term: ready when that has begun. Those that come are placed together or not at
  /// all, and constructed as the first were; until then the others go on as they are. When they cannot be, that is
  /// thrown, and the group stays as it was, as it does after cancel(). Those that go are the last ones, and end as by
  /// Actor::stop().
  Ref<void> resize(std::size_t size) const { return Ref<void>{detail::resize_group(*core_, size)}; }
  /// Ends them, as those of Actor do. Calls throw ActorDied from then on.
  void stop(Duration grace = std::chrono::seconds{30}) const { detail::stop_group(*core_, grace); }
  void kill() const { detail::kill_group(*core_); }

  const std::shared_ptr<detail::GroupCore>& core() const { return core_; }

 private:
  template <auto Method, class... Args>
  static Ref<detail::ResultOf<Method>> call_in(const detail::GroupTerm& term, std::size_t rank, Args&&... args) {
    using Function = detail::GroupMethod<T, Method>;
    const detail::ActorHandle& actor = *term.actors[rank];
    detail::Arguments& arguments = detail::scratch_arguments(actor, *Function::registered);
    Member place = term.place;
    place.rank = static_cast<std::uint32_t>(rank);
    Function::encode(arguments, place, std::forward<Args>(args)...);
    return Ref<detail::ResultOf<Method>>{detail::call_actor(actor, {}, *Function::registered, arguments)};
  }
  template <auto Method, class Call>
  std::vector<Ref<detail::ResultOf<Method>>> call_ranks(Call&& call) const {
    const auto term = detail::term_of(*core_);
    std::vector<Ref<detail::ResultOf<Method>>> results;
    results.reserve(term->actors.size());
    for (std::size_t rank = 0; rank < term->actors.size(); ++rank) {
      if (term->failed) {
        results.emplace_back(detail::failed_cell(*core_, *term->failed));
      } else {
        results.push_back(call(*term, rank));
      }
    }
    if (!term->failed) detail::watch_for_throw(*core_, term, detail::cells_of(results));
    return results;
  }
  std::shared_ptr<const detail::GroupTerm> term_with(std::size_t rank) const {
    auto term = detail::term_of(*core_);
    if (rank >= term->actors.size()) {
      throw_error(Error{ErrorCode::kInvalidArgument, "the group has " + std::to_string(term->actors.size()) +
                                                         " members, and none of rank " + std::to_string(rank)});
    }
    return term;
  }
  static void check_one_each(const detail::GroupTerm& term, std::size_t given) {
    if (given == term.actors.size()) return;
    throw_error(Error{ErrorCode::kInvalidArgument, "the group has " + std::to_string(term.actors.size()) +
                                                       " members, and " + std::to_string(given) +
                                                       " arguments were given for them"});
  }

  friend class Runtime;

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

}  // namespace pharos
