#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include <pharos/base/check.hpp>
#include <pharos/base/thread_local.hpp>
#include <pharos/net/reactor.hpp>

#include "system_calls.hpp"

namespace pharos::net {
namespace {

// Tokens below kFirstSlotToken are the reactor's own descriptors. The other tokens are
// (generation << 32 | slot) + kFirstSlotToken.
constexpr std::uint64_t kPostToken = 0;
constexpr std::uint64_t kInterruptToken = 1;
constexpr std::uint64_t kTimerToken = 2;
constexpr std::uint64_t kFirstSlotToken = 16;

constexpr Duration kSpinTime = std::chrono::microseconds{30};  // about the cost of a wake-up between two CPUs
// After a spin that found an event, other threads stay out of the set for kHotTime, unless a callback holds the
// spinning thread up for longer than kTakeOverTime. Threads that stay out check again after a pause, which doubles from
// kPauseMin to kPauseMax.
constexpr Duration kHotTime = std::chrono::milliseconds{1};
constexpr Duration kTakeOverTime = std::chrono::microseconds{50};
constexpr Duration kPauseMin = std::chrono::microseconds{50};
constexpr Duration kPauseMax = std::chrono::milliseconds{1};
constexpr std::uint32_t kSpinsFailedMax = 7;  // after so many failed spins in a row, one wait of 128 spins

// The address of this variable identifies the thread.
PHAROS_THREAD_LOCAL const char this_thread = 0;

// The reactor whose poll_one() runs on this thread. Work that this thread posts inside poll_one() needs no wake-up,
// because poll_one() ends by running the strand.
PHAROS_THREAD_LOCAL const void* polling_here = nullptr;

std::uint64_t token_of(std::uint32_t generation, std::uint32_t slot) {
  return ((std::uint64_t{generation} << 32) | slot) + kFirstSlotToken;
}

timespec to_timespec(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  return {.tv_sec = static_cast<time_t>(seconds.count()), .tv_nsec = static_cast<long>((duration - seconds).count())};
}

void drain(int fd) {
  std::uint64_t ignored = 0;
  // If another thread has drained the descriptor first, the read fails, which does no harm.
  [[maybe_unused]] const auto n = ::read(fd, &ignored, sizeof ignored);
}

}  // namespace

Reactor::Reactor()
    : epoll_{::epoll_create1(EPOLL_CLOEXEC)},
      post_event_{std::make_shared<const Fd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))},
      interrupt_event_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
      timer_event_{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)} {
  PHAROS_CHECK(epoll_ && *post_event_ && interrupt_event_ && timer_event_, errno);
  add_internal(post_event_->get(), EPOLLIN | EPOLLET, kPostToken);
  add_internal(interrupt_event_.get(), EPOLLIN, kInterruptToken);
  add_internal(timer_event_.get(), EPOLLIN | EPOLLET, kTimerToken);
}

Reactor::~Reactor() = default;

void Reactor::add_internal(int fd, std::uint32_t events, std::uint64_t token) {
  epoll_event event{.events = events, .data = {.u64 = token}};
  PHAROS_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, errno);
}

void Reactor::watch(int fd, std::uint32_t events, std::shared_ptr<Watcher> watcher) {
  PHAROS_CHECK(fd >= 0, fd);
  const std::lock_guard lock{watch_mutex_};
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  const auto index = static_cast<std::size_t>(fd);
  if (slot_of_fd_.size() <= index) slot_of_fd_.resize(index + 1);
  slot_of_fd_[index] = slot;
  slots_[slot].fd = fd;
  slots_[slot].watcher = std::move(watcher);
  epoll_event event{.events = events | EPOLLET | EPOLLRDHUP, .data = {.u64 = token_of(slots_[slot].generation, slot)}};
  PHAROS_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, errno, fd);
}

std::optional<std::uint32_t> Reactor::slot_of(int fd) const {
  const auto index = static_cast<std::size_t>(fd);
  if (fd < 0 || index >= slot_of_fd_.size()) return std::nullopt;
  const std::uint32_t slot = slot_of_fd_[index];
  return slots_[slot].fd == fd ? std::optional{slot} : std::nullopt;
}

void Reactor::change(int fd, std::uint32_t events) {
  const std::lock_guard lock{watch_mutex_};
  const auto found = slot_of(fd);
  if (!found) return;  // unwatch() came first
  const std::uint32_t slot = *found;
  epoll_event event{.events = events | EPOLLET | EPOLLRDHUP, .data = {.u64 = token_of(slots_[slot].generation, slot)}};
  PHAROS_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0, errno, fd);
}

