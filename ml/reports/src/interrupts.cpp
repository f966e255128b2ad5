#include <atomic>

#include <pharos/ml/interrupts.hpp>

namespace pharos::ml {
namespace {

std::atomic<bool> interrupt_asked = false;

}  // namespace

Interrupts::Interrupts() {
  interrupt_asked = false;
  struct sigaction wanted {};
  wanted.sa_handler = [](int) { interrupt_asked = true; };
  wanted.sa_flags = SA_RESETHAND;
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
