#pragma once

#include <cstddef>
#include <memory>

#include <pharos/base/fd.hpp>

namespace pharos::actors {

/// Makes SIGQUIT (Ctrl-\) a question to the program instead of its end: each signal makes `descriptor()`, an eventfd,
/// readable. Two signals within a second still end the program, with a core file if the system writes any. If the
/// program has a handler of its own, or ignores the signal, nothing changes. Up to `kMax` QuitSignals may live at once;
/// the destructor of the last one restores the signal's default action. Owned by a Driver, which reads the descriptor;
/// the destructor closes it, so the reader stops before. In a child of fork() the signal ends the child. Any thread. If
/// the system gives no eventfd, make() aborts the process.
class QuitSignal {
 public:
  static constexpr std::size_t kMax = 16;

  /// Returns null if kMax of them live already.
  static std::unique_ptr<QuitSignal> make();
  QuitSignal(QuitSignal&&) = delete;
  ~QuitSignal();

  int descriptor() const { return event_.get(); }

 private:
  explicit QuitSignal(std::size_t place);

  Fd event_;
  const std::size_t place_;
};

}  // namespace pharos::actors
