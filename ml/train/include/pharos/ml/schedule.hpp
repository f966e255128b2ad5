#pragma once

#include <cstdint>
#include <functional>

#include <pharos/base/export.hpp>

/// How a learning rate goes: a factor of it for each step, from 0.
///
///   const auto schedule = warm_up(100, cosine(10'000));
///   optimizer.set_lr(1e-3 * schedule(step));
namespace pharos::ml {

using Schedule = std::function<double(std::uint64_t step)>;

/// 1, always.
PHAROS_API Schedule constant();
/// From 1 to `end` in a straight line; stays there.
PHAROS_API Schedule linear(std::uint64_t steps, double end = 0);
/// From 1 to `end` along half a cosine; stays there.
PHAROS_API Schedule cosine(std::uint64_t steps, double end = 0);
/// From 1 to `end` as a power of what is left; stays there.
PHAROS_API Schedule polynomial(std::uint64_t steps, double power, double end = 0);
/// Rises from nearly 0 to 1 in a straight line; then as `then`, which begins with its own step 0.
PHAROS_API Schedule warm_up(std::uint64_t steps, Schedule then);
/// From `begin` up to 1 in that share of the steps, and down to `end`, both along half a cosine.
PHAROS_API Schedule one_cycle(std::uint64_t steps, double share_up = 0.3, double begin = 0.04, double end = 4e-6);

}  // namespace pharos::ml
