#pragma once

#include <vector>

#include <pharos/ml/chart.hpp>
#include <pharos/ml/trial_result.hpp>

namespace pharos::ml {

/// Gives the chart of these values, of which there is at least one, its range of y. The worst twentieth is left out: a
/// few values that are far off would press all others into one line.
void set_heights(Axes& axes, std::vector<double> values, Goal goal);

}  // namespace pharos::ml
