#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/ml/simulated_step.hpp>

#include "run/slots.hpp"

namespace pharos::ml {

/// Slots with simulated workers: a queue of messages, sorted by simulated time. wait() does not wait: it advances the
/// time to the next message, or to `until`. Owned by simulate(); one thread, on which start() and answer() also call
/// the objective. What the objective throws leaves them.
class SimulatedSlots final : public TrialSlots {
 public:
  SimulatedSlots(std::size_t workers, SimulatedObjective objective)
      : objective_{std::move(objective)}, slots_(workers) {}

  TimePoint now() const override { return now_; }
  Duration look_time() const override { return std::chrono::hours{24 * 365}; }

  void want(std::size_t slots) override {
    for (; ready_ < std::min(slots, slots_.size()); ++ready_) say(ready_, Ready{}, {});
  }
  void start(std::size_t slot, detail::TrialStart start) override {
    Slot& its = slots_[slot];
    its = {.start = std::move(start)};
    its.step = its.start.begin.step;
    if (its.start.checkpoint) {
      if (auto state = from_bytes<std::vector<double>>(its.start.checkpoint->span())) its.state = *std::move(state);
    }
    run_step(slot);
  }
  bool takes_another(std::size_t) const override { return false; }
  void answer(std::size_t slot, detail::TrialOrder order) override {
    Slot& its = slots_[slot];
    const Verdict verdict = std::get<detail::TrialVerdict>(order).verdict;
    if (verdict == Verdict::kGoOn) return run_step(slot);
    std::vector<detail::TrialEvent> events;
    if (verdict == Verdict::kPause) events.push_back(saved(its));
    events.emplace_back(detail::TrialEnds{});
    say(slot, std::move(events), {});
  }
  void stop(std::size_t) override {}  // not needed: each report waits for a verdict
  void replace(std::size_t slot) override {
    std::erase_if(queue_, [slot](const auto& entry) { return entry.second.slot == slot; });
    say(slot, Ready{}, {});
  }
  std::vector<Message> wait(TimePoint until) override {
    std::vector<Message> messages;
    if (!queue_.empty() && queue_.begin()->first.first <= until) {
      now_ = queue_.begin()->first.first;
      messages.push_back(std::move(queue_.extract(queue_.begin()).mapped()));
    } else {
      now_ = until;
    }
    return messages;
  }

  void keep(std::uint64_t trial, const Bytes& checkpoint) override { kept_.insert_or_assign(trial, checkpoint); }
  std::optional<Bytes> kept(std::uint64_t trial) override {
    const auto found = kept_.find(trial);
    return found == kept_.end() ? std::nullopt : std::optional{found->second};
  }
  void forget(std::uint64_t trial) override { kept_.erase(trial); }

 private:
  struct Slot {
    detail::TrialStart start{};
    std::uint64_t step = 0;
    std::vector<double> state{};
  };

  static detail::TrialEvent saved(const Slot& slot) {
    return detail::TrialSaves{slot.step, Bytes{to_bytes(slot.state).value()}};
  }

  void say(std::size_t slot, Heard heard, Duration later) {
    queue_.emplace(std::pair{now_ + later, ++said_}, Message{slot, std::move(heard)});
  }

  void run_step(std::size_t slot) {
    Slot& its = slots_[slot];
    const SimulatedStep step = objective_(its.start.begin.params, its.step + 1, its.state);
    if (step.dies) return say(slot, Error{ErrorCode::kActorDied, "its worker died"}, step.time);
    ++its.step;
    std::vector<detail::TrialEvent> events;
    if (step.last) {
      events.emplace_back(detail::TrialEnds{step.metrics, {}});
    } else {
      if (its.start.save_every != 0 && its.step % its.start.save_every == 0) events.push_back(saved(its));
      events.emplace_back(detail::TrialReports{its.step, step.metrics, true});
    }
    say(slot, std::move(events), step.time);
  }

  const SimulatedObjective objective_;
  TimePoint now_{};
  std::vector<Slot> slots_;
  std::size_t ready_ = 0;
  std::uint64_t said_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, Message> queue_;
  std::map<std::uint64_t, Bytes> kept_;
};

}  // namespace pharos::ml
