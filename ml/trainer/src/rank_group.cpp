#include "rank_group.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include <pharos/actors/exceptions.hpp>

#include "deaths.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using pharos::detail::CellHandle;

constexpr Duration kLookTime = 100ms;  // interval in which a wait asks whether it was interrupted
constexpr Duration kGreetTime = 500ms;
constexpr Duration kPause = 1ms;
constexpr Duration kReasonTime = 1s;  // when ranks throw because of a death, the death itself is known after this time

TimePoint now() {
  return std::chrono::steady_clock::now();
}

ActorGroupOptions group_of(const TrainerOptions& options) {
  const Scaling& scaling = options.scaling;
  ActorGroupOptions group{
      .name = options.name,
      .size = scaling.workers,
      .member = {.cpus = scaling.cpus_per_worker, .gpus = scaling.gpus_per_worker, .memory = scaling.memory_per_worker},
      .strategy = scaling.placement,
      .on_death = OnDeath::kRestart,
      .deaths_max = std::numeric_limits<std::size_t>::max()};
  if (!options.gpu_type.empty()) group.member.labels["gpu_type"] = options.gpu_type;
  return group;
}

/// A rank whose function has ended keeps no state that another process could take.
std::string has_ended(std::size_t rank) {
  return "the function of rank " + std::to_string(rank) + " had ended before";
}

}  // namespace

Error no_replacement(const Error& death, const std::string& why) {
  return {death.code(), death.story() + "; no other process could take its place: " + why, death.remedy()};
}

namespace detail {
TrainWorkers::~TrainWorkers() = default;
}  // namespace detail

RankGroup::RankGroup(const detail::MakeTrainWorkers& make, const TrainerOptions& options)
    : timeout_{options.timeout},
      gpu_path_{options.gpu_path},
      workers_{make(group_of(options))},
      ranks_(options.scaling.workers) {}

RankGroup::~RankGroup() {
  if (ended_ == ranks_.size() && !died_) {
    workers_->end();
  } else {
    workers_->kill();
  }
}

Result<bool> RankGroup::make_ready(const std::function<bool()>& interrupted, TimePoint until) {
  const CellHandle ready = workers_->ready();
  pharos::detail::ReadyQueue queue;
  queue.add(ready);
  while (queue.take({.count = 1, .deadline = Deadline::at(std::min(until, now() + kLookTime))}).empty()) {
    if (interrupted()) return false;
    if (now() >= until) return Error{ErrorCode::kDeadlineExceeded, "no node had room for another process in time"};
  }
  try {
    Ref<void>{ready}.get();
    if (ranks_.size() > 1) workers_->connect({.timeout = timeout_, .gpu_path = gpu_path_});
  } catch (const Exception& e) {
    return e.error();
  }
  return true;
}

void RankGroup::begin(detail::TrainBegin begin) {
  begin_ = std::move(begin);
  const std::vector<const void*> who = workers_->who();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].who = rank < who.size() ? who[rank] : nullptr;
    this->begin(rank);
  }
}

void RankGroup::begin(std::size_t rank) {
  await(workers_->run(rank, begin_), Awaited::What::kEnd, rank);
  if (rank == 0) await(workers_->next(), Awaited::What::kNews, 0);
}

void RankGroup::await(CellHandle cell, Awaited::What what, std::size_t rank) {
  awaited_.insert_or_assign(&*cell, Awaited{what, rank, ranks_[rank].who});
  queue_.add(std::move(cell));
}

// Finds processes that are stopped: they do not answer. All others answer, whatever their function does or waits for.
void RankGroup::greet() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& each = ranks_[rank];
    if (each.end) continue;
    const Duration since = now() - each.greeted_at;
    if (each.has_answered && since > kGreetTime) {
      each.has_answered = false;
      each.greeted_at = now();
      await(workers_->greet(rank), Awaited::What::kAnswer, rank);
    } else if (!each.has_answered && since > timeout_) {
      lose(rank,
           Error{ErrorCode::kDeadlineExceeded, "the process of the rank did not answer in time, and may be stopped"});
    }
  }
}

