#include <emmintrin.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>

#include <pharos/object_store/large_copy.hpp>

namespace pharos::object_store {
namespace {

constexpr std::size_t kVector = sizeof(__m128i);

}  // namespace

void copy_streaming(std::byte* to, const std::byte* from, std::size_t count) {
  const std::size_t head = std::min(count, (kVector - reinterpret_cast<std::uintptr_t>(to) % kVector) % kVector);
  std::memcpy(to, from, head);
  to += head;
  from += head;
  count -= head;
  constexpr std::size_t kLine = 4 * kVector;
  for (; count >= kLine; to += kLine, from += kLine, count -= kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(from) + 8 * kLine, _MM_HINT_NTA);
    const auto* const source = reinterpret_cast<const __m128i*>(from);
    auto* const target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to, from, count);
  _mm_sfence();  // makes the bytes visible before another thread is told of them
}

bool machine_is_busy() {
  static const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  std::FILE* const file = std::fopen("/proc/loadavg", "re");
  if (file == nullptr) return true;
  long running = 0;  // including this thread
  const int read = std::fscanf(file, "%*f %*f %*f %ld/", &running);
  std::fclose(file);
  return read != 1 || running >= cores;
}

struct SpareCore::Thread {
  struct Work {
    const std::function<void(std::size_t)>& piece;
    const std::size_t pieces;
    std::atomic<std::size_t> next = 0;

    void take_part() {
      for (std::size_t i = next.fetch_add(1); i < pieces; i = next.fetch_add(1)) piece(i);
    }
  };

  std::mutex mutex;
  std::condition_variable changed;
  Work* work = nullptr;
  bool takes_part = false;  // the second thread uses `work`, which must stay valid
  bool stops = false;
  std::thread thread = start();

  ~Thread() {
    {
      const std::lock_guard lock{mutex};
      stops = true;
    }
    changed.notify_all();
    thread.join();
  }

  void run(Work& all) {
    {
      const std::lock_guard lock{mutex};
      work = &all;
    }
    changed.notify_all();
    all.take_part();
    std::unique_lock lock{mutex};
    if (!takes_part) work = nullptr;  // the second thread has not started, and need not
    changed.wait(lock, [this] { return work == nullptr; });
  }

 private:
  std::thread start() {
    // The program's signals must be delivered to its own threads, so this thread blocks all of them.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread started{[this] { serve(); }};
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  void serve() {
    std::unique_lock lock{mutex};
    for (;;) {
      changed.wait(lock, [this] { return stops || work != nullptr; });
      if (stops) return;
      takes_part = true;
      Work& mine = *work;
      lock.unlock();
      mine.take_part();
      lock.lock();
      takes_part = false;
      work = nullptr;
      changed.notify_all();
    }
  }
};

SpareCore::SpareCore(bool (*busy)()) : busy_{busy}, process_{::getpid()} {}

SpareCore::~SpareCore() {
  // In a child process made by fork() the thread does not exist, and its condition variable cannot be destroyed.
  if (::getpid() != process_) static_cast<void>(thread_.release());
}

void SpareCore::run(std::size_t pieces, const std::function<void(std::size_t)>& piece) {
  Thread::Work work{piece, pieces};
  const std::unique_lock lock{mutex_, std::try_to_lock};
  if (pieces < 2 || !lock.owns_lock() || ::getpid() != process_ || busy_()) return work.take_part();
  if (thread_ == nullptr) thread_ = std::make_unique<Thread>();
  thread_->run(work);
}

}  // namespace pharos::object_store
