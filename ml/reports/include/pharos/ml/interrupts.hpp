#pragma once

#include <chrono>
#include <csignal>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>

namespace pharos::ml {

/// As long as it lives, Ctrl-C (SIGINT) asks for an end, and a second one ends the program; unless the program has said
/// what SIGINT is to do. What comes within `same_time` of the first is the same Ctrl-C: a terminal and a wrapper that
/// both pass it on are one wish. One object at a time.
class PHAROS_API Interrupts {
 public:
  static constexpr Duration kSameTime = std::chrono::milliseconds{100};

  explicit Interrupts(Duration same_time = kSameTime);
  Interrupts(Interrupts&&) = delete;
  ~Interrupts();
  static bool asked();

 private:
  struct sigaction before_ {};
  bool ours_ = false;
};

}  // namespace pharos::ml
