#include "run/actor_slots.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pharos::ml {
namespace {

using detail::TrialEnds;
using detail::TrialEvent;
using detail::TrialOrder;
using pharos::detail::CellHandle;

constexpr Duration kShareTime = std::chrono::milliseconds{100};  // time between two distributions of free cores
constexpr Duration kReasonTime = std::chrono::seconds{1};        // time for the death of a worker to become known
constexpr std::size_t kSpareMax = 16;                            // slots that are requested beyond those that are ready

/// Returns whether the trial goes on only when it gets an answer to this event.
bool waits_for_answer(const TrialEvent& event) {
  const auto* const reports = std::get_if<detail::TrialReports>(&event);
  return std::holds_alternative<detail::TrialAsks>(event) || (reports != nullptr && reports->waits);
}

}  // namespace

namespace detail {
TrialWorkers::~TrialWorkers() = default;
}  // namespace detail

ActorSlots::ActorSlots(Runtime& runtime, detail::MakeTrialWorkers make, ActorGroupOptions group, Limits limits)
    : runtime_{runtime}, make_{std::move(make)}, group_{std::move(group)}, limits_{limits} {}

ActorSlots::~ActorSlots() {
  for (const Slot& slot : slots_) {
    // Nothing waits for an objective that still runs, so its actors are killed.
    if (slot.to_end != 0 || !slot.ready) {
      slot.workers->kill();
    } else {
      slot.workers->end();
    }
  }
}

// Without a limit, as many slots again are requested as are ready: at least 1, and at most kSpareMax.
void ActorSlots::want(std::size_t slots) {
  const std::size_t spare = std::clamp<std::size_t>(ready_, 1, kSpareMax);
  const std::size_t most = std::min(slots, limits_.at_once == 0 ? ready_ + spare : limits_.at_once);
  while (slots_.size() < most) make(slots_.size());
}

void ActorSlots::make(std::size_t slot) {
  Slot made{.workers = make_(group_)};  // may throw, so the slot comes after its workers
  if (slot == slots_.size()) slots_.emplace_back();
  slots_[slot] = std::move(made);
  await(slots_[slot].workers->ready(), {slot, Awaited::What::kReady});
}

void ActorSlots::await(CellHandle cell, Awaited what) {
  awaited_.insert_or_assign(&*cell, what);
  queue_.add(std::move(cell));
}

void ActorSlots::next(std::size_t slot, std::size_t worker, const TrialOrder& order) {
  await(slots_[slot].workers->next(worker, order), {slot, Awaited::What::kEvents, worker});
}

void ActorSlots::start(std::size_t slot, detail::TrialStart start) {
  slots_[slot].to_end += group_.size;
  if (group_.size > 1) start.until = 0;  // the workers of a group report together, and wait for each verdict
  const TrialOrder order = std::move(start);
  for (std::size_t worker = 0; worker < group_.size; ++worker) next(slot, worker, order);
}

// The first worker broadcasts the answer to the others.
void ActorSlots::answer(std::size_t slot, TrialOrder order) {
  next(slot, 0, order);
}

void ActorSlots::stop(std::size_t slot) {
  slots_[slot].workers->stop();
}

void ActorSlots::replace(std::size_t slot) {
  slots_[slot].workers->kill();
  if (std::exchange(slots_[slot].ready, false)) --ready_;
  std::erase_if(awaited_, [slot](const auto& entry) { return entry.second.slot == slot; });
  make(slot);
}

// Gives the cores of idle slots to the trials that run on the same node.
void ActorSlots::share_cores() {
  if (!limits_.shares_cores || now() < shares_at_) return;
  shares_at_ = now() + kShareTime;
  struct Node {
    double free = 0;
    std::vector<std::size_t> busy;
  };
  std::map<std::uint64_t, Node> nodes;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const Slot& its = slots_[slot];
    if (!its.ready || its.lost || its.node == 0) continue;
    if (its.to_end != 0) {
      nodes[its.node].busy.push_back(slot);
    } else {
      nodes[its.node].free += group_.member.cpus;
    }
  }
  for (auto& [number, node] : nodes) {
    std::size_t left = node.busy.size();
    for (const std::size_t slot : node.busy) {
      const double share = std::floor(node.free / static_cast<double>(left--));
      node.free -= share;
      const auto cores = static_cast<std::uint32_t>(std::max(group_.member.cpus + share, 1.0));
      const auto own = static_cast<std::uint32_t>(std::max(group_.member.cpus, 1.0));
      Slot& its = slots_[slot];
      if (cores == (its.cores == 0 ? own : its.cores)) continue;
      its.cores = cores;
      its.workers->set_cores(cores);
    }
  }
}

