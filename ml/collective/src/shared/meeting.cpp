#include "shared/meeting.hpp"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include <pharos/base/check.hpp>
#include <pharos/ml/collective/failpoints.hpp>

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

constexpr Duration kSpinMin = 1us;
constexpr Duration kSpinMax = 50us;
constexpr Duration kLookTime = 100ms;  // between a waiting rank's checks that the missing ranks are alive
constexpr std::size_t kWhyMax = 480;
constexpr std::uint32_t kHere = 1;
constexpr std::uint32_t kGone = 2;
constexpr std::uint32_t kSaid = 1;  // in Shared::failed: the error has been written

std::uint64_t place_of(std::uint64_t round, Meeting::Phase phase) {
  return 4 * round + static_cast<std::uint64_t>(phase);
}

TimePoint now() {
  return std::chrono::steady_clock::now();
}

void pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen, Duration most) {
  static_assert(sizeof word == sizeof(std::uint32_t));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec time{seconds.count(), (most - seconds).count()};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

Error died_early(std::uint32_t rank) {
  return {ErrorCode::kActorDied, "rank " + std::to_string(rank) + " has died before all ranks had joined the group",
          "Connect the group again without this rank, or with another process in its place."};
}

}  // namespace

// The data that one rank publishes, in one cache line, so that a reader gets all of it at once.
struct alignas(64) Line {
  std::atomic<std::uint64_t> place;  // the latest round of this slot and its phase (place_of()); or a letter's number
  Meeting::Said said;
};
static_assert(sizeof(Line) == 64);

struct alignas(64) RankLine {
  std::atomic<std::uint32_t> is_here;  // kHere, then kGone
  std::int32_t process;                // valid once is_here is set
  Meeting::Offer offer;
  std::atomic<std::uint64_t> awaits;  // the condition that it sleeps for (say_awaited()), or 0
};

struct Meeting::Shared {
  alignas(64) std::atomic<std::uint32_t> bell;  // the futex of ranks that sleep; ring() counts it up
  std::atomic<std::uint32_t> sleepers;
  alignas(64) std::atomic<std::uint32_t> failed;  // 0, kSaid, or kSaid + 1 + a rank, which is about to write its error
  std::uint8_t code;
  char why[kWhyMax];
  RankLine rank_lines[kRanksMax];
  // First the lines of rounds, slot by slot; then those of letters; then those with the number of the last letter that
  // was taken.
  Line lines[];

  Line& line(std::uint64_t round, std::uint32_t rank, std::uint32_t ranks) {
    return lines[round % kSlots * ranks + rank];
  }
  Line& letter(std::uint32_t from, std::uint32_t to, std::uint64_t number, std::uint32_t ranks) {
    return lines[kSlots * ranks + (from * ranks + to) * kLetters + number % kLetters];
  }
  Line& taken(std::uint32_t from, std::uint32_t to, std::uint32_t ranks) {
    return lines[kSlots * ranks + kLetters * ranks * ranks + from * ranks + to];
  }
};

std::size_t Meeting::bytes_for(std::uint32_t ranks) {
  return sizeof(Shared) + (kSlots + (kLetters + 1) * ranks) * ranks * sizeof(Line);
}

Meeting::Meeting(std::byte* memory, std::uint32_t rank, std::uint32_t ranks, std::vector<std::uint32_t> names)
    : shared_{*reinterpret_cast<Shared*>(memory)},
      rank_{rank},
      ranks_{ranks},
      names_{std::move(names)},
      spin_time_{kSpinMax},
      processes_(ranks) {
  PHAROS_CHECK(rank < ranks && ranks <= kRanksMax, rank);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) == 0)
    may_spin_ = ranks <= static_cast<std::uint32_t>(CPU_COUNT(&cpus));
}

Meeting::~Meeting() = default;

