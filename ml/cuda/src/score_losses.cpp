#include "score_losses.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <pharos/ml/models/row_losses.hpp>

#include "row_losses.hpp"

namespace pharos::ml {
namespace {

ScoreType type_of(const at::Tensor& scores) {
  switch (scores.scalar_type()) {
    case at::kFloat: return ScoreType::kFloat;
    case at::kHalf: return ScoreType::kHalf;
    case at::kBFloat16: return ScoreType::kBFloat16;
    default: TORCH_CHECK(false, "no kernel computes losses of scores of type ", scores.scalar_type());
  }
}

[[maybe_unused]] const bool registers_losses = (detail::register_row_losses(at::kCUDA, &score_losses), true);

}  // namespace

at::Tensor score_losses(at::Tensor& scores, const at::Tensor& targets, std::int64_t ignored, bool gradients) {
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
  const c10::impl::VirtualGuardImpl streams{scores.device().type()};
  void* const stream = streams.getStreamNativeHandle(streams.getStream(scores.device()));
  const cudaError_t done = compute_row_losses(type_of(scores), rows, static_cast<cudaStream_t>(stream));
  TORCH_CHECK(done == cudaSuccess, "the GPU takes no kernel: ", ::cudaGetErrorString(done));
  return losses;
}

}  // namespace pharos::ml
