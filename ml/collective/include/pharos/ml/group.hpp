#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/actors/actor_group.hpp>
#include <pharos/actors/exceptions.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/collective/rank_offer.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {
namespace detail {

/// Returns a random key.
PHAROS_API RankKey new_rank_key();

/// The two steps of connect() in a method of a member. offer_member() makes the member's offer and keeps it in the
/// process until join_members(), the next offer or the next term; it throws InvalidArgument for more than 64 ranks.
/// join_members() connects the member to the ranks whose offers these are, waits for them, and makes its communicator;
/// it throws FailedPrecondition if another connect() has replaced the member's offer. Otherwise the offer and the
/// member's earlier communicator are gone afterwards, also when it throws what has kept the ranks from connecting. Like
/// communicator(), both throw FailedPrecondition where no member of a group runs.
PHAROS_API RankOffer offer_member(const CommunicatorOptions& options);
PHAROS_API void join_members(const std::vector<RankOffer>& offers, const RankKey& key,
                             const CommunicatorOptions& options);

/// The time that members have for an answer, in addition to the time that they may wait for each other.
inline constexpr Duration kAnswerTime = std::chrono::seconds{3};
/// Throws DeadlineExceeded, which names the ranks `by`.
[[noreturn]] PHAROS_API void throw_unanswered(const std::vector<std::size_t>& by, std::size_t ranks);
/// Waits for the results of all calls and returns them. Throws DeadlineExceeded with the ranks that have not answered
/// in the options' timeout and kAnswerTime, and else the error of a call that has failed. Blocks the calling thread.
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

/// Called in a method of a member. Aborts the communicator of the member's group, if the group is connected, so that
/// the operations of the other ranks fail with Cancelled and the text `why`.
PHAROS_API void give_up_member(const std::string& why);
template <class T>
void give_up(T&, const std::string& why) {
  give_up_member(why);
}
/// Called in the process that has connected the group, on the thread for callbacks, when a call of all members has
/// thrown on `rank` while other ranks still run it. Makes that member give up, without waiting for it; a failure of
/// that call is ignored.
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

/// Connects the members of a group, as they are in its present term, as ranks that work together: from then on their
/// methods have communicator(). A group in a new term has to be connected again. Members of one machine share memory,
/// and between machines they use TCP.
///
/// May be called by any thread that may call the group's methods, but only once at a time for a group: of two calls at
/// the same time at least one throws FailedPrecondition. Waits until all members have come. Throws the error that has
/// kept a member from coming. Throws DeadlineExceeded with the members that have not answered in the options' timeout
/// and some seconds, because they are stopped, or busy with other calls. It makes two calls of each member, and waits
/// so long for each. After a failure members have no communicator, or the one of an earlier connect(): connect the
/// group again. When a new term begins meanwhile, the members of the new term are connected. Throws InvalidArgument for
/// a group of more than 64 ranks.
///
/// When a call of all members (call_all(), call_each(), scatter(), gather()) throws on one rank and other ranks still
/// run it a second later, that rank aborts its communicator: operations of the other ranks throw an error with that
/// rank and what it threw, and the group has to be connected again.
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
      if (group.term() == term) throw;  // In a new term the members of that term are connected instead.
    }
  }
}

/// Called in a method of a member: returns the communicator that connect() has made for its group in this term. The
/// process owns it, and destroys it when the member is connected again, or first asks for a communicator in a new term;
/// the reference is then invalid. One thread at a time uses it. Throws FailedPrecondition if the group is not connected
/// in this term, and where no member of a group runs.
PHAROS_API Communicator& communicator();

}  // namespace pharos::ml
