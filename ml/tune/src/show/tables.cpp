#include "show/tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace pharos::ml {

std::string shown(const Value& value) {
  const auto* const number = std::get_if<double>(&value);
  return number != nullptr ? short_number(*number) : to_string(value);
}

bool has_value(const TrialResult& trial) {
  return trial.value && !std::isnan(*trial.value);
}

bool is_better(const TrialResult& a, const TrialResult& b, Goal goal) {
  const bool a_complete = a.state == TrialResult::State::kComplete;
  const bool b_complete = b.state == TrialResult::State::kComplete;
  if (a_complete != b_complete) return a_complete;
  if (*a.value != *b.value) return goal == Goal::kMinimise ? *a.value < *b.value : *a.value > *b.value;
  return a.number < b.number;
}

const TrialResult* best_of(const std::vector<TrialResult>& trials, Goal goal) {
  const TrialResult* best = nullptr;
  for (const TrialResult& trial : trials) {
    if (has_value(trial) && (best == nullptr || is_better(trial, *best, goal))) best = &trial;
  }
  return best;
}

std::vector<const TrialResult*> ranked(const std::vector<TrialResult>& trials, Goal goal, std::size_t most) {
  std::vector<const TrialResult*> all;
  for (const TrialResult& trial : trials) {
    if (has_value(trial)) all.push_back(&trial);
  }
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::partial_sort(all.begin(), end, all.end(), [&](const auto* a, const auto* b) { return is_better(*a, *b, goal); });
  all.erase(end, all.end());
  return all;
}

std::string table_of(const std::vector<TrialResult>& trials, const std::string& metric, Goal goal, std::size_t rows,
                     bool narrow) {
  std::vector<std::vector<std::string>> lines{{"trial", metric, "step", "seconds", "state", "parameters"}};
  for (const TrialResult* const trial : ranked(trials, goal, rows)) {
    std::string params;
    for (const auto& [name, value] : trial->params.entries()) {
      params += (params.empty() ? "" : "  ") + name + '=' + shown(value);
    }
    lines.push_back({std::to_string(trial->number), short_number(*trial->value),
                     trial->step == 0 ? "" : std::to_string(trial->step),
                     trial->ended_s > 0 ? short_number(trial->ended_s - trial->began_s) : "",
                     std::string{to_string(trial->state)}, params});
  }
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  const std::size_t width = narrow ? width_of_terminal() : 0;
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool is_number = i < 4;
      const std::string pad(widths[i] - line[i].size(), ' ');
      row += (i == 0 ? "" : "  ") + (is_number ? pad + line[i] : line[i] + pad);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    if (width != 0 && row.size() > width) row.resize(width);
    text += row + '\n';
  }
  return text;
}

}  // namespace pharos::ml
