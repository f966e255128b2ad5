#include "kernels.hpp"

#include <cuda_language.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace pharos::simulated {
namespace {

using boost::context::fiber;
using boost::context::stack_context;

constexpr std::size_t kStack = std::size_t{64} << 10;

/// Memory for a stack, which the caller of allocate() sees, too.
class Stacks {
 public:
  explicit Stacks(stack_context& made) : made_{made} {}
  stack_context allocate() { return made_ = boost::context::fixedsize_stack{kStack}.allocate(); }
  static void deallocate(stack_context& stack) { boost::context::fixedsize_stack{kStack}.deallocate(stack); }

 private:
  stack_context& made_;
};

/// The threads of one block, on the thread of one stream. They stay for the next block.
class Block {
 public:
  void run(unsigned threads, Turns turns, const std::function<void()>& kernel) {
    while (threads_.size() < threads) add_thread();
    kernel_ = &kernel;
    for (unsigned k = 0; k < threads; ++k) threads_[k]->is_over = false;
    for (unsigned left = threads; left != 0;) {
      all_true_ = true;
      unsigned waiting = 0;
      for (unsigned turn = 0; turn < threads; ++turn) {
        const unsigned k = turns == Turns::kFirstBegins ? turn : threads - 1 - turn;
        if (threads_[k]->is_over) continue;
        threadIdx = k;
        go_in(*threads_[k]);
        if (!threads_[k]->is_over) ++waiting;
      }
      if (waiting != 0 && waiting != left) throw std::logic_error{"some threads of a block ended while others waited"};
      left = waiting;
      was_all_true_ = all_true_;
    }
  }

  bool wait(bool value) {
    all_true_ = all_true_ && value;
    go_out();
    return was_all_true_;
  }

 private:
  struct Thread {
    stack_context stack{};
    fiber inside{};
    bool is_over = false;
  };

  void add_thread() {
    threads_.push_back(std::make_unique<Thread>());
    Thread& thread = *threads_.back();
    thread.inside = fiber{std::allocator_arg, Stacks{thread.stack}, [this, &thread](fiber&& outside) {
                            outside_ = std::move(outside);
                            arrive(nullptr);
                            for (;;) {
                              (*kernel_)();
                              thread.is_over = true;
                              go_out();
                            }
                            return std::move(outside_);
                          }};
  }

  void go_in(Thread& thread) {
#ifdef __SANITIZE_ADDRESS__
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, static_cast<char*>(thread.stack.sp) - thread.stack.size, thread.stack.size);
    thread.inside = std::move(thread.inside).resume();
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    thread.inside = std::move(thread.inside).resume();
#endif
  }

  void go_out() {
    void* fake = nullptr;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fake, outside_stack_, outside_bytes_);
#endif
    outside_ = std::move(outside_).resume();
    arrive(fake);
  }
  void arrive([[maybe_unused]] void* fake) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, &outside_stack_, &outside_bytes_);
#endif
  }

  std::vector<std::unique_ptr<Thread>> threads_;
  fiber outside_;  // returns to the stream's thread, while a thread of the block has its turn
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
  const std::function<void()>* kernel_ = nullptr;
  bool all_true_ = true;  // of the wait at which the threads arrive
  bool was_all_true_ = true;
};

/// The block of a stream's thread, which ends with it.
Block& block() {
  static thread_local Block its;
  return its;
}

}  // namespace

void run_blocks(dim3 blocks, dim3 threads, Turns turns, const std::function<void()>& kernel) {
  gridDim = blocks;
  blockDim = threads;
  for (unsigned k = 0; k < blocks.x; ++k) {
    blockIdx = k;
    block().run(threads.x, turns, kernel);
  }
}

bool wait_for_block(bool value) {
  return block().wait(value);
}

}  // namespace pharos::simulated
