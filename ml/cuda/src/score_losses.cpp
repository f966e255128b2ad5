#include "score_losses.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include "row_losses.hpp"
#include "tensors.hpp"

namespace pharos::ml {

at::Tensor score_losses(at::Tensor& scores, const at::Tensor& targets, std::int64_t ignored, bool gradients) {
  const auto type = number_type(scores.scalar_type());
  TORCH_CHECK(type, "no kernel computes losses of scores of type ", scores.scalar_type());
  TORCH_CHECK(scores.dim() == 2 && scores.is_contiguous() && targets.is_contiguous() &&
                  targets.scalar_type() == at::kLong && targets.numel() == scores.size(0),
              "the losses of rows need rows side by side, and a 64-bit target for each");
  const c10::DeviceGuard guard{scores.device()};
  at::Tensor losses = at::empty({scores.size(0)}, scores.options().dtype(at::kFloat));
  const ScoredRows rows{.scores = scores.mutable_data_ptr(),
                        .targets = targets.const_data_ptr<std::int64_t>(),
                        .losses = losses.mutable_data_ptr<float>(),
                        .rows = scores.size(0),
                        .columns = scores.size(1),
                        .ignored = ignored,
                        .gradients = gradients};
  check(compute_row_losses(*type, rows, stream_of(scores)));
  return losses;
}

}  // namespace pharos::ml
