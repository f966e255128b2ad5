#include "groups/own_group.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

#include "caller/caller.hpp"
#include "caller/refused.hpp"
#include "groups/dimensions.hpp"
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
  auto core = std::make_shared<OwnGroup>(caller, options, std::move(kind));
  core->begin();
  return core;
}

OwnGroup::OwnGroup(std::weak_ptr<Caller> caller, const ActorGroupOptions& options, MemberKind kind)
    : GroupCore{std::move(caller)},
      options_{options},
      label_{options.name.empty() ? actors::readable_name(kind.type_name) : options.name},
      kind_{std::move(kind)},
      id_{random_u64() | 1} {}

std::weak_ptr<OwnGroup> OwnGroup::weakly() {
  return std::static_pointer_cast<OwnGroup>(shared_from_this());
}

// The actors of a growth have a pending call (greet), so that they and their demand for resources would outlive the
// group.
OwnGroup::~OwnGroup() {
  give_up_growth({ErrorCode::kCancelled, "the last handle of the group is gone"});
}

std::vector<Bundle> OwnGroup::own_bundles() const {
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

void OwnGroup::check_dimensions(std::size_t size) const {
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

void OwnGroup::begin() {
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
std::vector<OwnGroup::Seat> OwnGroup::make_seats(const std::vector<Bundle>& bundles) {
  const auto caller = this->caller();
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
void OwnGroup::take_seat(Seat& seat, const Member& place, const std::string& label) {
  const auto caller = this->caller();
  if (const auto why = caller->line().over()) throw_error(Error{*why});
  ActorOptions options{.cpus = seat.has.cpus,
                       .gpus = seat.has.gpus,
                       .memory = seat.has.memory,
                       .resources = seat.has.resources,
                       .group = seat.group,
                       .bundle = seat.group ? seat.place : -1,
                       .env = options_.env,
                       .leave_on_drain = options_.on_death != OnDeath::kFail};
  seat.actor = kind_.make(*caller, options, label, place);
  seat.loss = seat.actor->loss();
  seat.loss.call_back([weak = weakly()] {
    if (const auto core = weak.lock()) core->notice_loss();
  });
}

// ---- Terms

void OwnGroup::begin_term() {
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

std::shared_ptr<const GroupTerm> OwnGroup::term() {
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
void OwnGroup::notice_loss() {
  const auto caller = caller_if_there();
  if (caller == nullptr || caller->abandoned() || caller->line().over()) return;
  static_cast<void>(term());
}

/// Replaces one actor that is lost. Returns false if there is none.
bool OwnGroup::replace_one() {
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
bool OwnGroup::bears(const Seat& lost, const std::string& who) {
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
void OwnGroup::lose_member(std::size_t rank) {
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

void OwnGroup::make_spare(Seat seat) {
  take_seat(seat, {id_, term_->place.term, Member::kSpare, term_->place.size}, label_ + "/spare");
  spares_.push_back(std::move(seat));
}

void OwnGroup::fail(const Error& why) {
  failed_ = why;
  give_up_growth(why);
  for (const Seat& seat : members_) seat.actor->kill(why);
  for (const Seat& seat : spares_) seat.actor->kill(why);
  spares_.clear();
  begin_term();
}

// ---- Other sizes

CellHandle OwnGroup::resize(std::size_t size) {
  static_cast<void>(term());
  const std::lock_guard lock{mutex_};
  const auto caller = this->caller();
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

void OwnGroup::shrink(std::size_t size) {
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
void OwnGroup::grow(std::size_t more, const CellHandle& made) {
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
  made->on_cancel([weak = weakly()] {
    const auto core = weak.lock();
    if (core == nullptr) return;
    const std::lock_guard lock{core->mutex_};
    core->give_up_growth({ErrorCode::kCancelled, "it was cancelled"});
  });
  call_back_when_ready(greeted, [weak = weakly(), greeted, made] {
    if (const auto core = weak.lock()) return core->take_in(greeted, made);
    made.set_error({ErrorCode::kCancelled, "the last handle of the group is gone"});
  });
}

/// Gives up the growth that is under way, if there is one.
void OwnGroup::give_up_growth(const Error& why) {
  if (!growth_ || growth_->given_up) return;
  growth_->given_up = why;
  for (const Seat& seat : growth_->coming) seat.actor->kill();
  growth_->room.remove();
}

void OwnGroup::take_in(const std::vector<CellHandle>& greeted, const CellHandle& made) {
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

void OwnGroup::end(std::optional<Duration> grace) {
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

std::shared_ptr<ActorHandle> spawn_actor(Caller& caller, const ActorOptions& options, const char* type_name,
                                         const std::string& label, const RegisteredFunction& constructor,
                                         Arguments& arguments) {
  auto actor = caller.actors().spawn(options, type_name, constructor, arguments, label);
  arguments.let_go();
  return actor;
}

}  // namespace detail
}  // namespace pharos
