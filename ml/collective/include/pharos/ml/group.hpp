#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/actors/actor_group.hpp>
#include <pharos/actors/exceptions.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {
namespace detail {

/// What a rank says of itself, so that the others find it.
struct RankOffer {
  std::string machine{};      ///< ranks that say the same can share memory
  std::int32_t process = 0;   ///< its number there
  std::int32_t meeting = -1;  ///< its descriptor of memory where they can meet
  std::string name{};         ///< of that memory, which nobody can guess
  std::string address{};      ///< where ranks of other machines reach it; empty: nowhere
};
/// What proves to a rank that another one is of its group.
using RankKey = std::array<std::byte, 32>;
PHAROS_API RankKey new_rank_key();

/// By the running member.
PHAROS_API RankOffer offer_member(const CommunicatorOptions& options);
PHAROS_API void join_members(const std::vector<RankOffer>& offers, const RankKey& key,
                             const CommunicatorOptions& options);

/// Beside what they wait for each other: until ranks that are well have answered.
inline constexpr Duration kAnswerTime = std::chrono::seconds{3};
/// In time, all of them; or else throws who has not.
[[noreturn]] PHAROS_API void throw_unanswered(const std::vector<std::size_t>& by, std::size_t ranks);
template <class R>
auto answers(const std::vector<Ref<R>>& calls, const CommunicatorOptions& options) {
  const Deadline deadline = Deadline::in(options.timeout + kAnswerTime);
  static_cast<void>(wait(calls, {.count = calls.size(), .deadline = deadline}));
  std::vector<std::size_t> silent;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    if (!calls[rank].ready()) silent.push_back(rank);
  }
  if (!silent.empty()) throw_unanswered(silent, calls.size());
  return when_all(calls).get();
}

/// In the running member: the others' operations end, and say why, if its group is connected.
PHAROS_API void give_up_member(const std::string& why);
template <class T>
void give_up(T&, const std::string& why) {
  give_up_member(why);
}
/// By whoever has connected the group, when a call of all members has thrown at that rank.
template <class T>
void tell_of_throw(const pharos::detail::GroupTerm& term, std::uint32_t rank, const Error& why) {
  using Function = pharos::detail::GroupMethod<T, &give_up<T>>;
  const pharos::detail::ActorHandle& actor = *term.actors[rank];
  pharos::detail::Arguments& arguments = pharos::detail::scratch_arguments(actor, *Function::registered);
  Member place = term.place;
  place.rank = rank;
  Function::encode(arguments, place, why.story());
  static_cast<void>(pharos::detail::call_actor(actor, {}, *Function::registered, arguments));
}

template <class T>
RankOffer offer(T&, const CommunicatorOptions& options) {
  return offer_member(options);
}
template <class T>
void join(T&, const std::vector<RankOffer>& offers, const RankKey& key, const CommunicatorOptions& options) {
  join_members(offers, key, options);
}

}  // namespace detail

/// Makes the members of a group, as they are in its present term, ranks that work together: communicator() is theirs
/// from then on. A new term needs this again. Waits for all of them to come; throws what has kept one from it, or which
/// ones have not answered in the options' time and some seconds: they are stopped, or busy with other calls. Those of
/// one machine share memory; between machines they use TCP.
/// When a call of all members (call_all(), call_each(), scatter(), gather()) throws on one rank and other ranks are at
/// it a second later, that rank gives its communicator up: the others' operations throw which rank it was and what it
/// threw, and the group needs this again.
template <class T>
void connect(const ActorGroup<T>& group, const CommunicatorOptions& options = {}) {
  for (;;) {
    const std::uint64_t term = group.term();
    try {
      const auto offers = detail::answers(group.template call_all<&detail::offer<T>>(options), options);
      detail::answers(group.template call_all<&detail::join<T>>(offers, detail::new_rank_key(), options), options);
      pharos::detail::set_on_throw(*group.core(), &detail::tell_of_throw<T>);
      return;
    } catch (const Exception&) {
      if (group.term() == term) throw;  // else: those that are there now
    }
  }
}

/// In a method of a member: the one that connect() has made for its group in this term. Throws FailedPrecondition where
/// there is none.
PHAROS_API Communicator& communicator();

}  // namespace pharos::ml
