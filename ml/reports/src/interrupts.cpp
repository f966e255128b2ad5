#include <time.h>

#include <atomic>
#include <cstdint>

#include <pharos/ml/interrupts.hpp>

namespace pharos::ml {
namespace {

std::atomic<bool> interrupt_asked = false;
std::atomic<std::int64_t> first_at = 0;  // time of the first SIGINT in nanoseconds; 0 before it
std::atomic<std::int64_t> same_nanoseconds = 0;

// The signal handler: it uses only functions and atomics that are safe in one.
void on_interrupt(int signal) {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  std::int64_t first = 0;
  if (first_at.compare_exchange_strong(first, now)) {
    interrupt_asked = true;
  } else if (now - first >= same_nanoseconds) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // delivered when this handler has returned
  }
}

}  // namespace

Interrupts::Interrupts(Duration same_time) {
  interrupt_asked = false;
  same_nanoseconds = std::chrono::nanoseconds{same_time}.count();
  first_at = 0;
  struct sigaction wanted {};
  wanted.sa_handler = &on_interrupt;
  if (::sigaction(SIGINT, nullptr, &before_) != 0 || before_.sa_handler != SIG_DFL) return;
  ours_ = ::sigaction(SIGINT, &wanted, nullptr) == 0;
}

Interrupts::~Interrupts() {
  if (ours_) ::sigaction(SIGINT, &before_, nullptr);
}

bool Interrupts::asked() {
  return interrupt_asked;
}

}  // namespace pharos::ml