// Finds functions that hang. Their processes still answer, but the other ranks have waited for them in vain, and now
// wait for a replacement.
void RankGroup::look_for_missing() {
  const bool some_wait = std::ranges::any_of(ranks_, [](const Rank& each) { return each.waits && !each.end; });
  if (died_ || !some_wait) return waits_since_.reset();
  if (!waits_since_) waits_since_ = now();
  if (now() < *waits_since_ + kReasonTime + kGreetTime) return;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].waits || ranks_[rank].end) continue;
    lose(rank, Error{ErrorCode::kDeadlineExceeded,
                     "the function of the rank did not reach the other ranks in time, and may hang"});
  }
  if (!died_) miss_who_has_returned();
  if (died_ || left_) return;
  died_ = Error{ErrorCode::kDeadlineExceeded, "a rank reached the other ranks too late, although all ranks are alive",
                "Set a longer TrainerOptions::timeout."};
}

void RankGroup::miss_who_has_returned() {
  const auto returned = std::ranges::find_if(ranks_, [](const Rank& each) { return each.end && !each.end->threw; });
  if (returned == ranks_.end()) return;
  left_ = Error{ErrorCode::kFailedPrecondition,
                "the function of rank " + std::to_string(returned - ranks_.begin()) +
                    " has returned, while other ranks wait for it after step " + std::to_string(reported_),
                "All ranks must do the same steps."};
}

std::vector<detail::TrainEvent> RankGroup::wait(TimePoint until) {
  greet();
  look_for_missing();
  std::vector<detail::TrainEvent> events;
  for (const CellHandle& cell : queue_.take({.count = 1, .deadline = Deadline::at(until)})) {
    const auto found = awaited_.extract(&*cell);
    if (found) take(cell, found.mapped(), events);
  }
  return events;
}

void RankGroup::take(const CellHandle& cell, const Awaited& of, std::vector<detail::TrainEvent>& events) {
  const std::size_t rank = of.rank;
  if (of.who != ranks_[rank].who) return;
  if (of.what == Awaited::What::kAnswer) {
    ranks_[rank].has_answered = true;
    const auto sign = Ref<detail::TrainSign>{cell}.try_get();
    if (!sign) return;  // the result of run() will have the reason
    ranks_[rank].process = sign->process;
    ranks_[rank].waits = sign->waits;
    return;
  }
  if (of.what == Awaited::What::kNews) {
    auto news = Ref<detail::TrainNews>{cell}.try_get();
    if (!news) {  // the rank has died, or its worker ends; in that case the result of run() has the remaining events
      news_is_all_ = true;
      return;
    }
    events.insert(events.end(), news->events.begin(), news->events.end());
    news_is_all_ = news->is_all;
    if (!news_is_all_) await(workers_->next(), of.what, rank);
    for (const detail::TrainEvent& each : news->events) {
      if (const auto* const resumed = std::get_if<detail::TrainResumed>(&each)) on_death_ = resumed->on_death;
      if (const auto* const reported = std::get_if<detail::TrainReported>(&each)) reported_ = reported->step;
    }
    return;
  }
  auto end = Ref<detail::TrainEnd>{cell}.try_get();
  if (!end) return lose(rank, std::move(end).error());
  if (end->threw && begin_.replaces) {
    const auto code = static_cast<ErrorCode>(end->threw->code);
    // A replacement that fails because of another death, before it has the state, counts as lost itself: the other
    // ranks still wait for a replacement. kObjectLost means that no rank has the state, so a replacement would not
    // help.
    if (is_of_death(code) && code != ErrorCode::kObjectLost)
      return lose(rank, Error{code, end->threw->story, end->threw->remedy});
  }
  if (end->threw && !threw_at_) threw_at_ = now();
  events.insert(events.end(), end->events.begin(), end->events.end());
  ranks_[rank].process = end->process;  // the rank may have ended before it answered a greeting
  ranks_[rank].end = *std::move(end);
  ++ended_;
}

void RankGroup::lose(std::size_t rank, Error why) {
  lost_.insert(rank);
  if (!died_) died_ = std::move(why).with("rank " + std::to_string(rank));
}

