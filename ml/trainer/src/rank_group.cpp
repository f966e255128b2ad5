#include "rank_group.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <pharos/actors/exceptions.hpp>

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using pharos::detail::CellHandle;

constexpr Duration kLookTime = 100ms;  // for whether it is interrupted
constexpr Duration kGreetTime = 500ms;
constexpr Duration kReasonTime = 1s;  // for a death to be known, when ranks throw because of it

TimePoint now() {
  return std::chrono::steady_clock::now();
}

ActorGroupOptions group_of(const TrainerOptions& options) {
  const Scaling& scaling = options.scaling;
  ActorGroupOptions group{
      .name = options.name,
      .size = scaling.workers,
      .member = {.cpus = scaling.cpus_per_worker, .gpus = scaling.gpus_per_worker, .memory = scaling.memory_per_worker},
      .strategy = scaling.placement};
  if (!options.gpu_type.empty()) group.member.labels["gpu_type"] = options.gpu_type;
  return group;
}

/// Of another rank, or of the way to it: not the function's own.
bool is_of_death(ErrorCode code) {
  switch (code) {
    case ErrorCode::kActorDied:
    case ErrorCode::kWorkerDied:
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded: return true;
    default: return false;
  }
}

}  // namespace

namespace detail {
TrainWorkers::~TrainWorkers() = default;
}  // namespace detail

RankGroup::RankGroup(const detail::MakeTrainWorkers& make, const TrainerOptions& options)
    : timeout_{options.timeout}, workers_{make(group_of(options))}, ranks_(options.scaling.workers) {}

RankGroup::~RankGroup() {
  if (ended_ == ranks_.size() && !died_) {
    workers_->end();
  } else {
    workers_->kill();
  }
}

Result<bool> RankGroup::make_ready(const std::function<bool()>& interrupted) {
  const CellHandle ready = workers_->ready();
  pharos::detail::ReadyQueue queue;
  queue.add(ready);
  while (queue.take({.count = 1, .deadline = Deadline::in(kLookTime)}).empty()) {
    if (interrupted()) return false;
  }
  try {
    Ref<void>{ready}.get();
    if (ranks_.size() > 1) workers_->connect({.timeout = timeout_});
  } catch (const Exception& e) {
    return e.error();
  }
  return true;
}

void RankGroup::begin(const detail::TrainBegin& begin) {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    await(workers_->run(rank, begin), {Awaited::What::kEnd, rank});
    ranks_[rank].greeted_at = now();
  }
  await(workers_->next(), {Awaited::What::kNews, 0});
}

void RankGroup::await(CellHandle cell, Awaited what) {
  awaited_.insert_or_assign(&*cell, what);
  queue_.add(std::move(cell));
}

// A process that is stopped answers nothing, whatever its function does or waits for.
void RankGroup::greet() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& each = ranks_[rank];
    if (each.end) continue;
    const Duration since = now() - each.greeted_at;
    if (each.has_answered && since > kGreetTime) {
      each.has_answered = false;
      each.greeted_at = now();
      await(workers_->greet(rank), {Awaited::What::kAnswer, rank});
    } else if (!each.has_answered && since > timeout_) {
      lose(rank, Error{ErrorCode::kDeadlineExceeded, "it has not answered in time: is it stopped?"});
    }
  }
}

std::vector<detail::TrainEvent> RankGroup::wait(TimePoint until) {
  greet();
  std::vector<detail::TrainEvent> events;
  for (const CellHandle& cell : queue_.take({.count = 1, .deadline = Deadline::at(until)})) {
    const auto found = awaited_.extract(&*cell);
    take(cell, found.mapped(), events);
  }
  return events;
}

void RankGroup::take(const CellHandle& cell, const Awaited& of, std::vector<detail::TrainEvent>& events) {
  const std::size_t rank = of.rank;
  if (of.what == Awaited::What::kAnswer) {
    ranks_[rank].has_answered = true;
    return;
  }
  if (of.what == Awaited::What::kNews) {
    auto news = Ref<detail::TrainNews>{cell}.try_get();
    if (!news) return lose(0, std::move(news).error());
    events.insert(events.end(), std::make_move_iterator(news->events.begin()),
                  std::make_move_iterator(news->events.end()));
    news_is_all_ = news->is_all;
    if (!news_is_all_) await(workers_->next(), of);
    return;
  }
  auto end = Ref<detail::TrainEnd>{cell}.try_get();
  if (!end) return lose(rank, std::move(end).error());
  if (end->threw && !threw_at_) threw_at_ = now();
  ranks_[rank].end = *std::move(end);
  ++ended_;
}

void RankGroup::lose(std::size_t rank, Error why) {
  if (!died_) died_ = std::move(why).with("rank " + std::to_string(rank));
}

void RankGroup::stop() {
  workers_->stop();
}

// Ranks that throw because another one has died say less than its death does.
std::optional<RankGroup::End> RankGroup::end() {
  if (died_) return End{How::kDied, died_};
  const bool all = ended_ == ranks_.size();
  if (threw_at_) {
    if (!all && now() < *threw_at_ + kReasonTime) return std::nullopt;
    std::optional<End> death;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& end = ranks_[rank].end;
      if (!end || !end->threw) continue;
      const auto code = static_cast<ErrorCode>(end->threw->code);
      Error why{code, end->threw->story};
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