Result<void> Meeting::begin(TimePoint deadline, std::span<const std::int32_t> processes) {
  shared_.rank_lines[rank_].process = ::getpid();
  shared_.rank_lines[rank_].is_here.store(kHere, std::memory_order_release);
  failpoint(failpoints::kRankHere);
  for (std::uint32_t rank = 0; rank < processes.size(); ++rank) PHAROS_TRY_VOID(watch(rank, processes[rank]));
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    PHAROS_TRY_VOID(come(rank, deadline));
    if (processes.empty()) PHAROS_TRY_VOID(watch(rank, shared_.rank_lines[rank].process));
  }
  return {};
}

Result<void> Meeting::come(std::uint32_t rank, TimePoint deadline) {
  say_awaited({.what = Awaited::What::kCome, .number = 1, .rank = rank});
  while (shared_.rank_lines[rank].is_here.load(std::memory_order_acquire) != kHere) {
    if (auto why = failure()) return *std::move(why);
    if (is_gone(rank)) return fail(has_left(name(rank), "the start of the group"));
    // Ranks that have come are checked, too: once one of them has died, the others may never come.
    for (std::uint32_t each = 0; each < ranks_; ++each) {
      if (has_died(each)) return fail(died_early(name(each)));
    }
    if (now() >= deadline) {
      return fail(Error{ErrorCode::kDeadlineExceeded,
                        "rank " + std::to_string(name(rank)) + " did not join the group in time",
                        "Check the process of this rank."});
    }
    std::this_thread::sleep_for(1ms);
  }
  say_awaited({});
  return {};
}

Result<void> Meeting::watch(std::uint32_t rank, std::int32_t process) {
  if (process == ::getpid()) return {};
  processes_[rank] = Fd{static_cast<int>(::syscall(SYS_pidfd_open, process, 0))};
  if (processes_[rank]) return {};
  // EINVAL: the kernel is just removing the process.
  if (errno == ESRCH || errno == EINVAL) return fail(died_early(name(rank)));
  return fail(Error::from_errno("looking at the process of rank " + std::to_string(name(rank)), errno));
}

bool Meeting::has_died(std::uint32_t rank, Duration patience) const {
  pollfd ended{.fd = processes_[rank].get(), .events = POLLIN, .revents = 0};
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(patience);
  return processes_[rank] && ::poll(&ended, 1, static_cast<int>(wait.count())) == 1;
}

// ---- Rounds

void Meeting::enter(std::uint64_t round, const Said& said) {
  shared_.line(round, rank_, ranks_).said = said;
  reach(round, Phase::kEntered);
}

// The rank that completes the phase wakes the others. All accesses are sequentially consistent: of two ranks that store
// at the same time, at least one sees the store of the other, so the wake-up is not missed.
void Meeting::reach(std::uint64_t round, Phase phase) {
  shared_.line(round, rank_, ranks_).place.store(place_of(round, phase), std::memory_order_seq_cst);
  if (shared_.sleepers.load(std::memory_order_seq_cst) != 0 && all_have(round, phase)) ring();
}

