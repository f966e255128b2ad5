#include "groups/actor_group.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

#include "caller/caller.hpp"
#include "caller/refused.hpp"
#include "program/function_table.hpp"
#include "results/result_cell.hpp"
#include "worker/running_call.hpp"

namespace pharos {

Member member() {
  const auto* const running = actors::RunningCall::of_this_thread();
  const Member place = running == nullptr ? Member{} : running->member();
  if (place.group == 0) {
    throw_error(Error{ErrorCode::kFailedPrecondition, "member() was called where no member of a group runs",
                      "Call it in the methods and the constructor of an actor that spawn_group() has made."});
  }
  return place;
}

namespace detail {
namespace {

constexpr Duration kResizeGrace = std::chrono::seconds{30};  // grace of members that resize() removes
constexpr std::size_t kMembersMax = std::size_t{1} << 20;
constexpr Duration kGoesOnTime = std::chrono::seconds{1};  // see OnThrow

/// Returns how many places the dimensions have together; SIZE_MAX if no number holds them.
std::size_t places_in(const std::vector<Dimension>& dimensions) {
  std::size_t places = 1;
  for (const Dimension& each : dimensions) {
    if (__builtin_mul_overflow(places, each.size, &places)) return SIZE_MAX;
  }
  return places;
}

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

bool is_empty(const Bundle& bundle) {
  return bundle.cpus == 0 && bundle.gpus == 0 && bundle.memory == ByteCount{} && bundle.resources.empty() &&
         bundle.labels.empty() && !bundle.node;
}

}  // namespace

void enter_group_call(const Member& place) {
  auto* const running = actors::RunningCall::of_this_thread();
  if (const auto entered = running->enter_group(place); !entered) throw_error(entered.error());
}

// ---- Making

std::shared_ptr<GroupCore> make_group(const std::shared_ptr<Caller>& caller, const ActorGroupOptions& options,
                                      MemberKind kind) {
  auto core = std::make_shared<GroupCore>(caller, options, std::move(kind));
  core->begin();
  return core;
}

GroupCore::GroupCore(std::weak_ptr<Caller> caller, const ActorGroupOptions& options, MemberKind kind)
    : caller_{std::move(caller)},
      options_{options},
      label_{options.name.empty() ? actors::readable_name(kind.type_name) : options.name},
      kind_{std::move(kind)},
      id_{random_u64() | 1} {}

// The actors of a growth have a pending call (greet), so that they and their demand for resources would outlive the
// group.
GroupCore::~GroupCore() {
  give_up_growth({ErrorCode::kCancelled, "the last handle of the group is gone"});
}

std::vector<Bundle> GroupCore::own_bundles() const {
  if (!options_.members.empty()) return options_.members;
  const bool only_dimensions = options_.size == 0 && !options_.dimensions.empty();
  const std::size_t size = only_dimensions ? places_in(options_.dimensions) : options_.size;
  if (size > kMembersMax) {
    throw_error(Error{ErrorCode::kInvalidArgument, "group \"" + label_ + "\" has " + std::to_string(size) +
                                                       " members; more than " + std::to_string(kMembersMax) +
                                                       " are too many"});
  }
  return std::vector<Bundle>(size, options_.member);
}

void GroupCore::check_dimensions(std::size_t size) const {
  const auto refuse = [this](const std::string& why) {
    throw_error(Error{ErrorCode::kInvalidArgument, "group \"" + label_ + "\" " + why});
  };
  if (options_.dimensions.empty()) return;
  std::set<std::string> names;
  for (const Dimension& each : options_.dimensions) {
    if (each.size == 0) refuse("has no place in its dimension \"" + each.name + '"');
    if (!names.insert(each.name).second) refuse("has two dimensions \"" + each.name + '"');
  }
  if (const std::size_t places = places_in(options_.dimensions); places != size) {
    refuse("has " + std::to_string(size) + " members, but its dimensions have " + std::to_string(places) + " places");
  }
}

void GroupCore::begin() {
  std::vector<Bundle> bundles = own_bundles();
  check_dimensions(bundles.size());
  if (bundles.empty()) {
    throw_error(Error{ErrorCode::kInvalidArgument, "group \"" + label_ + "\" has no members", "Give it a size."});
  }
  if (!options_.members.empty() && options_.size != 0 && options_.size != bundles.size()) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "group \"" + label_ + "\" has size " + std::to_string(options_.size) + ", but " +
                          std::to_string(bundles.size()) + " entries in .members",
                      "Leave out the size, or give one entry for each member."});
  }
  const std::size_t size = bundles.size();
  bundles.insert(bundles.end(), options_.spares, options_.member);
  const std::lock_guard lock{mutex_};
  std::vector<Seat> seats = make_seats(bundles);
  for (std::uint32_t rank = 0; rank < seats.size(); ++rank) {
    const bool is_member = rank < size;
    const Member place{id_, 1, is_member ? rank : Member::kSpare, static_cast<std::uint32_t>(size)};
    take_seat(seats[rank], place, label_ + (is_member ? '/' + std::to_string(rank) : "/spare"));
    (is_member ? members_ : spares_).push_back(std::move(seats[rank]));
  }
  begin_term();
}

