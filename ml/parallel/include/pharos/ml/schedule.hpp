#pragma once

#include <cstdint>
#include <functional>

#include <pharos/base/export.hpp>

/// A schedule returns, for each step from 0 on, the factor by which the learning rate is multiplied. Schedules are
/// values without state: any thread may call them, and they never fail. The functions that make them do not either,
/// except for one_cycle().
///
///   const auto schedule = warm_up(100, cosine(10'000));
///   optimizer.set_lr(1e-3 * schedule(step));
namespace pharos::ml {

using Schedule = std::function<double(std::uint64_t step)>;

/// Always 1.
PHAROS_API Schedule constant();
/// Falls from 1 to `end` in a straight line, and stays there.
PHAROS_API Schedule linear(std::uint64_t steps, double end = 0);
/// Falls from 1 to `end` along half a cosine, and stays there.
PHAROS_API Schedule cosine(std::uint64_t steps, double end = 0);
/// Falls from 1 to `end` as a power of the share of steps that are left, and stays there.
PHAROS_API Schedule polynomial(std::uint64_t steps, double power, double end = 0);
/// Rises from nearly 0 to 1 in a straight line, and then follows `then`, which begins with its own step 0.
PHAROS_API Schedule warm_up(std::uint64_t steps, Schedule then);
/// Rises from `begin` to 1 in `share_up` of the steps, and falls to `end` in the others; both along half a cosine.
/// Throws InvalidArgument unless `share_up` is from 0 to 1.
PHAROS_API Schedule one_cycle(std::uint64_t steps, double share_up = 0.3, double begin = 0.04, double end = 4e-6);

}  // namespace pharos::ml
