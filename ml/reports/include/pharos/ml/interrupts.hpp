#pragma once

#include <csignal>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// As long as it lives, Ctrl-C is asked after, and ends nothing: the first time, and unless the program has said what
/// it is to do. One at a time.
class PHAROS_API Interrupts {
 public:
  Interrupts();
  Interrupts(Interrupts&&) = delete;
  ~Interrupts();
  static bool asked();

 private:
  struct sigaction before_ {};
  bool ours_ = false;
};

}  // namespace pharos::ml