void Meeting::ring() {
  if (shared_.sleepers.load(std::memory_order_seq_cst) == 0) return;
  shared_.bell.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &shared_.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool Meeting::all_have(std::uint64_t round, Phase phase) const {
  return is_there({.number = round, .phase = phase});
}

Meeting::Said Meeting::said(std::uint64_t round, std::uint32_t rank) const {
  return shared_.line(round, rank, ranks_).said;
}

void Meeting::leave() {
  shared_.rank_lines[rank_].is_here.store(kGone, std::memory_order_seq_cst);
  ring();
}

bool Meeting::is_gone(std::uint32_t rank) const {
  return shared_.rank_lines[rank].is_here.load(std::memory_order_acquire) == kGone;
}

bool Meeting::has(std::uint64_t round, Phase phase, std::uint32_t rank) const {
  return shared_.line(round, rank, ranks_).place.load(std::memory_order_seq_cst) >= place_of(round, phase);
}

// ---- Letters

void Meeting::post(std::uint32_t to, std::uint64_t letter, const Said& said) {
  Line& line = shared_.letter(rank_, to, letter, ranks_);
  line.said = said;
  line.place.store(letter, std::memory_order_seq_cst);
  ring();
}

Meeting::Said Meeting::posted(std::uint32_t from, std::uint64_t letter) const {
  return shared_.letter(from, rank_, letter, ranks_).said;
}

void Meeting::take(std::uint32_t from, std::uint64_t letter) {
  shared_.taken(from, rank_, ranks_).place.store(letter, std::memory_order_seq_cst);
  ring();
}

// ---- Waiting

std::string Meeting::describe(const Awaited& awaited) const {
  if (awaited.what != Awaited::What::kPhase) return to_string(awaited.operation);
  return to_string(said(awaited.number, rank_).operation) + ", round " + std::to_string(awaited.number) + ',';
}

bool Meeting::has(const Awaited& awaited, std::uint32_t rank, std::uint32_t waiting) const {
  if (awaited.number == 0) return true;
  const auto has_come_to = [&](const Line& line) {
    return line.place.load(std::memory_order_seq_cst) >= awaited.number;
  };
  switch (awaited.what) {
    case Awaited::What::kPhase: return has(awaited.number, awaited.phase, rank);
    case Awaited::What::kLetter:
      return rank != awaited.rank || has_come_to(shared_.letter(rank, waiting, awaited.number, ranks_));
    case Awaited::What::kRoom: return rank != awaited.rank || has_come_to(shared_.taken(waiting, rank, ranks_));
    case Awaited::What::kCome: return rank != awaited.rank || shared_.rank_lines[rank].is_here.load() != 0;
  }
  return false;
}

std::optional<std::uint32_t> Meeting::missing(const Awaited& awaited, std::uint32_t waiting) const {
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (!has(awaited, rank, waiting)) return rank;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Meeting::who_is_missing(const Awaited& awaited) const {
  const auto rank = missing(awaited);
  if (!rank) return std::nullopt;
  return name(*rank);
}

// Packed into one word, so that other ranks never read half of a change.
void Meeting::say_awaited(const Awaited& awaited) {
  const std::uint64_t word = awaited.number << 16 | std::uint64_t{awaited.rank} << 8 |
                             static_cast<std::uint64_t>(awaited.what) << 4 | static_cast<std::uint64_t>(awaited.phase);
  shared_.rank_lines[rank_].awaits.store(word, std::memory_order_relaxed);
}
Meeting::Awaited Meeting::awaited_by(std::uint32_t rank) const {
  const std::uint64_t word = shared_.rank_lines[rank].awaits.load(std::memory_order_relaxed);
  return {.what = static_cast<Awaited::What>(word >> 4 & 15U),
          .number = word >> 16,
          .phase = static_cast<Phase>(word & 15U),
          .rank = static_cast<std::uint32_t>(word >> 8 & 255U)};
}

template <class F>
bool Meeting::spin(const F& is_so) {
  if (!may_spin_) return false;
  const TimePoint end = now() + spin_time_;
  do {
    for (int i = 0; i < 32; ++i) {
      if (is_so()) {
        spin_time_ = std::min(2 * spin_time_, kSpinMax);
        return true;
      }
      pause();
    }
  } while (now() < end);
  spin_time_ = std::max(spin_time_ / 2, kSpinMin);
  return false;
}

Result<bool> Meeting::wait_until(std::span<const Awaited> any, const std::function<bool()>& or_else, TimePoint when) {
  const auto is_so = [&] {
    return std::any_of(any.begin(), any.end(), [this](const Awaited& each) { return is_there(each); }) ||
           (or_else && or_else());
  };
  while (!is_so()) {
    if (shared_.failed.load(std::memory_order_acquire) != 0) return *failure();
    if (spin(is_so)) break;
    shared_.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = shared_.bell.load(std::memory_order_seq_cst);
    const bool wakes = is_so() || shared_.failed.load(std::memory_order_seq_cst) == kSaid;
    if (!wakes) {
      say_awaited(any.empty() ? Awaited{} : any.front());
      sleep_on(shared_.bell, seen, std::clamp(when - now(), Duration{1}, kLookTime));
      say_awaited({});
    }
    shared_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (wakes) continue;
    for (const Awaited& each : any) PHAROS_TRY_VOID(look_after(each));
    if (now() >= when && !is_so()) return false;
  }
  return true;
}

Result<void> Meeting::wait(std::span<const Awaited> any, TimePoint deadline) {
  for (;;) {
    PHAROS_TRY(const bool there, wait_until(any, {}, deadline));
    if (there) return {};
    blame(any.front());
  }
}

/// The missing rank may itself wait for another rank, so this follows the chain of waits to its end and names the last
/// rank. A rank that sleeps although its condition is true has been stopped: the chain ends there.
void Meeting::blame(const Awaited& awaited) {
  auto late = missing(awaited);
  if (!late) return;
  std::vector<bool> is_seen(ranks_);
  is_seen[rank_] = true;
  for (auto next = late; next && !is_seen[*next]; next = missing(awaited_by(*next), *next)) {
    late = next;
    is_seen[*next] = true;
  }
  fail(Error{ErrorCode::kDeadlineExceeded, describe(awaited) + " waits for rank " + std::to_string(name(*late)),
             "Check the process of that rank, or raise CommunicatorOptions::timeout."});
}

/// Fails if a rank for which the condition waits has left or died.
Result<void> Meeting::look_after(const Awaited& awaited) {
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    // is_gone() comes first, so that has() sees all that the rank has published before it left.
    if (is_gone(rank) && !has(awaited, rank)) return fail(has_left(name(rank), describe(awaited)));
    if (!has_died(rank) || has(awaited, rank)) continue;
    return fail(ml::has_died(name(rank), describe(awaited)));
  }
  return {};
}

// ---- Failing

Error Meeting::fail(const Error& why) {
  std::uint32_t none = 0;
  if (shared_.failed.compare_exchange_strong(none, kSaid + 1 + rank_, std::memory_order_acq_rel)) {
    shared_.code = static_cast<std::uint8_t>(why.code());
    const std::string text = told(why);
    std::memcpy(shared_.why, text.data(), std::min(text.size(), kWhyMax - 1));
    shared_.failed.store(kSaid, std::memory_order_seq_cst);
    ring();
  }
  return *failure();
}

Result<void> Meeting::check() {
  if (auto why = failure()) return *std::move(why);
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (has_died(rank) && !is_gone(rank)) return fail(ml::has_died(name(rank), "the group"));
  }
  return {};
}

std::optional<Error> Meeting::failure() const {
  std::uint32_t state = shared_.failed.load(std::memory_order_acquire);
  if (state == 0) return std::nullopt;
  const TimePoint patience = now() + 1s;  // the rank that writes the error may have died meanwhile, or been stopped
  for (; state != kSaid; state = shared_.failed.load(std::memory_order_acquire)) {
    const std::uint32_t who = std::min(state - kSaid - 1, ranks_ - 1);
    if (has_died(who)) return ml::has_died(name(who), "the report of the group's failure");
    if (now() >= patience) {
      return Error{ErrorCode::kUnavailable,
                   "the group has failed, and the rank that noticed the failure did not write the reason in time",
                   "Look for a rank that is stopped."};
    }
    std::this_thread::yield();
  }
  return error_of(shared_.code, {shared_.why, ::strnlen(shared_.why, kWhyMax)});
}

// ---- Offers

void Meeting::offer(const Offer& offer) {
  shared_.rank_lines[rank_].offer = offer;
}

Meeting::Offer Meeting::offer_of(std::uint32_t rank) const {
  return shared_.rank_lines[rank].offer;
}

}  // namespace pharos::ml