/// Makes a seat for each bundle. Their resources come from one placement group, so that they get room together or not
/// at all.
std::vector<GroupCore::Seat> GroupCore::make_seats(const std::vector<Bundle>& bundles) {
  const auto caller = caller_.lock();
  if (caller == nullptr) throw_error(actors::stopped());
  std::vector<Seat> seats;
  PlacementGroup group;
  if (!std::all_of(bundles.begin(), bundles.end(), is_empty)) {
    group = PlacementGroup{caller->reserve({.name = label_,
                                            .bundles = bundles,
                                            .strategy = options_.strategy,
                                            .wait_for_nodes = options_.wait_for_nodes})};
  }
  for (const Bundle& bundle : bundles) {
    seats.push_back(
        {.actor = {}, .loss = {}, .group = group, .place = static_cast<std::int32_t>(seats.size()), .has = bundle});
  }
  return seats;
}

/// Makes the first or the next actor of a seat.
void GroupCore::take_seat(Seat& seat, const Member& place, const std::string& label) {
  const auto caller = caller_.lock();
  if (caller == nullptr) throw_error(actors::stopped());
  if (const auto why = caller->line().over()) throw_error(Error{*why});
  ActorOptions options{.cpus = seat.has.cpus,
                       .gpus = seat.has.gpus,
                       .memory = seat.has.memory,
                       .resources = seat.has.resources,
                       .group = seat.group,
                       .bundle = seat.group ? seat.place : -1,
                       .leave_on_drain = options_.on_death != OnDeath::kFail};
  seat.actor = kind_.make(*caller, options, label, place);
  seat.loss = seat.actor->loss();
  seat.loss.call_back([weak = weak_from_this()] {
    if (const auto core = weak.lock()) core->notice_loss();
  });
}

// ---- Terms

void GroupCore::begin_term() {
  auto next = std::make_shared<GroupTerm>();
  const std::uint64_t last = term_ == nullptr ? 0 : term_->place.term;
  next->place = {id_, last + 1, 0, static_cast<std::uint32_t>(members_.size())};
  for (const Seat& seat : members_) {
    next->actors.push_back(seat.actor);
    if (seat.group) next->placed.push_back(seat.group.nodes().cell());
  }
  next->failed = failed_;
  next->dimensions = options_.dimensions;
  term_ = std::move(next);
}

std::shared_ptr<const GroupTerm> GroupCore::term() {
  const std::lock_guard lock{mutex_};
  try {
    while (!failed_ && replace_one()) {
    }
  } catch (const Exception& e) {
    fail(Error{e.error()}.with("replacing a lost member of group \"" + label_ + '"'));
  }
  return term_;
}

// When the Runtime has ended, nobody can be replaced. A callback then runs on the thread that completes the result,
// which may hold the mutex: so it must not be locked here.
void GroupCore::notice_loss() {
  const auto caller = caller_.lock();
  if (caller == nullptr || caller->abandoned() || caller->line().over()) return;
  static_cast<void>(term());
}

/// Replaces one actor that is lost. Returns false if there is none.
bool GroupCore::replace_one() {
  const auto is_lost = [](const Seat& seat) { return seat.loss.ready(); };
  if (const auto lost = std::find_if(members_.begin(), members_.end(), is_lost); lost != members_.end()) {
    lose_member(static_cast<std::size_t>(lost - members_.begin()));
    return true;
  }
  if (const auto lost = std::find_if(spares_.begin(), spares_.end(), is_lost); lost != spares_.end()) {
    Seat seat = std::move(*lost);
    spares_.erase(lost);
    if (bears(seat, "a spare")) make_spare(std::move(seat));
    return true;
  }
  return false;
}