std::vector<TrialSlots::Message> ActorSlots::wait(TimePoint until) {
  share_cores();
  std::vector<Message> messages;
  for (const CellHandle& cell : queue_.take({.count = 1, .deadline = Deadline::at(until)})) {
    const auto found = awaited_.extract(&*cell);
    if (found.empty()) continue;  // the slot was replaced after the call
    if (auto something = heard(cell, found.mapped())) messages.push_back({found.mapped().slot, *std::move(something)});
  }
  if (any_threw_) take_throws(messages);
  return messages;
}

// When a worker of a group dies, the objectives of the other workers may throw before its death is known. So an
// exception counts only if no death has become known for kReasonTime, or if all workers have returned.
void ActorSlots::take_throws(std::vector<Message>& messages) {
  any_threw_ = false;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    Slot& its = slots_[slot];
    if (!its.threw || its.lost) continue;
    if (its.to_end != 0 && now() < its.threw_at + kReasonTime) {
      any_threw_ = true;
    } else {
      messages.push_back({slot, lose(its, *std::exchange(its.threw, {}))});
    }
  }
}

std::optional<TrialSlots::Heard> ActorSlots::heard(const CellHandle& cell, const Awaited& from) {
  Slot& slot = slots_[from.slot];
  if (slot.lost) return std::nullopt;
  if (from.what == Awaited::What::kNode) {
    if (auto node = Ref<std::uint64_t>{cell}.try_get()) slot.node = *node;
    return std::nullopt;
  }
  if (from.what == Awaited::What::kReady) {
    auto ready = Ref<void>{cell}.try_get();
    if (!ready) return lose(slot, std::move(ready).error());
    if (group_.size > 1) {
      try {
        slot.workers->connect();
      } catch (const Exception& error) {
        return lose(slot, error.error());
      }
    }
    slot.ready = true;
    ++ready_;
    if (limits_.shares_cores) await(slot.workers->node(), {from.slot, Awaited::What::kNode});
    return Ready{};
  }
  auto events = Ref<std::vector<TrialEvent>>{cell}.try_get();
  if (!events) return lose(slot, std::move(events).error());
  return take(slot, from, *std::move(events));
}

TrialSlots::Heard ActorSlots::lose(Slot& slot, Error why) {
  slot.lost = true;
  return why;
}

// Only the events of the first worker count.
std::optional<TrialSlots::Heard> ActorSlots::take(Slot& slot, const Awaited& from, std::vector<TrialEvent> events) {
  if (!events.empty() && std::holds_alternative<TrialEnds>(events.back())) {
    const TrialEnds end = std::get<TrialEnds>(std::move(events.back()));
    events.pop_back();
    return take_end(slot, from.worker, end, std::move(events));
  }
  if (events.empty() || !waits_for_answer(events.back())) next(from.slot, from.worker, detail::TrialWait{});
  if (from.worker != 0 || events.empty()) return std::nullopt;
  return events;
}

// A trial ends only when all workers have returned.
std::optional<TrialSlots::Heard> ActorSlots::take_end(Slot& slot, std::size_t worker, const TrialEnds& end,
                                                      std::vector<TrialEvent> before) {
  --slot.to_end;
  if (group_.size > 1 && end.threw) {
    if (!slot.threw) {
      slot.threw = Error{ErrorCode::kUserError, "worker " + std::to_string(worker) + ": " + *end.threw};
      slot.threw_at = now();
      any_threw_ = true;
    }
    return std::nullopt;
  }
  if (slot.threw) return std::nullopt;
  if (worker == 0) {
    slot.end = end;
  } else {
    before.clear();
  }
  if (slot.to_end % group_.size == 0) before.emplace_back(*std::exchange(slot.end, {}));
  if (before.empty()) return std::nullopt;
  return before;
}

// ---- What trials have saved

void ActorSlots::keep(std::uint64_t trial, const Bytes& checkpoint) {
  kept_.insert_or_assign(trial, runtime_.put(checkpoint));
}

std::optional<Bytes> ActorSlots::kept(std::uint64_t trial) {
  const auto found = kept_.find(trial);
  if (found == kept_.end()) return std::nullopt;
  auto bytes = found->second.try_get();
  if (!bytes) return std::nullopt;  // lost with its node: the trial starts from the beginning
  return *std::move(bytes);
}

}  // namespace pharos::ml
