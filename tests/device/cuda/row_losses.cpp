// The kernel of ml::linear_cross_entropy, compiled for simulated devices.

#include "row_losses.hpp"

#include <cuda_language.h>

#include <pharos/ml/models/row_losses.hpp>

#include "memory.hpp"
#include "score_losses.hpp"

namespace pharos::ml {

static void note_uses(const simulated::OrderChecker::Piece& piece, const ScoredRows& rows) {
  constexpr std::size_t kLeastBytes = 2;  // of a score
  const auto count = static_cast<std::size_t>(rows.rows);
  simulated::memory().note(piece, rows.scores, count * static_cast<std::size_t>(rows.columns) * kLeastBytes,
                           rows.gradients, "row_losses");
  simulated::memory().note(piece, rows.targets, count * sizeof *rows.targets, false, "row_losses");
  simulated::memory().note(piece, rows.losses, count * sizeof *rows.losses, true, "row_losses");
}

static int as_kernels_see(ScoredRows& rows) {
  rows.scores = simulated::Memory::for_kernels(rows.scores);
  rows.targets = static_cast<const std::int64_t*>(simulated::Memory::for_kernels(rows.targets));
  rows.losses = static_cast<float*>(simulated::Memory::for_kernels(rows.losses));
  return 0;
}

[[maybe_unused]] static const bool registers_simulated_losses =
    (detail::register_row_losses(simulated::kDeviceType, &score_losses), true);

}  // namespace pharos::ml

#include "row_losses.cu"