Result<bool> RankGroup::replace(const std::function<bool()>& interrupted) {
  const TimePoint until = now() + timeout_;
  const auto is_there = [this](const std::vector<const void*>& who, std::size_t rank) {
    return rank < who.size() && who[rank] == ranks_[rank].who;
  };
  for (const std::size_t rank : lost_) {
    if (is_there(workers_->who(), rank)) workers_->kill(rank);  // it is not dead, but seems to be stopped or to hang
  }
  for (;;) {
    const std::vector<const void*> who = workers_->who();
    const bool all_gone = std::ranges::none_of(lost_, [&](std::size_t rank) { return is_there(who, rank); });
    auto ready = all_gone ? make_ready(interrupted, until) : Result<bool>{*died_};
    if (ready && !*ready) return false;
    if (ready && who == workers_->who()) return rejoin(who, until);
    if (who.empty() || now() >= until) return ready ? *died_ : std::move(ready).error();
    if (interrupted()) return false;
    std::this_thread::sleep_for(kPause);  // the death may be known to a rank, and not yet to the group
  }
}

/// Starts the function on new ranks, and tells the others, which wait, to go on. A rank that dies meanwhile is lost
/// like any other.
Result<bool> RankGroup::rejoin(const std::vector<const void*>& who, TimePoint until) {
  const Error why = *std::exchange(died_, std::nullopt);
  lost_.clear();
  replaced_.clear();
  begin_.replaces = true;
  // Answers to earlier greetings are outdated.
  std::erase_if(awaited_, [](const auto& each) { return each.second.what == Awaited::What::kAnswer; });
  waits_since_.reset();
  std::vector<std::pair<std::size_t, Ref<bool>>> others;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].who == who[rank]) {
      ranks_[rank] = {.who = who[rank], .process = ranks_[rank].process};
      others.emplace_back(rank, workers_->rejoin(rank));
    } else {
      ranks_[rank] = {.who = who[rank]};
      replaced_.push_back(rank);
      begin(rank);
    }
  }
  bool one_goes_on = false;
  for (const auto& [rank, answer] : others) {
    const auto goes_on = answer.try_get(Deadline::at(until));
    if (goes_on && !*goes_on) return Error{ErrorCode::kFailedPrecondition, has_ended(rank)};
    one_goes_on = one_goes_on || goes_on;
  }
  if (!one_goes_on) return why;
  return true;
}

std::vector<std::int32_t> RankGroup::processes() const {
  std::vector<std::int32_t> processes;
  for (const Rank& each : ranks_) processes.push_back(each.process);
  return processes;
}

void RankGroup::stop() {
  workers_->stop();
}

// If ranks throw because another rank has died, the death is the better reason. So an exception waits for kReasonTime,
// or until all ranks have ended, and an exception of a function itself is preferred to one that comes from a death.
std::optional<RankGroup::End> RankGroup::end() {
  if (left_) return End{How::kThrew, left_};
  if (died_) {
    if (on_death_ != OnRankDeath::kReplace) return End{How::kDied, died_};
    if (ended_ == 0) return End{How::kLost, died_};
    const auto ended = std::ranges::find_if(ranks_, [](const Rank& each) { return each.end.has_value(); });
    return End{How::kDied, no_replacement(*died_, has_ended(static_cast<std::size_t>(ended - ranks_.begin())))};
  }
  const bool all = ended_ == ranks_.size();
  if (threw_at_) {
    if (!all && now() < *threw_at_ + kReasonTime) return std::nullopt;
    std::optional<End> death;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& end = ranks_[rank].end;
      if (!end || !end->threw) continue;
      const auto code = static_cast<ErrorCode>(end->threw->code);
      Error why{code, end->threw->story, end->threw->remedy};
      if (ranks_.size() > 1) why = std::move(why).with("rank " + std::to_string(rank));
      if (!is_of_death(code)) return End{How::kThrew, std::move(why)};
      if (!death) death = End{How::kDied, std::move(why)};
    }
    return death;
  }
  if (!all || !news_is_all_) return std::nullopt;
  const bool makes_room = std::ranges::any_of(ranks_, [](const Rank& each) { return each.end->makes_room; });
  return End{makes_room ? How::kMakesRoom : How::kReturned, std::nullopt};
}

}  // namespace pharos::ml
