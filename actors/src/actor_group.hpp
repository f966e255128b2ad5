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

class GroupCore final : public std::enable_shared_from_this<GroupCore> {
 public:
  GroupCore(std::weak_ptr<Caller> caller, const ActorGroupOptions& options, MemberKind kind);
  GroupCore(GroupCore&&) = delete;
  ~GroupCore();

  void begin();
  /// The present one: who is lost by now has been replaced.
  std::shared_ptr<const GroupTerm> term();
  CellHandle resize(std::size_t size);
  /// Without grace: at once.
  void end(std::optional<Duration> grace);
  CellHandle new_cell() const;
  void set_on_throw(OnThrow then);
  void watch_for_throw(const std::shared_ptr<const GroupTerm>& term, const std::vector<CellHandle>& cells);

 private:
  /// Where an actor is, or was, and another one may be.
  struct Seat {
    std::shared_ptr<ActorHandle> actor;
    CellHandle loss;       // ready when it is lost
    PlacementGroup group;  // none: it holds nothing
    std::int32_t place;    // in that
    Bundle has;
  };

  std::vector<Bundle> own_bundles() const;
  std::vector<Seat> make_seats(const std::vector<Bundle>& bundles);
  void take_seat(Seat& seat, const Member& place, const std::string& label);
  void begin_term();
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
  std::vector<Seat> free_;  // whose members are gone and not replaced
  std::size_t deaths_ = 0;
  /// Those that are to be members once all of them have been constructed.
  struct Growth {
    std::vector<Seat> coming;
    PlacementGroup room;  // what they have that is new
    std::optional<Error> given_up{};
  };
  std::optional<Growth> growth_;
  std::optional<Error> failed_;
  std::shared_ptr<const OnThrow> on_throw_;

  /// A call of all members that somebody watches.
  struct CallOfAll;
  void forget(const std::shared_ptr<CallOfAll>& call);
  std::mutex watched_mutex_;
  /// Whose results are not all ready. The results' watchers know these weakly: a result that never becomes ready, as
  /// when the program ends before, must not keep itself.
  std::vector<std::shared_ptr<CallOfAll>> watched_;
};

}  // namespace pharos::detail
