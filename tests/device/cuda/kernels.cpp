#include "kernels.hpp"

#include <cuda_language.h>
#include <ucontext.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace pharos::simulated {
namespace {

constexpr std::size_t kStack = std::size_t{64} << 10;

/// Where a piece of work goes on, and the stack on which it does so.
struct Place {
  ucontext_t context{};
  const void* stack = nullptr;
  std::size_t bytes = 0;
};

/// Goes on at `next`. Returns once somebody goes on at `own`.
void go_on(Place& own, Place& next) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, next.stack, next.bytes);
  ::swapcontext(&own.context, &next.context);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#else
  ::swapcontext(&own.context, &next.context);
#endif
}

/// The threads that one stream's thread stands for: of one block at a time. They stay for the next block.
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
        now_ = threads_[k].get();
        go_on(own_, now_->place);
        if (!now_->is_over) ++waiting;
      }
      if (waiting != 0 && waiting != left) throw std::logic_error{"some threads of a block ended while others waited"};
      left = waiting;
      was_all_true_ = all_true_;
    }
  }

  bool wait(bool value) {
    all_true_ = all_true_ && value;
    go_on(now_->place, own_);
    return was_all_true_;
  }

 private:
  struct Thread {
    Place place{};
    std::unique_ptr<std::byte[]> stack{};
    bool is_over = false;
  };

  void add_thread() {
    Thread& thread = *threads_.emplace_back(std::make_unique<Thread>());
    thread.stack = std::make_unique_for_overwrite<std::byte[]>(kStack);
    thread.place.stack = thread.stack.get();
    thread.place.bytes = kStack;
    ::getcontext(&thread.place.context);
    thread.place.context.uc_stack.ss_sp = thread.stack.get();
    thread.place.context.uc_stack.ss_size = kStack;
    ::makecontext(&thread.place.context, &run_thread, 0);
  }

  static void run_thread();

  Place own_;  // of the stream's thread
  std::vector<std::unique_ptr<Thread>> threads_;
  Thread* now_ = nullptr;  // whose turn it is
  const std::function<void()>* kernel_ = nullptr;
  bool all_true_ = true;  // of the wait at which the threads arrive
  bool was_all_true_ = true;
};

thread_local Block block;

void Block::run_thread() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &block.own_.stack, &block.own_.bytes);
#endif
  for (;;) {
    (*block.kernel_)();
    block.now_->is_over = true;
    go_on(block.now_->place, block.own_);
  }
}

}  // namespace

void run_blocks(dim3 blocks, dim3 threads, Turns turns, const std::function<void()>& kernel) {
  gridDim = blocks;
  blockDim = threads;
  for (unsigned k = 0; k < blocks.x; ++k) {
    blockIdx = k;
    block.run(threads.x, turns, kernel);
  }
}

bool wait_for_block(bool value) {
  return block.wait(value);
}

}  // namespace pharos::simulated
