#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <pharos/ml/display.hpp>
#include <pharos/ml/trial_result.hpp>

namespace pharos::ml {

// The sweep and its results call these functions, on any thread. The functions keep nothing. Pointers that they return
// point into `trials`.

/// Returns a value as text; a real number with four significant digits.
std::string shown(const Value& value);
/// Returns whether the trial has a value that is not NaN.
bool has_value(const TrialResult& trial);
/// Compares two trials that have values. A complete trial is better than any other.
bool is_better(const TrialResult& a, const TrialResult& b, Goal goal);
/// Returns the best of the complete trials; if no trial is complete, the best of all. Returns nullptr if no trial has a
/// value.
const TrialResult* best_of(const std::vector<TrialResult>& trials, Goal goal);
/// Returns at most `most` of the trials that have a value, the best first.
std::vector<const TrialResult*> ranked(const std::vector<TrialResult>& trials, Goal goal, std::size_t most);

/// Returns a table of the best trials: a line of names, and at most `rows` lines. `narrow`: each line is cut to the
/// width of the terminal.
std::string table_of(const std::vector<TrialResult>& trials, const std::string& metric, Goal goal, std::size_t rows,
                     bool narrow);

}  // namespace pharos::ml
