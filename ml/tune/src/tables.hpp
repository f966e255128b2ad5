#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <pharos/ml/display.hpp>
#include <pharos/ml/sweep_results.hpp>

namespace pharos::ml {

bool has_value(const TrialResult& trial);
/// Both have values: complete ones before others.
bool is_better(const TrialResult& a, const TrialResult& b, Goal goal);
/// Of those that are complete; of the others, where none is. Null: none has a value.
const TrialResult* best_of(const std::vector<TrialResult>& trials, Goal goal);
/// Those with a value, the best first; complete ones before others.
std::vector<const TrialResult*> ranked(const std::vector<TrialResult>& trials, Goal goal, std::size_t most);

/// The best, at most `rows`, a line each, below a line of names. `narrow`: no longer than a terminal's line.
std::string table_of(const std::vector<TrialResult>& trials, const std::string& metric, Goal goal, std::size_t rows,
                     bool narrow);

}  // namespace pharos::ml
