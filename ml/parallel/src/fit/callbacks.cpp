#include "fit/callbacks.hpp"

#include <algorithm>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/train_context.hpp>

namespace pharos::ml {

Callbacks::Callbacks(TrainContext& context, Learner& learner)
    : context_{context}, learner_{learner}, all_{learner.callbacks()} {}

void Callbacks::begin() {
  for (const auto& each : all_) each->at_begin(*this);
}

void Callbacks::before_step(std::uint64_t epoch) {
  epoch_ = epoch;
  if (begun_ != epoch) {
    begun_ = epoch;
    for (const auto& each : all_) each->at_epoch_begin(*this);
  }
  for (const auto& each : all_) each->before_step(*this);
}

void Callbacks::after_step(std::uint64_t epoch, Metrics& more, bool is_end_of_epoch) {
  if (all_.empty()) return;
  epoch_ = epoch;
  struct EndOfReport {
    ~EndOfReport() { callbacks.more_ = nullptr; }
    Callbacks& callbacks;
  } const end_of_report{*this};
  more_ = &more;
  Metrics all = context_.last();
  for (const auto& [name, value] : more.entries()) all.set(name, value);
  for (const auto& each : all_) each->after_step(*this, all);
  if (!is_end_of_epoch) return;
  for (const auto& each : all_) each->at_epoch_end(*this, all);
}

bool Callbacks::may_log() const {
  return std::ranges::any_of(all_, [](const auto& each) { return each->logs(); });
}

void Callbacks::end() {
  for (const auto& each : all_) each->at_end(*this);
}

void Callbacks::add_to(State& state) {
  if (all_.empty()) return;
  state.add("rate_factor", rate_factor_);
  state.add("epoch_begun", begun_);
  state.add("asked_to_stop", stops_);
  for (const auto& each : all_) each->add_to_state(state);
}

void Callbacks::log(std::string_view name, double value) {
  if (more_ == nullptr) {
    throw_error(Error{ErrorCode::kFailedPrecondition,
                      "a callback logs \"" + std::string{name} + "\" outside of a report",
                      "Call log() in after_step() or at_epoch_end()."});
  }
  more_->set(name, value);
}

}  // namespace pharos::ml
