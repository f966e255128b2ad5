// The kernels of ml/cuda, compiled for simulated devices.

#include "gpu_kernels.hpp"

#include <cuda_language.h>

#include <cstddef>

#include "column_sums.hpp"
#include "layer_norm.hpp"
#include "memory.hpp"
#include "row_losses.hpp"
#include "sum_parts.hpp"

namespace pharos::ml {

using Piece = simulated::OrderChecker::Piece;

/// Notes some of the bytes that a kernel reads or writes: as many as the smallest numbers take.
static void note(const Piece& piece, const void* numbers, std::int64_t count, bool writes, const char* kernel) {
  constexpr std::int64_t kLeastBytes = 2;
  if (numbers == nullptr) return;
  simulated::memory().note(piece, numbers, static_cast<std::size_t>(count * kLeastBytes), writes, kernel);
}

/// Changes addresses to those that kernels use. Returns what as_kernels_see() returns.
template <class... T>
static int see(T*&... addresses) {
  const auto see_one = []<class One>(One*& address) {
    if (address != nullptr) address = static_cast<One*>(simulated::Memory::for_kernels(address));
  };
  (see_one(addresses), ...);
  return 0;
}

static void note_uses(const Piece& piece, const ScoredRows& rows) {
  note(piece, rows.scores, rows.rows * rows.columns, rows.gradients, "row_losses");
  note(piece, rows.targets, rows.rows, false, "row_losses");
  note(piece, rows.losses, rows.rows, true, "row_losses");
}
static int as_kernels_see(ScoredRows& rows) {
  return see(rows.scores, rows.targets, rows.losses);
}

static void note_uses(const Piece& piece, const NormalizedRows& what) {
  const std::int64_t all = what.rows * what.columns;
  for (const void* const each : {what.x, what.branch}) note(piece, each, all, false, "normalize");
  for (const void* const each : {what.weight, what.bias}) note(piece, each, what.columns, false, "normalize");
  for (const void* const each : {what.sum, what.normalized}) note(piece, each, all, true, "normalize");
  for (const float* const each : {what.means, what.scales}) note(piece, each, what.rows, true, "normalize");
}
static int as_kernels_see(NormalizedRows& what) {
  return see(what.x, what.branch, what.weight, what.bias, what.sum, what.normalized, what.means, what.scales);
}

static void note_uses(const Piece& piece, const NormGradients& what) {
  const std::int64_t all = what.rows * what.columns;
  for (const void* const each : {what.of_normalized, what.of_sum, what.sum})
    note(piece, each, all, false, "norm_gradients");
  note(piece, what.weight, what.columns, false, "norm_gradients");
  for (const float* const each : {what.means, what.scales}) note(piece, each, what.rows, false, "norm_gradients");
  note(piece, what.of_x, all, true, "norm_gradients");
  note(piece, what.parts, 2 * what.part_count * what.columns, true, "norm_gradients");
}
static int as_kernels_see(NormGradients& what) {
  return see(what.of_normalized, what.of_sum, what.sum, what.weight, what.means, what.scales, what.of_x, what.of_weight,
             what.of_bias, what.parts);
}

static void note_uses(const Piece& piece, const ColumnSums& what) {
  const std::int64_t all = what.rows * what.columns;
  for (const void* const each : {what.rows_of, what.before_gelu}) note(piece, each, all, false, "sum_columns");
  note(piece, what.of_before, all, true, "sum_columns");
  note(piece, what.parts, what.part_count * what.columns, true, "sum_columns");
}
static int as_kernels_see(ColumnSums& what) {
  return see(what.rows_of, what.before_gelu, what.of_before, what.sums, what.parts);
}

static void note_uses(const Piece& piece, const SummedParts& what) {
  note(piece, what.parts, what.count * what.columns, false, "sum_parts");
  for (const void* const each : what.to) note(piece, each, what.columns, true, "sum_parts");
}
static int as_kernels_see(SummedParts& what) {
  return see(what.parts, what.to[0], what.to[1]);
}

[[maybe_unused]] static const bool registers_kernels =
    (detail::register_kernels(simulated::kDeviceType, kGpuKernels), true);

}  // namespace pharos::ml

#include "column_sums.cu"
#include "layer_norm.cu"
#include "row_losses.cu"
