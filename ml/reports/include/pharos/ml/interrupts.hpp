#pragma once

#include <chrono>
#include <csignal>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>

namespace pharos::ml {

/// As long as the object lives, a first Ctrl-C (SIGINT) makes asked() true, and a second one ends the program. The
/// object does nothing if the program has set a handler of its own for SIGINT, or ignores it. A SIGINT that follows the
/// first within `same_time` counts as the same Ctrl-C, since a terminal and a wrapper may both send it. Tuner and
/// Trainer make one while they run. One object at a time in a process: the destructor restores the default. Failure to
/// set the handler is ignored.
class PHAROS_API Interrupts {
 public:
  static constexpr Duration kSameTime = std::chrono::milliseconds{100};

  explicit Interrupts(Duration same_time = kSameTime);
  Interrupts(Interrupts&&) = delete;
  ~Interrupts();
  /// Returns whether a SIGINT has come since the last Interrupts was made. On any thread.
  static bool asked();

 private:
  struct sigaction before_ {};
  bool ours_ = false;
};

}  // namespace pharos::ml