/// Counts the loss of an actor. Returns false if the group fails because of it.
bool GroupCore::bears(const Seat& lost, const std::string& who) {
  const Error why = lost.loss.wait(Deadline::never()).error();
  lost.actor->kill();  // its process may still run where this process cannot reach it
  ++deaths_;
  if (lost.group && lost.group.nodes().ready()) {
    if (const auto placed = lost.group.nodes().try_get(); !placed) {
      fail(placed.error());
      return false;
    }
  }
  if (options_.on_death == OnDeath::kFail || deaths_ > options_.deaths_max) {
    const bool survives_none = options_.on_death == OnDeath::kFail;
    const std::string how_many =
        survives_none ? "" : ", and the group survives at most " + std::to_string(options_.deaths_max) + " deaths";
    // The remedy of an actor that has died is an option of actors.
    const char* const remedy = survives_none ? "Fix what ends the member, or give the group OnDeath::kRestart."
                                             : "Fix what ends the members, or give the group a larger deaths_max.";
    fail(Error{why.code(), "group \"" + label_ + "\" has lost " + who + how_many + ": " + why.message(),
               why.code() == ErrorCode::kActorDied ? remedy : why.remedy()});
  } else {
    log(LogLevel::kWarn, "a group has lost a member",
        {kv("group", label_), kv("member", who), kv("term", term_->place.term), kv("why", why.story())});
  }
  return !failed_;
}

// In a group that fails, the lost actor stays a member: call_all() then returns one failed result for each member.
void GroupCore::lose_member(std::size_t rank) {
  if (!bears(members_[rank], "member " + std::to_string(rank))) return;
  const std::size_t left = members_.size() - 1;
  if (options_.on_death == OnDeath::kShrink && left < options_.size_min) {
    return fail(Error{ErrorCode::kActorDied, "group \"" + label_ + "\" has " + std::to_string(left) +
                                                 " members left, and needs " + std::to_string(options_.size_min)});
  }
  if (options_.on_death == OnDeath::kShrink) {
    free_.push_back(std::move(members_[rank]));
    members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(rank));
    return begin_term();
  }
  if (options_.on_death == OnDeath::kSpare && !spares_.empty()) {
    Seat seat = std::exchange(members_[rank], std::move(spares_.front()));
    spares_.erase(spares_.begin());
    begin_term();
    return make_spare(std::move(seat));
  }
  const Member place{id_, term_->place.term + 1, static_cast<std::uint32_t>(rank),
                     static_cast<std::uint32_t>(members_.size())};
  take_seat(members_[rank], place, label_ + '/' + std::to_string(rank));
  begin_term();
}

void GroupCore::make_spare(Seat seat) {
  take_seat(seat, {id_, term_->place.term, Member::kSpare, term_->place.size}, label_ + "/spare");
  spares_.push_back(std::move(seat));
}

void GroupCore::fail(const Error& why) {
  failed_ = why;
  give_up_growth(why);
  for (const Seat& seat : members_) seat.actor->kill(why);
  for (const Seat& seat : spares_) seat.actor->kill(why);
  spares_.clear();
  begin_term();
}

// ---- Other sizes

CellHandle GroupCore::resize(std::size_t size) {
  static_cast<void>(term());
  const std::lock_guard lock{mutex_};
  const auto caller = caller_.lock();
  if (caller == nullptr) throw_error(actors::stopped());
  CellHandle made = caller->new_cell();
  if (size == 0) {
    made.set_error({ErrorCode::kInvalidArgument, "group \"" + label_ + "\" must keep at least one member",
                    "Call stop() to end the group."});
  } else if (failed_) {
    made.set_error(*failed_);
  } else if (size <= members_.size()) {
    shrink(size);
    made.set_value({});
  } else if (growth_) {
    made.set_error({ErrorCode::kFailedPrecondition, "group \"" + label_ + "\" is growing already",
                    "Wait for the earlier resize() first, or cancel it."});
  } else {
    grow(size - members_.size(), made);
  }
  return made;
}

void GroupCore::shrink(std::size_t size) {
  give_up_growth({ErrorCode::kCancelled, "the group was resized to " + std::to_string(size) + " members"});
  if (size == members_.size()) return;
  for (std::size_t rank = size; rank < members_.size(); ++rank) {
    members_[rank].actor->stop(kResizeGrace);
    free_.push_back(std::move(members_[rank]));
  }
  members_.resize(size);
  begin_term();
}

