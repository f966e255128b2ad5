#include "program/quit_signal.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <mutex>

#include <pharos/base/check.hpp>

namespace pharos::actors {
namespace {

constexpr std::int64_t kTwiceNanoseconds = 1'000'000'000;

// A signal handler can reach only global variables. Each event is a descriptor plus one; 0 means that the place is
// free.
std::array<std::atomic<int>, QuitSignal::kMax> events{};
std::atomic<std::int64_t> last_time = 0;
std::atomic<pid_t> owner = 0;

// Guards the installation and removal of the handler, and the number of users.
std::mutex& users_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}
std::size_t users = 0;

std::int64_t nanoseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

void on_quit(int signal) {
  const int error = errno;
  const std::int64_t now = nanoseconds_now();
  const std::int64_t before = last_time.exchange(now);
  // A child of fork() inherits the handler, but has no thread that would answer the question.
  if ((before != 0 && now - before < kTwiceNanoseconds) || owner.load() != ::getpid()) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  } else {
    const std::uint64_t one = 1;
    for (const auto& event : events) {
      const int descriptor = event.load() - 1;
      if (descriptor >= 0) [[maybe_unused]]
        const auto written = ::write(descriptor, &one, sizeof one);
    }
  }
  errno = error;
}

}  // namespace

QuitSignal::QuitSignal(std::size_t place) : event_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}, place_{place} {
  PHAROS_CHECK(event_, errno);
  events[place_].store(event_.get() + 1);
}

std::unique_ptr<QuitSignal> QuitSignal::make() {
  const std::lock_guard lock{users_mutex()};
  if (owner.exchange(::getpid()) != ::getpid()) {
    // This process is a child of fork(), and the events are its parent's.
    for (auto& event : events) event.store(0);
    users = 0;
  }
  std::size_t place = 0;
  while (place < kMax && events[place].load() != 0) ++place;
  if (place == kMax) return nullptr;
  std::unique_ptr<QuitSignal> made{new QuitSignal{place}};
  struct sigaction action {};
  ++users;
  if (::sigaction(SIGQUIT, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    action.sa_handler = &on_quit;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGQUIT, &action, nullptr);
  }
  return made;
}

QuitSignal::~QuitSignal() {
  const std::lock_guard lock{users_mutex()};
  events[place_].store(0);
  struct sigaction action {};
  if (--users == 0 && ::sigaction(SIGQUIT, nullptr, &action) == 0 && action.sa_handler == &on_quit) {
    ::signal(SIGQUIT, SIG_DFL);
  }
}

}  // namespace pharos::actors
