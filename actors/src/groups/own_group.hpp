#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "groups/group_core.hpp"

namespace pharos::detail {

/// A group that this process has made: its members and spares, and who replaces a member that is lost. Losses are
/// noticed when the loss of an actor becomes ready, and whenever term() is called.
/// Shared by the group's handles and by a running map(). Any thread; replacements are made on the thread that calls
/// term(), or on the thread for callbacks.
/// Failure: begin() and resize() throw RuntimeStopped after the Runtime has ended; begin() also throws InvalidArgument
/// and what the making of an actor throws. A group in which a lost actor cannot be replaced fails. A group that has
/// failed stays failed; its actors are killed.
/// End: with the last share. The destructor kills the actors of a resize() that is under way, whose cell gets
/// kCancelled. The other actors end when their calls have been answered, and nobody else has a handle.
class OwnGroup final : public GroupCore {
 public:
  OwnGroup(std::weak_ptr<Caller> caller, const ActorGroupOptions& options, MemberKind kind);
  ~OwnGroup() override;

  /// Makes the members and spares. Called once, before everything else.
  void begin();
  /// Replaces the members and spares that are lost, and returns the present term. Throws no Exception: if a replacement
  /// fails, the term has the error.
  std::shared_ptr<const GroupTerm> term() override;
  CellHandle resize(std::size_t size) override;
  void end(std::optional<Duration> grace) override;

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

  std::weak_ptr<OwnGroup> weakly();

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
};

}  // namespace pharos::detail
