#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/schedule.hpp>

namespace pharos::ml {
namespace {

/// The share of the steps that is done, from 0 to 1.
double done(std::uint64_t step, std::uint64_t steps) {
  return steps == 0 ? 1 : std::min(1.0, static_cast<double>(step) / static_cast<double>(steps));
}
double along_cosine(double from, double to, double part) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}

}  // namespace

Schedule constant() {
  return [](std::uint64_t) { return 1.0; };
}
Schedule linear(std::uint64_t steps, double end) {
  return [=](std::uint64_t step) { return 1 + (end - 1) * done(step, steps); };
}
Schedule cosine(std::uint64_t steps, double end) {
  return [=](std::uint64_t step) { return along_cosine(1, end, done(step, steps)); };
}
Schedule polynomial(std::uint64_t steps, double power, double end) {
  return [=](std::uint64_t step) { return end + (1 - end) * std::pow(1 - done(step, steps), power); };
}
Schedule warm_up(std::uint64_t steps, Schedule then) {
  return [steps, then = std::move(then)](std::uint64_t step) {
    return step < steps ? static_cast<double>(step + 1) / static_cast<double>(steps + 1) : then(step - steps);
  };
}
Schedule one_cycle(std::uint64_t steps, double share_up, double begin, double end) {
  if (!(share_up >= 0 && share_up <= 1)) {
    throw_error(Error{ErrorCode::kInvalidArgument, "one_cycle() with share_up = " + std::to_string(share_up),
                      "Give the share of the steps in which the learning rate rises: from 0 to 1."});
  }
  const auto up = static_cast<std::uint64_t>(std::llround(static_cast<double>(steps) * share_up));
  return [=](std::uint64_t step) {
    if (step < up) return along_cosine(begin, 1, done(step, up));
    return along_cosine(1, end, done(step - up, steps - up));
  };
}

}  // namespace pharos::ml
