// Estimates pi from random points in a square: the share of the points that also lie in the quarter circle is pi / 4.
// Shows tasks on all CPUs, and a RefSet, which hands out results in the order in which they arrive. Each result
// improves the estimate while other tasks still run.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <random>
#include <string>

#include <pharos/pharos.hpp>

namespace {

constexpr std::uint64_t kTasks = 64;
constexpr std::uint64_t kPointsPerTask = 1'000'000;

std::uint64_t points_inside(std::uint64_t seed, std::uint64_t points) {
  std::mt19937_64 random{seed};
  std::uniform_real_distribution<double> coordinate{0, 1};
  std::uint64_t inside = 0;
  for (std::uint64_t i = 0; i < points; ++i) {
    const double x = coordinate(random);
    const double y = coordinate(random);
    if (x * x + y * y < 1) ++inside;
  }
  return inside;
}

struct Estimate {
  double pi = 0;
  double deviation = 1;  // standard deviation of pi
};

Estimate estimate(std::uint64_t inside, std::uint64_t tasks) {
  const auto points = static_cast<double>(tasks * kPointsPerTask);
  const double share = static_cast<double>(inside) / points;
  return {4 * share, 4 * std::sqrt(share * (1 - share) / points)};
}

// Each line of progress overwrites the line before.
void show_progress(std::uint64_t tasks, Estimate now) {
  const std::string done(tasks * 32 / kTasks, '#');
  std::printf("\r[%-32s] %2ju of %ju tasks   pi = %.5f +- %.5f", done.c_str(), tasks, kTasks, now.pi, now.deviation);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};

  pharos::RefSet<std::uint64_t> counts;
  for (std::uint64_t seed = 1; seed <= kTasks; ++seed) counts.add(runtime.submit<&points_inside>(seed, kPointsPerTask));

  std::uint64_t inside = 0;
  std::uint64_t done = 0;
  Estimate now;
  while (!counts.empty()) {
    for (const auto& count : counts.wait()) {
      inside += count.get();
      now = estimate(inside, ++done);
    }
    show_progress(done, now);
  }

  const double error = now.pi - std::numbers::pi;
  std::printf("\n%ju million points; pi is %.5f, so that is off by %+.5f\n", kTasks * kPointsPerTask / 1'000'000,
              std::numbers::pi, error);
  return std::abs(error) < 4 * now.deviation ? 0 : 1;
}
