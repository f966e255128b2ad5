#pragma once

#include <string>

#include <pharos/base/clock.hpp>
#include <pharos/ml/display.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "run/sweep.hpp"

namespace pharos::ml {

/// Shows the progress of a sweep on the standard error: on a terminal as a table that is redrawn, elsewhere as a line
/// now and then. Owned by SweepLoop; one thread. Errors of writing are ignored. The destructor writes nothing.
class Progress {
 public:
  explicit Progress(std::string name);

  /// Returns when show() is to be called next; an earlier call does nothing.
  TimePoint next() const { return display_.next(); }
  void show(const Sweep& sweep, double seconds, TimePoint now);
  /// Shows the summary at the end of the sweep.
  void end(const Sweep& sweep, double seconds);

 private:
  std::string summary(const Sweep& sweep, double seconds) const;

  const std::string name_;
  Display display_;
};

}  // namespace pharos::ml
