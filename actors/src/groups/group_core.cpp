#include "groups/group_core.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include <pharos/base/log.hpp>

#include "caller/caller.hpp"
#include "caller/refused.hpp"
#include "groups/dimensions.hpp"
#include "results/result_cell.hpp"

namespace pharos::detail {
namespace {

constexpr Duration kGoesOnTime = std::chrono::seconds{1};  // see OnThrow

/// Returns whether the error is the rank's own, and not a consequence of the loss of another rank, of a deadline or of
/// a cancellation.
bool is_own(const Error& why) {
  switch (why.code()) {
    case ErrorCode::kActorDied:
    case ErrorCode::kWorkerDied:
    case ErrorCode::kUnavailable:
    case ErrorCode::kObjectLost:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kRuntimeStopped:
    case ErrorCode::kCancelled: return false;
    default: return true;
  }
}

}  // namespace

void GroupCore::set_on_throw(OnThrow then) {
  const std::lock_guard lock{watched_mutex_};
  on_throw_ = std::make_shared<const OnThrow>(std::move(then));
}

struct GroupCore::CallOfAll {
  std::shared_ptr<const GroupTerm> term;
  std::shared_ptr<const OnThrow> on_throw;
  std::vector<CellHandle> cells;
  std::atomic<std::size_t> missing;  // number of cells that are not ready
  std::atomic<bool> has_thrown = false;

  bool goes_on() const {
    return std::any_of(cells.begin(), cells.end(), [](const CellHandle& each) { return !each.ready(); });
  }
};

void GroupCore::watch_for_throw(const std::shared_ptr<const GroupTerm>& term, const std::vector<CellHandle>& cells) {
  std::shared_ptr<const OnThrow> on_throw;
  {
    const std::lock_guard lock{watched_mutex_};
    on_throw = on_throw_;
  }
  if (on_throw == nullptr) return;
  const std::shared_ptr<CallOfAll> made{new CallOfAll{term, std::move(on_throw), cells, cells.size()}};
  {
    const std::lock_guard lock{watched_mutex_};
    watched_.push_back(made);
  }
  for (std::uint32_t rank = 0; rank < cells.size(); ++rank) {
    cells[rank].when_ready([weakly = std::weak_ptr{made}, rank, caller = caller_, group = weak_from_this()] {
      const auto call = weakly.lock();
      if (call == nullptr) return;
      if (--call->missing == 0) {
        if (const auto core = group.lock()) core->forget(call);
      }
      const Error* const why = call->cells[rank]->error();
      if (why == nullptr || !is_own(*why) || call->has_thrown.exchange(true)) return;
      const auto there = caller.lock();
      if (there == nullptr) return;
      auto& executor = there->line().executor();
      executor.run_at(executor.now() + kGoesOnTime, [weakly, rank] {
        const auto later = weakly.lock();
        if (later == nullptr || !later->goes_on()) return;
        later->cells[rank].call_back([weakly, rank] {
          const auto now = weakly.lock();
          if (now == nullptr || !now->goes_on()) return;
          try {
            (*now->on_throw)(*now->term, rank, *now->cells[rank]->error());
          } catch (const Exception& e) {
            log(LogLevel::kWarn, "the other ranks were not told that one has thrown", {kv("why", e.error())});
          }
        });
      });
    });
  }
}

/// Removes the call from the list. The caller has a share of it, so that it is freed after the lock is released.
void GroupCore::forget(const std::shared_ptr<CallOfAll>& call) {
  const std::lock_guard lock{watched_mutex_};
  std::erase(watched_, call);
}

std::shared_ptr<Caller> GroupCore::caller() const {
  auto caller = caller_.lock();
  if (caller == nullptr) throw_error(actors::stopped());
  return caller;
}
CellHandle GroupCore::new_cell() const {
  return caller()->new_cell();
}

std::shared_ptr<const GroupTerm> term_of(GroupCore& core) {
  return core.term();
}
std::vector<std::size_t> ranks_at(const GroupTerm& term, const Coordinates& where) {
  const auto refuse = [](ErrorCode code, const std::string& why) { throw_error(Error{code, why}); };
  std::vector<std::size_t> ranks{0};
  for (const Dimension& each : term.dimensions) {
    const auto at = where.find(each.name);
    if (at != where.end() && at->second >= each.size) {
      refuse(ErrorCode::kInvalidArgument, "the dimension \"" + each.name + "\" has " + std::to_string(each.size) +
                                              " places, so there is no place " + std::to_string(at->second));
    }
    std::vector<std::size_t> next;
    for (const std::size_t rank : ranks) {
      for (std::size_t place = 0; place < each.size; ++place) {
        if (at == where.end() || at->second == place) next.push_back(rank * each.size + place);
      }
    }
    ranks = std::move(next);
  }
  for (const auto& [name, place] : where) {
    const auto same = [&name = name](const Dimension& each) { return each.name == name; };
    if (std::none_of(term.dimensions.begin(), term.dimensions.end(), same)) {
      refuse(ErrorCode::kInvalidArgument, "the group has no dimension \"" + name + '"');
    }
  }
  if (const std::size_t places = places_in(term.dimensions); places != term.actors.size()) {
    refuse(ErrorCode::kFailedPrecondition, "the group has " + std::to_string(term.actors.size()) +
                                               " members now, and its dimensions have " + std::to_string(places) +
                                               " places");
  }
  return ranks;
}

void check_one_each(std::size_t members, std::size_t given) {
  if (given == members) return;
  throw_error(Error{ErrorCode::kInvalidArgument, "there are " + std::to_string(members) + " members, and " +
                                                     std::to_string(given) + " arguments were given for them"});
}

void set_on_throw(GroupCore& core, OnThrow then) {
  core.set_on_throw(std::move(then));
}
void watch_for_throw(GroupCore& core, const std::shared_ptr<const GroupTerm>& term,
                     const std::vector<CellHandle>& cells) {
  core.watch_for_throw(term, cells);
}
CellHandle resize_group(GroupCore& core, std::size_t size) {
  return core.resize(size);
}
void stop_group(GroupCore& core, Duration grace) {
  core.end(grace);
}
void kill_group(GroupCore& core) {
  core.end(std::nullopt);
}
CellHandle failed_cell(GroupCore& core, const Error& why) {
  CellHandle cell = core.new_cell();
  cell.set_error(Error{why}.with_outcome(Outcome::kNotStarted));
  return cell;
}

}  // namespace pharos::detail
