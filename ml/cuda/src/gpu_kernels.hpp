#pragma once

#include <pharos/ml/models/kernels.hpp>

#include "column_rows.hpp"
#include "norm_rows.hpp"
#include "score_losses.hpp"

namespace pharos::ml {

/// All that this library computes for ml/models.
inline constexpr detail::Kernels kGpuKernels{.score_losses = &score_losses,
                                             .normalizes = &normalizes,
                                             .normalize = &normalize,
                                             .norm_gradient = &norm_gradient,
                                             .sums_columns = &sums_columns,
                                             .sum_columns = &sum_columns,
                                             .gelu_gradient = &gelu_gradient};

}  // namespace pharos::ml