void Reactor::unwatch(int fd) {
  std::shared_ptr<Watcher> last;  // destroyed without the lock, because its destructor may call this reactor
  const std::lock_guard lock{watch_mutex_};
  const auto found = slot_of(fd);
  if (!found) return;
  const std::uint32_t slot = *found;
  if (epoll_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  slots_[slot].fd = -1;
  ++slots_[slot].generation;
  last = std::move(slots_[slot].watcher);
  free_slots_.push_back(slot);
}

std::shared_ptr<Reactor::Watcher> Reactor::find(std::uint64_t token) {
  const auto slot = static_cast<std::uint32_t>(token - kFirstSlotToken);
  const auto generation = static_cast<std::uint32_t>((token - kFirstSlotToken) >> 32);
  const std::lock_guard lock{watch_mutex_};
  if (slot >= slots_.size() || slots_[slot].generation != generation) return nullptr;
  return slots_[slot].watcher;
}

void Reactor::poll_one(async::Deadline deadline, Poller role) {
  if (gives_way(role)) return;
  epoll_event event{};
  const bool leads = role == Poller::kLeader;
  if (leads) leader_waits_.store(true);
  const bool interrupted = leads && interrupted_.load() && interrupted_.exchange(false);
  const bool came = !interrupted && (spin(event, role, deadline) || sleep(event, deadline));
  if (leads) leader_waits_.store(false);
  if (!came) return;
  handle(event, role);
  run_strand();
}

bool Reactor::sleep(epoll_event& event, async::Deadline deadline) {
  int n = 0;
  if (deadline.is_never()) {
    n = wait_for_events(epoll_.get(), &event, 1, -1);
  } else {
    const Duration left = deadline.left(now());
    const timespec exactly = to_timespec(left);
    n = ::epoll_pwait2(epoll_.get(), &event, 1, &exactly, nullptr);
    if (n < 0 && errno == ENOSYS) {  // valgrind does not implement this call
      const auto rounded =
          std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(left, std::chrono::hours{1}));
      n = wait_for_events(epoll_.get(), &event, 1, static_cast<int>(rounded.count()));
    }
  }
  PHAROS_CHECK(n >= 0 || errno == EINTR, errno);
  return n > 0;
}

void Reactor::handle(const epoll_event& event, Poller role) {
  const void* const outer = std::exchange(polling_here, this);
  switch (event.data.u64) {
    case kPostToken: break;
    case kInterruptToken:
      if (role == Poller::kLeader) {
        drain(interrupt_event_.get());
      } else {
        leave_to_leader();
      }
      break;
    case kTimerToken: {
      drain(timer_event_.get());
      const std::lock_guard lock{strand_mutex_};
      armed_for_ = TimePoint::max();  // even if the timer that the descriptor was armed for has been cancelled
      strand_work_.store(true, std::memory_order_release);
      break;
    }
    default:
      if (const auto watcher = find(event.data.u64)) {
        const bool hot = hot_thread_.load(std::memory_order_relaxed) == &this_thread;
        if (hot) in_callback_since_.store(now(), std::memory_order_relaxed);
        watcher->on_ready(event.events);
        if (hot) in_callback_since_.store(TimePoint::max(), std::memory_order_relaxed);
      }
  }
  polling_here = outer;
}

// Returns true, after a pause, if another thread spins or found an event by spinning a moment ago. The caller then
// leaves poll_one() and tries again.
bool Reactor::gives_way(Poller role) {
  thread_local Duration pause = kPauseMin;
  if (role == Poller::kLeader || hot_thread_.load(std::memory_order_relaxed) == &this_thread) return false;
  const TimePoint time = now();
  const TimePoint since = in_callback_since_.load(std::memory_order_relaxed);
  const bool held_up = since != TimePoint::max() && time - since > kTakeOverTime;
  if (held_up || time > hot_until_.load(std::memory_order_relaxed)) {
    pause = kPauseMin;
    return false;
  }
  const timespec duration = to_timespec(pause);
  ::nanosleep(&duration, nullptr);
  pause = std::min(pause * 2, kPauseMax);
  return true;
}

bool Reactor::spin(epoll_event& event, Poller role, async::Deadline deadline) {
  if (role == Poller::kBackground) return false;
  if (const std::uint32_t skip = spins_to_skip_.load(std::memory_order_relaxed); skip != 0) {
    spins_to_skip_.store(skip - 1, std::memory_order_relaxed);
    return false;
  }
  hot_thread_.store(&this_thread, std::memory_order_relaxed);
  const TimePoint end = std::min(now() + kSpinTime, deadline.when());
  do {
    const int n = wait_for_events(epoll_.get(), &event, 1, 0);
    const TimePoint time = now();
    if (n == 1) {
      spins_failed_.store(0, std::memory_order_relaxed);
      hot_until_.store(time + kHotTime, std::memory_order_relaxed);
      return true;
    }
    if (time >= end) break;
  } while (true);
  const std::uint32_t failed = std::min(spins_failed_.load(std::memory_order_relaxed) + 1, kSpinsFailedMax);
  spins_failed_.store(failed, std::memory_order_relaxed);
  spins_to_skip_.store((1U << failed) - 1, std::memory_order_relaxed);
  return false;
}

