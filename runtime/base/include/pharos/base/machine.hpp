#pragma once

#include <cstddef>
#include <span>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>

namespace pharos {
namespace detail {

/// What this process takes from its machine and what therefore differs from run to run: time, and random numbers. The
/// simulator of `testing` puts its own in the place of the real ones.
class Machine : public Clock {
 public:
  /// Lets the calling thread sleep.
  virtual void sleep(Duration time) = 0;
  /// Fills `bytes` with unpredictable bytes.
  virtual void fill_random(std::span<std::byte> bytes) = 0;

  /// The machine of this process. Any thread may ask for it.
  static Machine& present();
  /// From now on `machine` is the machine of this process; null stands for the real one. The caller keeps it alive
  /// until it is replaced, and no other thread may use either of them meanwhile.
  static void replace(Machine* machine);
};

}  // namespace detail

/// The time of this process's machine, CLOCK_MONOTONIC; in a simulated cluster the simulated time. Any thread.
PHAROS_API TimePoint now();

/// Lets the calling thread sleep; in a simulated cluster, by the simulated time. For user code that is to run in both.
PHAROS_API void sleep(Duration time);

}  // namespace pharos
