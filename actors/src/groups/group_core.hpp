#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <pharos/actors/actor_group.hpp>

namespace pharos::detail {

class Caller;

/// What the handles of an ActorGroup share: OwnGroup in the process that has made the group, SentGroup in processes to
/// which it was sent. Any thread.
/// Failure: new_cell() throws RuntimeStopped after the Runtime has ended.
class GroupCore : public std::enable_shared_from_this<GroupCore> {
 public:
  GroupCore(GroupCore&&) = delete;
  virtual ~GroupCore() = default;

  /// Returns the present term. Throws no Exception.
  virtual std::shared_ptr<const GroupTerm> term() = 0;
  /// Returns a cell that gets the failure, or an empty value when the new term has begun. It does not wait.
  virtual CellHandle resize(std::size_t size) = 0;
  /// Ends all actors: as by Actor::stop(), or without a grace as by Actor::kill(). The group has failed then
  /// (kActorDied). Does not wait.
  virtual void end(std::optional<Duration> grace) = 0;

  /// Returns a pending cell that the caller completes. cancel() of the cell does nothing.
  CellHandle new_cell() const;
  void set_on_throw(OnThrow then);
  void watch_for_throw(const std::shared_ptr<const GroupTerm>& term, const std::vector<CellHandle>& cells);

 protected:
  explicit GroupCore(std::weak_ptr<Caller> caller) : caller_{std::move(caller)} {}

  /// Throws RuntimeStopped after the Runtime has ended.
  std::shared_ptr<Caller> caller() const;
  /// Null after the Runtime has ended.
  std::shared_ptr<Caller> caller_if_there() const { return caller_.lock(); }

 private:
  /// A call of all members that watch_for_throw() watches.
  struct CallOfAll;
  void forget(const std::shared_ptr<CallOfAll>& call);

  const std::weak_ptr<Caller> caller_;
  std::mutex watched_mutex_;
  std::shared_ptr<const OnThrow> on_throw_;
  /// Calls whose results are not all ready. The callbacks in the results refer to these calls weakly: otherwise a
  /// result that never becomes ready, because the program ends first, would keep itself alive.
  std::vector<std::shared_ptr<CallOfAll>> watched_;
};

}  // namespace pharos::detail
