#pragma once

#include <string>

#include <pharos/base/clock.hpp>
#include <pharos/ml/display.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "sweep.hpp"

namespace pharos::ml {

/// How a sweep goes, on the standard error: a table that is drawn over itself on a terminal, else a line now and then.
class Progress {
 public:
  explicit Progress(std::string name);

  /// When it wants to be called next.
  TimePoint next() const { return display_.next(); }
  void show(const Sweep& sweep, double seconds, TimePoint now);
  void end(const Sweep& sweep, double seconds);

 private:
  std::string summary(const Sweep& sweep, double seconds) const;

  const std::string name_;
  Display display_;
};

}  // namespace pharos::ml
