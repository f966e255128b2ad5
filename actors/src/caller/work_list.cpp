#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "caller/caller.hpp"
#include "groups/group_core.hpp"

namespace pharos::detail {
namespace {

/// One WorkList that is being worked on. The callbacks of the calls in flight keep it alive.
class Distribution final : public std::enable_shared_from_this<Distribution> {
 public:
  Distribution(std::shared_ptr<GroupCore> core, const MapOptions& options, WorkList::Work work)
      : core_{std::move(core)}, options_{options}, work_{std::move(work)}, items_(work_.made.size()) {
    for (std::size_t item = 0; item < work_.made.size(); ++item) waiting_.push_back(item);
  }

  void begin() {
    for (std::size_t item = 0; item < work_.made.size(); ++item) {
      work_.made[item]->on_cancel([weak = weak_from_this(), item] {
        if (const auto self = weak.lock()) self->cancel(item);
      });
    }
    go_on();
  }

  void go_on() {
    const std::lock_guard lock{mutex_};
    while (!waiting_.empty()) {
      const auto term = core_->term();
      if (term->failed) return give_up(*term->failed);
      const std::size_t rank = least_busy(*term);
      if (busy_[term->actors[rank]] >= std::max<std::size_t>(options_.in_flight, 1)) return;
      const std::size_t item = waiting_.front();
      waiting_.pop_front();
      if (!work_.made[item].ready()) give(item, *term, rank);  // a result that is ready already was cancelled
    }
  }

 private:
  struct Item {
    CellHandle call;  // empty while no member has the item
    std::int32_t tries = 0;
    bool cancelled = false;
  };

  void cancel(std::size_t item) {
    CellHandle call;
    {
      const std::lock_guard lock{mutex_};
      items_[item].cancelled = true;
      call = items_[item].call;
    }
    if (call) return call.cancel();  // take() then passes the call's result on
    work_.made[item].set_error(
        Error{ErrorCode::kCancelled, "the item was cancelled before a member had it"}.with_outcome(
            Outcome::kNotStarted));
  }

  std::size_t least_busy(const GroupTerm& term) {
    const auto is_less = [this](const auto& a, const auto& b) { return busy_[a] < busy_[b]; };
    return static_cast<std::size_t>(std::min_element(term.actors.begin(), term.actors.end(), is_less) -
                                    term.actors.begin());
  }

  void give(std::size_t item, const GroupTerm& term, std::size_t rank) {
    const std::shared_ptr<ActorHandle>& actor = term.actors[rank];
    CellHandle done;
    try {
      done = work_.give(item, term, static_cast<std::uint32_t>(rank));
    } catch (...) {
      return work_.made[item].set_error(current_exception());
    }
    ++busy_[actor];
    items_[item].call = done;
    done.call_back([self = shared_from_this(), item, actor, done] { self->take(item, actor, done); });
  }

  void take(std::size_t item, const std::shared_ptr<ActorHandle>& actor, const CellHandle& done) {
    if (!is_to_be_given_again(item, actor, done)) work_.finish(item, done);
    go_on();
  }
  bool is_to_be_given_again(std::size_t item, const std::shared_ptr<ActorHandle>& actor, const CellHandle& done) {
    const std::lock_guard lock{mutex_};
    const auto busy = busy_.find(actor);
    if (--busy->second == 0) busy_.erase(busy);
    items_[item].call = {};
    if (items_[item].cancelled) return false;
    const auto ended = done.wait(Deadline::never());
    if (ended) return false;
    const bool has_retries = options_.max_retries < 0 || items_[item].tries < options_.max_retries;
    const bool is_over = actor->loss().ready() && has_retries;
    if (is_over) ++items_[item].tries;
    if (!is_over && !was_turned_away(actor, ended.error())) return false;
    waiting_.push_front(item);
    return true;
  }
  /// Returns whether an actor that has left the group refused the item, which has then not begun.
  bool was_turned_away(const std::shared_ptr<ActorHandle>& actor, const Error& why) const {
    if (why.code() != ErrorCode::kActorDied || why.outcome() != Outcome::kNotStarted) return false;
    const auto members = core_->term()->actors;
    return std::find(members.begin(), members.end(), actor) == members.end();
  }

  void give_up(const Error& why) {
    for (const std::size_t item : std::exchange(waiting_, {})) {
      if (!work_.made[item].ready()) work_.made[item].set_error(why);
    }
  }

  const std::shared_ptr<GroupCore> core_;
  const MapOptions options_;
  const WorkList::Work work_;

  std::mutex mutex_;
  std::deque<std::size_t> waiting_;  // items that are to be given to a member
  std::vector<Item> items_;
  std::map<std::shared_ptr<ActorHandle>, std::size_t> busy_;  // how many items each member has
};

}  // namespace

void WorkList::start(std::shared_ptr<GroupCore> core, const MapOptions& options, Work work) {
  std::make_shared<Distribution>(std::move(core), options, std::move(work))->begin();
}

CellHandle WorkList::new_cell(GroupCore& core) {
  return core.new_cell();
}

}  // namespace pharos::detail
