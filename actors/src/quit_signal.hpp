#pragma once

#include <cstddef>
#include <memory>

#include <pharos/base/fd.hpp>

namespace pharos::actors {

/// SIGQUIT (Ctrl-\) as a question instead of an end: each time one comes, `descriptor()` becomes readable, an eventfd.
/// Two within a second still end the program, with a core file if the system writes any. Where the program has a
/// handler of its own, or ignores the signal, nothing changes. There may be several, up to `kMax`; when the last is
/// gone the signal is as it was.
class QuitSignal {
 public:
  static constexpr std::size_t kMax = 16;

  /// Null beyond kMax.
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
