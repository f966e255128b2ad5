#include <algorithm>
#include <cmath>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/display.hpp>
#include <pharos/ml/report_log.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "run/checkpoint_files.hpp"
#include "run/journal.hpp"
#include "run/json.hpp"
#include "run/sweep_rules.hpp"
#include "show/tables.hpp"

namespace pharos::ml {
namespace {

/// Returns all names, in the order of their first occurrence.
template <class Get>
std::vector<std::string> names_of(const std::vector<TrialResult>& trials, const Get& get) {
  std::vector<std::string> names;
  for (const TrialResult& trial : trials) {
    for (const auto& [name, value] : get(trial)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}
const auto& params_of(const TrialResult& trial) {
  return trial.params.entries();
}
const auto& metrics_of(const TrialResult& trial) {
  return trial.metrics.entries();
}

}  // namespace

std::string_view to_string(TrialResult::State state) {
  using State = TrialResult::State;
  switch (state) {
    case State::kWaiting: return "waiting";
    case State::kRunning: return "running";
    case State::kPaused: return "paused";
    case State::kComplete: return "complete";
    case State::kStopped: return "stopped";
    case State::kFailed: return "failed";
  }
  return "unknown";
}

SweepResults SweepResults::load(const std::filesystem::path& folder) {
  Contents contents{.folder = folder};
  std::vector<SweepEvent> events;
  const auto take = [&](const SweepEvent& event) -> Result<void> {
    events.push_back(event);
    return {};
  };
  auto journal = Journal::read(folder / "journal", take);
  if (!journal) throw_error(std::move(journal).error());
  contents.metric = journal->head.metric;
  contents.goal = journal->head.goal;
  contents.planned = journal->head.trials == SweepRules::kEndless ? 0 : journal->head.trials;
  contents.command = journal->head.command;
  contents.working_folder = journal->head.working_folder;
  for (const SweepEvent& event : events) {
    if (auto noted = note(event, contents.metric, contents.trials); !noted) throw_error(std::move(noted).error());
    contents.seconds = std::max(contents.seconds, seconds_of(event));
  }
  return SweepResults{std::move(contents)};
}

std::size_t SweepResults::count(TrialResult::State state) const {
  return static_cast<std::size_t>(
      std::count_if(trials().begin(), trials().end(), [&](const TrialResult& trial) { return trial.state == state; }));
}

const TrialResult& SweepResults::best() const {
  if (const TrialResult* const best = best_of(trials(), goal())) return *best;
  const auto failed = std::find_if(trials().rbegin(), trials().rend(), [](const auto& t) { return !t.error.empty(); });
  throw_error(Error{ErrorCode::kNotFound,
                    "none of the sweep's " + std::to_string(trials().size()) + " trials has a result" +
                        (failed == trials().rend() ? ""
                                                   : "; the last error is of trial " + std::to_string(failed->number) +
                                                         ": " + failed->error)});
}

Bytes SweepResults::checkpoint_bytes(std::uint64_t trial) const {
  if (const auto found = contents_.checkpoints.find(trial); found != contents_.checkpoints.end()) return found->second;
  if (folder().empty()) {
    throw_error(Error{ErrorCode::kNotFound,
                      "there is no checkpoint of trial " + std::to_string(trial) + ", and the sweep has no folder",
                      "Checkpoints are kept only for the best trials; TunerOptions::checkpoints says for how many."});
  }
  auto bytes = CheckpointFiles::read_last(folder() / "checkpoints", trial);
  if (!bytes) throw_error(std::move(bytes).error());
  return *std::move(bytes);
}

std::string SweepResults::summary() const {
  std::string text = std::to_string(trials().size());
  if (planned() != 0) text += " of " + std::to_string(planned());
  text += " trials in " + to_text(seconds());
  using State = TrialResult::State;
  for (const State state :
       {State::kComplete, State::kRunning, State::kWaiting, State::kPaused, State::kStopped, State::kFailed}) {
    if (const std::size_t its = count(state); its != 0) {
      text += ", " + std::to_string(its) + ' ' + std::string{to_string(state)};
    }
  }
  if (const TrialResult* const best = best_of(trials(), goal())) {
    text += "; best " + metric() + ' ' + short_number(*best->value) + " (trial " + std::to_string(best->number) + ')';
  }
  return text;
}

std::string SweepResults::table(std::size_t rows) const {
  return table_of(trials(), metric(), goal(), rows, false);
}

std::string SweepResults::to_csv() const {
  const auto params = names_of(trials(), params_of);
  const auto metrics = names_of(trials(), metrics_of);
  std::string text = "trial,state,value,step,seconds,attempts";
  for (const std::string& name : params) text += ',' + csv_field("params." + name);
  for (const std::string& name : metrics) text += ',' + csv_field("metrics." + name);
  text += ",error\n";
  for (const TrialResult& trial : trials()) {
    append_number(text, trial.number);
    text += ',';
    text += to_string(trial.state);
    text += ',';
    if (trial.value) append_number(text, *trial.value);
    text += ',';
    append_number(text, trial.step);
    text += ',';
    append_number(text, std::max(trial.ended_s - trial.began_s, 0.0));
    text += ',';
    append_number(text, std::uint64_t{trial.attempts});
    for (const std::string& name : params) {
      const Value* const value = trial.params.find(name);
      text += ',' + (value == nullptr ? "" : csv_field(to_string(*value)));
    }
    for (const std::string& name : metrics) {
      text += ',';
      if (const double* const value = trial.metrics.find(name)) append_number(text, *value);
    }
    text += ',' + csv_field(trial.error) + '\n';
  }
  return text;
}

std::string SweepResults::to_json_lines() const {
  std::string text;
  for (const TrialResult& trial : trials()) {
    Json line;
    line["trial"] = trial.number;
    line["state"] = to_string(trial.state);
    line["value"] = trial.value ? Json(*trial.value) : Json(nullptr);
    line["step"] = trial.step;
    line["seconds"] = std::max(trial.ended_s - trial.began_s, 0.0);
    line["attempts"] = trial.attempts;
    line["params"] = Json::object();
    for (const auto& [name, value] : trial.params.entries()) line["params"][name] = json_of(value);
    line["metrics"] = Json::object();
    for (const auto& [name, value] : trial.metrics.entries()) line["metrics"][name] = value;
    if (!trial.error.empty()) line["error"] = trial.error;
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  }
  return text;
}

}  // namespace pharos::ml
