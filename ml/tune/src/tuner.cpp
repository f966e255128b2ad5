#include <atomic>
#include <csignal>
#include <cstdlib>
#include <utility>

#include <pharos/ml/tuner.hpp>

#include "actor_slots.hpp"
#include "run_sweep.hpp"

namespace pharos::ml {
namespace {

std::atomic<bool> interrupt_asked = false;

/// Ctrl-C ends the sweep in order, the first time; unless the program has said what it is to do.
class Interrupts {
 public:
  Interrupts() {
    interrupt_asked = false;
    struct sigaction wanted {};
    wanted.sa_handler = [](int) { interrupt_asked = true; };
    wanted.sa_flags = SA_RESETHAND;
    if (::sigaction(SIGINT, nullptr, &before_) != 0 || before_.sa_handler != SIG_DFL) return;
    ours_ = ::sigaction(SIGINT, &wanted, nullptr) == 0;
  }
  Interrupts(Interrupts&&) = delete;
  ~Interrupts() {
    if (ours_) ::sigaction(SIGINT, &before_, nullptr);
  }
  static bool asked() { return interrupt_asked; }

 private:
  struct sigaction before_ {};
  bool ours_ = false;
};

}  // namespace

Tuner::Tuner(Runtime& runtime, TunerOptions options) : runtime_{runtime}, options_{std::move(options)} {
  complete(options_);
}

Tuner::~Tuner() = default;

SweepResults Tuner::run(detail::MakeTrialWorkers make, Existing existing) {
  if (options_.searcher == nullptr) {
    throw_error(Error{ErrorCode::kFailedPrecondition, "this tuner has run its sweep", "Make another one."});
  }
  ActorSlots slots{
      runtime_,
      std::move(make),
      ActorGroupOptions{
          .name = "trial", .size = options_.workers, .member = options_.worker, .strategy = options_.strategy},
      {.at_once = options_.at_once, .shares_cores = !options_.deterministic && options_.workers == 1}};
  const bool resumes = existing == Existing::kContinued || std::getenv("PHAROS_TUNE_RESUME") != nullptr;
  const Interrupts interrupts;
  return run_sweep(std::move(options_), slots,
                   resumes ? SweepLoop::Existing::kContinued : SweepLoop::Existing::kRefused,
                   [] { return Interrupts::asked(); });
}

}  // namespace pharos::ml