// Takes the seats that earlier members have left, before it asks for more resources.
void GroupCore::grow(std::size_t more, const CellHandle& made) {
  Growth growth;
  while (growth.coming.size() < more && !free_.empty()) {
    growth.coming.push_back(std::move(free_.back()));
    free_.pop_back();
  }
  std::vector<CellHandle> greeted;
  if (growth.coming.size() < more) {
    auto seats = make_seats(std::vector<Bundle>(more - growth.coming.size(), options_.member));
    growth.room = seats.front().group;
    std::move(seats.begin(), seats.end(), std::back_inserter(growth.coming));
    // It is the first in the list, because why there is no room says more than that an actor could not be made.
    if (growth.room) greeted.push_back(growth.room.nodes().cell());
  }
  const Member place{id_, term_->place.term, Member::kSpare, term_->place.size};
  std::size_t rank = members_.size();
  for (Seat& seat : growth.coming) {
    take_seat(seat, place, label_ + '/' + std::to_string(rank++));
    greeted.push_back(kind_.greet(*seat.actor, place));
  }
  growth_ = std::move(growth);
  made->on_cancel([weak = weak_from_this()] {
    const auto core = weak.lock();
    if (core == nullptr) return;
    const std::lock_guard lock{core->mutex_};
    core->give_up_growth({ErrorCode::kCancelled, "it was cancelled"});
  });
  call_back_when_ready(greeted, [weak = weak_from_this(), greeted, made] {
    if (const auto core = weak.lock()) return core->take_in(greeted, made);
    made.set_error({ErrorCode::kCancelled, "the last handle of the group is gone"});
  });
}

/// Gives up the growth that is under way, if there is one.
void GroupCore::give_up_growth(const Error& why) {
  if (!growth_ || growth_->given_up) return;
  growth_->given_up = why;
  for (const Seat& seat : growth_->coming) seat.actor->kill();
  growth_->room.remove();
}

void GroupCore::take_in(const std::vector<CellHandle>& greeted, const CellHandle& made) {
  std::optional<Error> why;
  {
    const std::lock_guard lock{mutex_};
    Growth growth = *std::exchange(growth_, std::nullopt);
    why = growth.given_up;
    for (const CellHandle& each : greeted) {
      if (auto answer = each.wait(Deadline::never()); !answer && !why) why = std::move(answer).error();
    }
    for (Seat& seat : growth.coming) {
      if (!why) {
        members_.push_back(std::move(seat));
        continue;
      }
      seat.actor->kill();
      if (seat.group.handle() != growth.room.handle()) free_.push_back(std::move(seat));
    }
    if (!why) begin_term();
  }
  if (why) {
    made.set_error(std::move(*why).with("growing group \"" + label_ + '"'));
  } else {
    made.set_value({});
  }
}

// ---- Ends

void GroupCore::end(std::optional<Duration> grace) {
  const std::lock_guard lock{mutex_};
  if (!failed_) {
    failed_ = Error{ErrorCode::kActorDied,
                    "group \"" + label_ + "\" was " + (grace ? "stopped" : "killed") + " by this program",
                    "Spawn another group if one is still needed."};
  }
  give_up_growth(*failed_);
  for (const auto* const seats : {&members_, &spares_}) {
    for (const Seat& seat : *seats) {
      if (grace) {
        seat.actor->stop(*grace);
      } else {
        seat.actor->kill();
      }
    }
  }
  begin_term();
}

// ---- Calls of all members

void GroupCore::set_on_throw(OnThrow then) {
  const std::lock_guard lock{mutex_};
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
    const std::lock_guard lock{mutex_};
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

CellHandle GroupCore::new_cell() const {
  const auto caller = caller_.lock();
  if (caller == nullptr) throw_error(actors::stopped());
  return caller->new_cell();
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

std::shared_ptr<ActorHandle> spawn_actor(Caller& caller, const ActorOptions& options, const char* type_name,
                                         const std::string& label, const RegisteredFunction& constructor,
                                         Arguments& arguments) {
  auto actor = caller.actors().spawn(options, type_name, constructor, arguments, label);
  arguments.let_go();
  return actor;
}

}  // namespace detail
}  // namespace pharos
