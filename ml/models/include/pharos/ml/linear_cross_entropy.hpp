#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// How linear_cross_entropy() works. A value.
struct LinearCrossEntropyOptions {
  /// Rows with this target do not count.
  std::int64_t ignored = -100;
  /// So many rows have scores at once. 0: as many as take 32 MiB on the CPU, or a part of 1/32 of a device's memory,
  /// but at least 512 MiB.
  std::int64_t rows_at_once = 0;
};

/// The mean cross entropy of a linear output layer, as language models have it:
///
///   Tensor loss = linear_cross_entropy(hidden, words->weight, next);
///
/// gives what torch::cross_entropy_loss(torch::linear(hidden, weight).flatten(0, 1), next.flatten()) gives, and the
/// same gradients. But the scores of all words for all rows, the largest tensor of such a model, are never there as a
/// whole: forward takes some rows at a time, and computes their gradients at once. So backward has nothing left to do
/// but to scale two tensors of the sizes of `x` and `weight`.
///
/// `x` has `weight.size(1)` columns, and any dimensions before. `weight` has a row for each class. `targets` has a
/// class for each row of `x`, below `weight.size(0)`. Half-precision scores become floats before they are
/// exponentiated, and weight gradients are summed in floats. Autocast counts as for torch::linear(). The host waits for
/// no device, and on GPUs a kernel of Pharos computes losses and gradients of the scores in one pass. The result is NaN
/// if no row counts, and on a GPU also if a target is no class. Throws libtorch's exceptions, also in a backward with
/// create_graph. Any thread.
PHAROS_API at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                           const LinearCrossEntropyOptions& options = {});

}  // namespace pharos::ml
