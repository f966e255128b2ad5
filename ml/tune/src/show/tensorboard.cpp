#include "show/tensorboard.hpp"

#include <algorithm>
#include <chrono>

// The field numbers are those of TensorBoard's summary.proto and of api.proto of its hparams plugin.

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

/// Returns a summary that the HParams page reads.
ProtoMessage hparams_summary(std::string_view tag, const ProtoMessage& plugin_data) {
  const ProtoMessage plugin = ProtoMessage{}.text(1, "hparams").text(2, plugin_data.bytes());
  const ProtoMessage shape = ProtoMessage{}.message(2, ProtoMessage{}.number(1, 1));
  const ProtoMessage nothing = ProtoMessage{}.number(1, 1).message(2, shape).real(5, 0.0F);  // a tensor is required
  const ProtoMessage value =
      ProtoMessage{}.text(1, tag).message(8, nothing).message(9, ProtoMessage{}.message(1, plugin));
  return ProtoMessage{}.message(1, value);
}

ProtoMessage value_of(const Value& value) {
  ProtoMessage message;
  if (const auto* const truth = std::get_if<bool>(&value)) {
    message.number(4, *truth ? 1 : 0);
  } else if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
    message.real(2, static_cast<double>(*whole));
  } else if (const auto* const real = std::get_if<double>(&value)) {
    message.real(2, *real);
  } else {
    message.text(3, std::get<std::string>(value));
  }
  return message;
}

/// Returns the page's number for a parameter's type: 1 for text, 2 for true or false, 3 for numbers.
std::uint64_t kind_of(const Domain& domain) {
  if (domain.kind != Domain::Kind::kChoice) return 3;
  if (std::holds_alternative<std::string>(domain.choices.front())) return 1;
  return std::holds_alternative<bool>(domain.choices.front()) ? 2 : 3;
}

ProtoMessage experiment_of(const Space& space, const std::string& metric, double began) {
  ProtoMessage experiment;
  experiment.real(3, began);
  for (const Space::Parameter& parameter : space.parameters()) {
    if (&parameter != space.find(parameter.name)) continue;  // the second one of its name
    experiment.message(4, ProtoMessage{}.text(1, parameter.name).number(4, kind_of(parameter.domain)));
  }
  experiment.message(5, ProtoMessage{}.message(1, ProtoMessage{}.text(2, metric)));
  return ProtoMessage{}.number(1, 0).message(2, experiment);
}

ProtoMessage start_of(const TrialResult& trial, double time) {
  ProtoMessage start;
  for (const auto& [name, value] : trial.params.entries()) {
    start.message(1, ProtoMessage{}.text(1, name).message(2, value_of(value)));
  }
  start.text(4, "trial " + std::to_string(trial.number)).real(5, time);
  return ProtoMessage{}.number(1, 0).message(3, start);
}

ProtoMessage end_of(const TrialResult& trial, double time) {
  const bool failed = trial.state == TrialResult::State::kFailed;
  return ProtoMessage{}.number(1, 0).message(4, ProtoMessage{}.number(1, failed ? 2 : 1).real(2, time));
}

}  // namespace

Result<TensorBoard> TensorBoard::make(const fs::path& folder, const Space& space, const std::string& metric) {
  std::error_code error;
  fs::remove_all(folder, error);
  fs::create_directories(folder, error);
  if (error)
    return Error::from_errno("making " + folder.string(), error.value(), "Give a folder that can be written to.");
  const double began = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  TensorBoard board{folder, metric, began};
  board.own_.add(began, 0, hparams_summary("_hparams_/experiment", experiment_of(space, metric, began)));
  return board;
}

TensorBoardFile& TensorBoard::file_of(const TrialResult& trial) {
  std::string number = std::to_string(trial.number);
  number.insert(0, 6 - std::min<std::size_t>(number.size(), 6), '0');
  const auto made = files_.try_emplace(trial.number, folder_ / ("trial-" + number), began_ + trial.began_s);
  return made.first->second;
}

void TensorBoard::add(const SweepEvent& event, const TrialResult& trial) {
  const auto add_metrics = [&](std::uint64_t step, double seconds, const Metrics& metrics) {
    if (!metrics.empty()) file_of(trial).add(began_ + seconds, step, metrics, metric_);
  };
  if (const auto* const reported = std::get_if<TrialReported>(&event)) {
    add_metrics(reported->step, reported->seconds, reported->metrics);
  } else if (const auto* const returned = std::get_if<TrialReturned>(&event)) {
    add_metrics(trial.step, returned->seconds, returned->metrics);
  }
  using In = TrialResult::State;
  const bool is_over = trial.state == In::kComplete || trial.state == In::kStopped || trial.state == In::kFailed;
  if (!is_over || std::holds_alternative<TrialSaved>(event)) return;
  // The parameters of the trial are complete only at its end, because it may ask for some as it runs.
  const double began = began_ + trial.began_s;
  const double ended = began_ + trial.ended_s;
  TensorBoardFile& file = file_of(trial);
  file.add(began, 0, hparams_summary("_hparams_/session_start_info", start_of(trial, began)));
  file.add(ended, 0, hparams_summary("_hparams_/session_end_info", end_of(trial, ended)));
}

Result<void> TensorBoard::write() {
  PHAROS_TRY_VOID(own_.write());
  for (auto& [trial, file] : files_) PHAROS_TRY_VOID(file.write());
  return {};
}

}  // namespace pharos::ml
