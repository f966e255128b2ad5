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

// The tokens of the reactor's own descriptors.
constexpr std::uint64_t kPostToken = 0;
constexpr std::uint64_t kInterruptToken = 1;
constexpr std::uint64_t kTimerToken = 2;

constexpr Duration kSpinTime = std::chrono::microseconds{30};  // about the cost of a wake-up between two CPUs
// Threads that stay out of the set while another one spins check again after a pause, which doubles from kPauseMin to
// kPauseMax.
constexpr Duration kPauseMin = std::chrono::microseconds{50};
constexpr Duration kPauseMax = std::chrono::milliseconds{1};

// The reactor whose poll_one() runs on this thread. Work that this thread posts inside poll_one() needs no wake-up,
// because poll_one() ends by running the strand.
PHAROS_THREAD_LOCAL const void* polling_here = nullptr;

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
    : post_event_{std::make_shared<const Fd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))},
      interrupt_event_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
      timer_event_{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)} {
  PHAROS_CHECK(*post_event_ && interrupt_event_ && timer_event_, errno);
  set_.add(post_event_->get(), EPOLLIN | EPOLLET, kPostToken);
  set_.add(interrupt_event_.get(), EPOLLIN, kInterruptToken);
  set_.add(timer_event_.get(), EPOLLIN | EPOLLET, kTimerToken);
}

Reactor::~Reactor() = default;

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
    n = wait_for_events(set_.fd(), &event, 1, -1);
  } else {
    const Duration left = deadline.left(now());
    const timespec exactly = to_timespec(left);
    n = ::epoll_pwait2(set_.fd(), &event, 1, &exactly, nullptr);
    if (n < 0 && errno == ENOSYS) {  // valgrind does not implement this call
      const auto rounded =
          std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(left, std::chrono::hours{1}));
      n = wait_for_events(set_.fd(), &event, 1, static_cast<int>(rounded.count()));
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
      if (const auto watcher = set_.find(event.data.u64)) {
        const bool hot = spins_.is_hot();
        if (hot) spins_.begin_callback(now());
        watcher->on_ready(event.events);
        if (hot) spins_.end_callback();
      }
  }
  polling_here = outer;
}

// Returns true, after a pause, if another thread spins or found an event by spinning a moment ago. The caller then
// leaves poll_one() and tries again.
bool Reactor::gives_way(Poller role) {
  thread_local Duration pause = kPauseMin;
  if (role == Poller::kLeader || spins_.is_hot()) return false;
  if (!spins_.keeps_others_out(now())) {
    pause = kPauseMin;
    return false;
  }
  const timespec duration = to_timespec(pause);
  ::nanosleep(&duration, nullptr);
  pause = std::min(pause * 2, kPauseMax);
  return true;
}

bool Reactor::spin(epoll_event& event, Poller role, async::Deadline deadline) {
  if (role == Poller::kBackground || !spins_.begin()) return false;
  const TimePoint end = std::min(now() + kSpinTime, deadline.when());
  do {
    const int n = wait_for_events(set_.fd(), &event, 1, 0);
    const TimePoint time = now();
    if (n == 1) {
      spins_.found(time);
      return true;
    }
    if (time >= end) break;
  } while (true);
  spins_.found_nothing();
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
  set_.abandon_after_fork();
  post_event_.reset();
  interrupt_event_.reset();
  timer_event_.reset();
}

}  // namespace pharos::net
