#include "simulator/fibre.hpp"

#include <cxxabi.h>

#include <cstring>
#include <utility>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <pharos/base/check.hpp>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace pharos::simulator {
namespace {

using boost::context::fiber;
using boost::context::stack_context;

constexpr std::size_t kStackBytes = 1 << 20;  // mapped, and used only as far as the code goes
Fibre* running = nullptr;

/// Allocates stacks and keeps them for reuse: a seed needs a hundred, and mapping each would take most of its time.
class Stacks {
 public:
  explicit Stacks(stack_context* used) : used_{used} {}
  stack_context allocate() {
    if (free().empty()) free().push_back(boost::context::protected_fixedsize_stack{kStackBytes}.allocate());
    *used_ = free().back();
    free().pop_back();
    return *used_;
  }
  void deallocate(stack_context& stack) { free().push_back(stack); }

 private:
  static std::vector<stack_context>& free() {
    static auto* const stacks = new std::vector<stack_context>;
    return *stacks;
  }
  stack_context* used_;  // receives the stack that was allocated
};

/// The exceptions that a thread is handling. The C++ runtime keeps them for each thread.
struct Exceptions {
  void* caught = nullptr;
  unsigned int uncaught = 0;

  void exchange() {
    auto* const globals = static_cast<void*>(abi::__cxa_get_globals());
    Exceptions before;
    std::memcpy(&before, globals, sizeof before);
    std::memcpy(globals, this, sizeof *this);
    *this = before;
  }
};

}  // namespace

struct Fibre::Context {
  stack_context stack;
  fiber inside;   // continues the fibre; valid while it does not run
  fiber outside;  // returns to the caller; valid while the fibre runs
  bool ending = false;
  Exceptions exceptions;
#ifdef __SANITIZE_ADDRESS__
  void* fake_inside = nullptr;
  void* fake_outside = nullptr;
  const void* outside_bottom = nullptr;
  std::size_t outside_size = 0;
#endif

  void go_in() {
#ifdef __SANITIZE_ADDRESS__
    const void* const bottom = static_cast<char*>(stack.sp) - stack.size;
    __sanitizer_start_switch_fiber(&fake_outside, bottom, stack.size);
#endif
    inside = std::move(inside).resume();
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_outside, nullptr, nullptr);
#endif
  }
  void arrive([[maybe_unused]] bool first) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(first ? nullptr : fake_inside, &outside_bottom, &outside_size);
#endif
  }
  void leave([[maybe_unused]] bool last) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(last ? nullptr : &fake_inside, outside_bottom, outside_size);
#endif
  }
  void go_out() {
    leave(false);
    outside = std::move(outside).resume();
    arrive(false);
  }
};

Fibre::Fibre(pid_t number) : context_{std::make_unique<Context>()} {
  state_.number = number;
  context_->inside = fiber{std::allocator_arg, Stacks{&context_->stack}, [this](fiber&& outside) {
                             context_->outside = std::move(outside);
                             context_->arrive(true);
                             while (!context_->ending) {
                               work_();
                               work_ = {};
                               context_->go_out();
                             }
                             context_->leave(true);
                             return std::move(context_->outside);
                           }};
}

Fibre::~Fibre() {
  PHAROS_CHECK(idle());
  context_->ending = true;
  enter();
  actors::end_thread(state_);
}

Fibre* Fibre::current() {
  return running;
}

void Fibre::enter() {
  PHAROS_CHECK(running == nullptr);
  running = this;
  std::swap(actors::this_thread, state_);
  context_->exceptions.exchange();
  context_->go_in();
  context_->exceptions.exchange();
  std::swap(actors::this_thread, state_);
  running = nullptr;
}

void Fibre::run(async::Callback work) {
  PHAROS_CHECK(idle());
  work_ = std::move(work);
  enter();
}

void Fibre::resume() {
  PHAROS_CHECK(parked_);
  enter();
}

void Fibre::park() {
  PHAROS_CHECK(running == this);
  ++parks_;
  parked_ = true;
  context_->go_out();
  parked_ = false;
}

}  // namespace pharos::simulator