// Called on a thread that is not the leader, when it gets the interrupt event. The event is level-triggered and would
// wake threads again and again until a leader drains it. If no leader waits, this function therefore turns the event
// into a flag, which the next leader reads before it waits.
void Reactor::leave_to_leader() {
  if (!leader_waits_.load()) {
    interrupted_.store(true);
    drain(interrupt_event_.get());
    if (!leader_waits_.load()) return;
    signal(interrupt_event_.get());  // a leader has come meanwhile, and may have read the flag before it was set
  }
  ::sched_yield();
}

void Reactor::interrupt() {
  signal(interrupt_event_.get());
}

void Reactor::signal(int fd) {
  const std::uint64_t one = 1;
  // The write can only fail when the counter is full, and then the descriptor is readable anyway.
  [[maybe_unused]] const auto n = ::write(fd, &one, sizeof one);
}

const void* Reactor::begin_detour() {
  const void* const left = std::exchange(polling_here, nullptr);
  if (left == nullptr || !strand_work_.load(std::memory_order_acquire)) return left;
  const std::lock_guard lock{strand_mutex_};
  if (!posted_.empty() && !strand_runs_ && post_event_ != nullptr && !std::exchange(woken_, true)) {
    signal(post_event_->get());
  }
  return left;
}

void Reactor::end_detour(const void* left) {
  polling_here = left;
}

bool Reactor::wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, async::Deadline deadline,
                   async::UniqueFunction<bool()> done) {
  const void* const left = begin_detour();
  const bool came = Executor::wait(lock, changed, deadline, std::move(done));
  end_detour(left);
  return came;
}

void Reactor::post(async::Callback work) {
  std::shared_ptr<const Fd> wake;  // outlives this reactor, which the work may end as soon as the lock is free
  {
    const std::lock_guard lock{strand_mutex_};
    // The condition is not "the queue was empty": work that is queued already may wait for the end of the callback that
    // posted it, but this work must not wait for that.
    if (polling_here != this && !strand_runs_ && !std::exchange(woken_, true)) wake = post_event_;
    posted_.push_back(std::move(work));
    strand_work_.store(true, std::memory_order_release);
  }
  if (wake != nullptr) signal(wake->get());
}

async::TimerId Reactor::run_at(TimePoint when, async::Callback work) {
  std::unique_lock lock{strand_mutex_};
  const async::TimerId timer = timers_.add(when, std::move(work));
  arm(lock);
  return timer;
}

bool Reactor::cancel(async::TimerId timer) {
  async::Callback work;
  {
    const std::lock_guard lock{strand_mutex_};
    work = timers_.cancel(timer);
  }
  return static_cast<bool>(work);
}

// A cancelled timer leaves the descriptor armed. One spurious wake-up costs less than a system call for each deadline
// that does not expire.
void Reactor::arm(std::unique_lock<std::mutex>& lock) {
  PHAROS_CHECK(lock.owns_lock());
  const auto next = timers_.next();
  if (!next || *next >= armed_for_) return;
  armed_for_ = *next;
  const Duration since_epoch = std::max(next->time_since_epoch(), Duration{1});
  const itimerspec spec{.it_interval = {}, .it_value = to_timespec(since_epoch)};
  PHAROS_CHECK(::timerfd_settime(timer_event_.get(), TFD_TIMER_ABSTIME, &spec, nullptr) == 0, errno);
}

void Reactor::run_strand() {
  // Checked without the lock, because most events are calls, which post no work.
  if (!strand_work_.load(std::memory_order_acquire)) return;
  while (run_one_of_strand()) {
  }
}

bool Reactor::run_one_of_strand() {
  async::Callback work;
  {
    std::unique_lock lock{strand_mutex_};
    if (strand_runs_) return false;  // the thread that runs the strand checks for more work before it leaves
    strand_work_.store(false, std::memory_order_relaxed);
    woken_ = false;
    if (!posted_.empty()) {
      work = std::move(posted_.front());
      posted_.pop_front();
    } else {
      if (timers_.empty()) return false;
      const TimePoint time = now();
      work = timers_.take_due(time);
      if (armed_for_ <= time) armed_for_ = TimePoint::max();
      arm(lock);
      if (!work) return false;
    }
    strand_runs_ = true;
  }
  const void* const outer = std::exchange(polling_here, this);
  work();
  work = {};
  polling_here = outer;
  const std::lock_guard lock{strand_mutex_};
  strand_runs_ = false;
  return true;
}

void Reactor::abandon_after_fork() {
  for (const Slot& slot : slots_) {
    if (slot.fd >= 0) ::close(slot.fd);
  }
  epoll_.reset();
  post_event_.reset();
  interrupt_event_.reset();
  timer_event_.reset();
}

}  // namespace pharos::net
