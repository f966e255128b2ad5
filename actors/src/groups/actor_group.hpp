#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <pharos/actors/actor_group.hpp>

namespace pharos::detail {

class Caller;

/// The state of an ActorGroup: its members and spares, and who replaces a member that is lost. Losses are noticed when
/// the loss of an actor becomes ready, and whenever term() is called.
/// Shared by the group's handles and by a running map(). Any thread; replacements are made on the thread that calls
/// term(), or on the thread for callbacks.
/// Failure: begin(), resize() and new_cell() throw RuntimeStopped after the Runtime has ended; begin() also throws
/// InvalidArgument and what the making of an actor throws. A group in which a lost actor cannot be replaced fails. A
/// group that has failed stays failed; its actors are killed.
/// End: with the last share. The destructor kills the actors of a resize() that is under way, whose cell gets
/// kCancelled. The other actors end when their calls have been answered, and nobody else has a handle.
class GroupCore final : public std::enable_shared_from_this<GroupCore> {
 public:
  GroupCore(std::weak_ptr<Caller> caller, const ActorGroupOptions& options, MemberKind kind);
  GroupCore(GroupCore&&) = delete;
  ~GroupCore();

  /// Makes the members and spares. Called once, before everything else.
  void begin();
  /// Replaces the members and spares that are lost, and returns the present term. Throws no Exception: if a replacement
  /// fails, the term has the error.
  std::shared_ptr<const GroupTerm> term();
  /// Returns a cell that gets the failure, or an empty value when the new term has begun. It does not wait.
  CellHandle resize(std::size_t size);
  /// Ends all actors: as by Actor::stop(), or without a grace as by Actor::kill(). The group has failed then
  /// (kActorDied). Does not wait.
  void end(std::optional<Duration> grace);
  /// Returns a pending cell that the caller completes. cancel() of the cell does nothing.
  CellHandle new_cell() const;
  void set_on_throw(OnThrow then);
  void watch_for_throw(const std::shared_ptr<const GroupTerm>& term, const std::vector<CellHandle>& cells);

 private:
  /// A set of resources, and the actor that has them now or had them last. When the actor is lost, another one may get
  /// the seat.
  struct Seat {
    std::shared_ptr<ActorHandle> actor;
    CellHandle loss;       // ready when the actor is lost
    PlacementGroup group;  // empty if the seat has no resources
    std::int32_t place;    // number of the bundle in `group`
    Bundle has;
  };

  std::vector<Bundle> own_bundles() const;
  void check_dimensions(std::size_t size) const;
  std::vector<Seat> make_seats(const std::vector<Bundle>& bundles);
  void take_seat(Seat& seat, const Member& place, const std::string& label);
  void begin_term();
  void notice_loss();
  bool replace_one();
  bool bears(const Seat& lost, const std::string& who);
  void lose_member(std::size_t rank);
  void make_spare(Seat seat);
  void fail(const Error& why);
  void shrink(std::size_t size);
  void grow(std::size_t more, const CellHandle& made);
  void take_in(const std::vector<CellHandle>& greeted, const CellHandle& made);
  void give_up_growth(const Error& why);

  const std::weak_ptr<Caller> caller_;
  const ActorGroupOptions options_;
  const std::string label_;
  const MemberKind kind_;
  const std::uint64_t id_;

  std::mutex mutex_;
  std::shared_ptr<const GroupTerm> term_;
  std::vector<Seat> members_;  // by rank
  std::vector<Seat> spares_;
  std::vector<Seat> free_;  // seats whose actors are gone and were not replaced
  std::size_t deaths_ = 0;
  /// A resize() to more members that is under way: the new actors become members once all of them are constructed.
  struct Growth {
    std::vector<Seat> coming;
    PlacementGroup room;              // resources of the seats that are new; the other seats come from free_
    std::optional<Error> given_up{};  // why the growth was given up
  };
  std::optional<Growth> growth_;
  std::optional<Error> failed_;
  std::shared_ptr<const OnThrow> on_throw_;

  /// A call of all members that watch_for_throw() watches.
  struct CallOfAll;
  void forget(const std::shared_ptr<CallOfAll>& call);
  std::mutex watched_mutex_;
  /// Calls whose results are not all ready. The callbacks in the results refer to these calls weakly: otherwise a
  /// result that never becomes ready, because the program ends first, would keep itself alive.
  std::vector<std::shared_ptr<CallOfAll>> watched_;
};

}  // namespace pharos::detail
