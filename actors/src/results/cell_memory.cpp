#include "results/cell_memory.hpp"

#include <atomic>
#include <new>
#include <utility>

#include <pharos/base/thread_local.hpp>

namespace pharos::actors {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif

constexpr unsigned kBatch = 64;       // cells that go from thread to thread together
constexpr unsigned kBatchesMax = 64;  // of the process: so many that the cells stay in a cache

/// A free cell. The first one of a batch also leads to the next batch.
struct FreeCell {
  FreeCell* next = nullptr;
  FreeCell* next_batch = nullptr;
};

/// Free cells, at most a batch of them. Trivial, because it is used until the very end of its thread.
struct Stack {
  FreeCell* top;
  unsigned count;
};

void free_all(FreeCell* cell) noexcept {
  while (cell != nullptr) ::operator delete(std::exchange(cell, cell->next));
}

/// The batches that no thread has. Whoever takes one takes all of them for a moment, and puts the others back; so no
/// thread ever reads a batch that another one may have taken.
class Batches {
 public:
  FreeCell* take() noexcept {
    FreeCell* const first = first_.exchange(nullptr, std::memory_order_acquire);
    if (first == nullptr) return nullptr;
    count_.fetch_sub(1, std::memory_order_relaxed);
    if (FreeCell* const others = std::exchange(first->next_batch, nullptr)) add(others);
    return first;
  }
  void give(FreeCell* batch) noexcept {
    if (count_.fetch_add(1, std::memory_order_relaxed) >= kBatchesMax) {
      count_.fetch_sub(1, std::memory_order_relaxed);
      return free_all(batch);
    }
    add(batch);
  }

 private:
  // Adds a batch and those to which it leads.
  void add(FreeCell* batches) noexcept {
    FreeCell* there = nullptr;
    FreeCell* last = batches;
    while (!first_.compare_exchange_weak(there, batches, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      if (there == nullptr) continue;
      while (last->next_batch != nullptr) last = last->next_batch;
      // Only what this thread has taken may be read, so it takes what came meanwhile, and adds that too.
      last->next_batch = first_.exchange(nullptr, std::memory_order_acquire);
      there = nullptr;
    }
  }

  std::atomic<FreeCell*> first_ = nullptr;
  std::atomic<unsigned> count_ = 0;
};
constinit Batches batches;

/// The free cells of one thread.
struct Own {
  Stack used;   // cells are taken from here and given back here
  Stack spare;  // full or empty, so that a thread at the edge of a batch does not exchange batches at each step
  bool registered;
  bool ended;  // the thread is about to end, and keeps no more cells
};
PHAROS_THREAD_LOCAL constinit Own own{};

// Gives the thread's cells back at its end.
void register_end() {
  struct End {
    ~End() {
      own.ended = true;
      for (Stack* const stack : {&own.used, &own.spare}) {
        free_all(std::exchange(stack->top, nullptr));
        stack->count = 0;
      }
    }
  };
  thread_local const End end;
  static_cast<void>(end);
  own.registered = true;
}

}  // namespace

void* take_cell_memory(std::size_t bytes) {
  if constexpr (!kKeeps) return ::operator new(bytes);
  if (own.used.top == nullptr) [[unlikely]] {
    std::swap(own.used, own.spare);
    if (own.used.top == nullptr) {
      FreeCell* const batch = own.ended ? nullptr : batches.take();
      if (batch == nullptr) return ::operator new(bytes);
      if (!own.registered) register_end();
      own.used = {batch, kBatch};
    }
  }
  --own.used.count;
  return std::exchange(own.used.top, own.used.top->next);
}

void give_back_cell_memory(void* memory) noexcept {
  if (!kKeeps || own.ended) return ::operator delete(memory);
  if (!own.registered) [[unlikely]]
    register_end();
  if (own.used.count == kBatch) [[unlikely]] {
    if (own.spare.top != nullptr) batches.give(own.spare.top);
    own.spare = std::exchange(own.used, Stack{});
  }
  own.used.top = new (memory) FreeCell{own.used.top, nullptr};
  ++own.used.count;
}

}  // namespace pharos::actors
