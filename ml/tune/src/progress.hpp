#pragma once

#include <cstddef>
#include <string>

#include <pharos/base/clock.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "sweep.hpp"

namespace pharos::ml {

/// How a sweep goes, on the standard error: a table that is drawn over itself on a terminal, else a line now and then.
class Progress {
 public:
  explicit Progress(std::string name);

  /// When it wants to be called next.
  TimePoint next() const { return next_; }
  void show(const Sweep& sweep, double seconds, TimePoint now);
  void end(const Sweep& sweep, double seconds);

 private:
  std::string summary(const Sweep& sweep, double seconds) const;
  void draw(const std::string& text);

  const std::string name_;
  const bool terminal_;
  std::size_t lines_ = 0;  // that are to be drawn over
  TimePoint next_{};
};

/// "3 s", "4 min 10 s", "2 h 5 min".
std::string to_text(double seconds);

}  // namespace pharos::ml
