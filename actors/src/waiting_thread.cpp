#include "waiting_thread.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include <pharos/base/thread_local.hpp>

#include "result_cell.hpp"
#include "running_call.hpp"

namespace pharos::actors {

using detail::ResultCell;

/// One for each thread that waits or has waited; one that has ended leaves it to another. They are never freed, so a
/// list of them needs no lock, which a child of fork() might find taken.
struct WaitingThread::Place {
  // The cell, and as its lowest bit, that somebody looks at it: then the waiting thread does not leave.
  std::atomic<std::uintptr_t> cell = 0;
  std::atomic<const RunningCall*> running = nullptr;
  std::atomic<pid_t> thread = 0;
  std::atomic<bool> taken = true;
  Place* next = nullptr;

  static constexpr std::uintptr_t kLookedAt = 1;
  static inline std::atomic<Place*> first = nullptr;

  static std::uintptr_t number_of(ResultCell* waited_for) { return reinterpret_cast<std::uintptr_t>(waited_for); }

  // Short, since who looks only takes a share in the cell.
  ResultCell* exchange(ResultCell* next_cell, const RunningCall* next_running) {
    std::uintptr_t before = cell.load(std::memory_order_relaxed);
    for (;;) {
      before &= ~kLookedAt;
      // Not told of both at once: it is looked at again below.
      if (cell.compare_exchange_weak(before, 0, std::memory_order_acquire)) break;
      if ((before & kLookedAt) != 0) ::sched_yield();
    }
    running.store(next_running, std::memory_order_relaxed);
    cell.store(number_of(next_cell), std::memory_order_release);
    return reinterpret_cast<ResultCell*>(before);  // NOLINT(performance-no-int-to-ptr)
  }

  static Place* take() {
    for (Place* each = first.load(); each != nullptr; each = each->next) {
      bool free = false;
      if (!each->taken.load() && each->taken.compare_exchange_strong(free, true)) return each;
    }
    auto* const made = new Place;
    made->next = first.load();
    while (!first.compare_exchange_weak(made->next, made)) {
    }
    return made;
  }
};

namespace {
PHAROS_THREAD_LOCAL void* known_place = nullptr;
}  // namespace

WaitingThread::Place& WaitingThread::place_of_this_thread() {
  if (known_place == nullptr) [[unlikely]] {
    struct Leaver {
      Place* place = Place::take();
      ~Leaver() {
        known_place = nullptr;
        place->taken.store(false);
      }
    };
    thread_local const Leaver leaver;
    leaver.place->thread.store(static_cast<pid_t>(::syscall(SYS_gettid)));
    known_place = leaver.place;
  }
  return *static_cast<Place*>(known_place);
}

WaitingThread::WaitingThread(ResultCell& cell)
    : place_{place_of_this_thread()},
      outer_running_{place_.running.load(std::memory_order_relaxed)},
      outer_{place_.exchange(&cell, RunningCall::of_this_thread())} {}

WaitingThread::~WaitingThread() {
  place_.exchange(outer_, outer_running_);
}

std::vector<WaitingThread::Wait> WaitingThread::all() {
  std::vector<Wait> waits;
  for (Place* each = Place::first.load(); each != nullptr; each = each->next) {
    std::uintptr_t cell = each->cell.load();
    if (cell == 0 || (cell & Place::kLookedAt) != 0) continue;
    if (!each->cell.compare_exchange_strong(cell, cell | Place::kLookedAt)) continue;
    auto* const waited_for = reinterpret_cast<ResultCell*>(cell);  // NOLINT(performance-no-int-to-ptr)
    waited_for->retain();
    const RunningCall* const running = each->running.load();
    waits.push_back(
        {detail::CellHandle{waited_for}, each->thread.load(), running == nullptr ? nullptr : running->function_name()});
    each->cell.store(cell);
  }
  return waits;
}

}  // namespace pharos::actors
