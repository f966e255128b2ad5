#include "results/waiting_threads.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "program/thread_state.hpp"
#include "worker/running_call.hpp"

namespace pharos::actors {
namespace {

pid_t number_of_this_thread() {
  if (this_thread.number == 0) [[unlikely]]
    this_thread.number = static_cast<pid_t>(::syscall(SYS_gettid));
  return this_thread.number;
}

const char* function_that_runs() {
  const RunningCall* const running = RunningCall::of_this_thread();
  return running == nullptr ? nullptr : running->function_name();
}

}  // namespace

WaitingThreads::Note::Note(WaitingThreads& threads, detail::ResultCell& cell, Who who)
    : threads_{threads},
      cell_{cell},
      thread_{who == Who::kThread ? number_of_this_thread() : 0},
      inside_{function_that_runs()} {
  const std::lock_guard lock{threads_.mutex_};
  before_ = threads_.newest_;
  if (before_ != nullptr) before_->after_ = this;
  threads_.newest_ = this;
}

WaitingThreads::Note::~Note() {
  const std::lock_guard lock{threads_.mutex_};
  if (before_ != nullptr) before_->after_ = after_;
  (after_ != nullptr ? after_->before_ : threads_.newest_) = before_;
}

// The cells exist while the lock is held: a thread or coroutine that waits keeps its cell until its Note is removed.
std::vector<WaitingThreads::Wait> WaitingThreads::all() {
  std::vector<Wait> waits;
  const std::lock_guard lock{mutex_};
  for (const Note* each = newest_; each != nullptr; each = each->before_) {
    detail::CellHandle borrowed{&each->cell_};
    detail::CellHandle shared = borrowed;
    borrowed.detach();  // it has taken no reference
    waits.push_back({std::move(shared), each->thread_, each->inside_});
  }
  return waits;
}

}  // namespace pharos::actors
