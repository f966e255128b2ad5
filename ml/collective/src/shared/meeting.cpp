#include "shared/meeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <pharos/base/check.hpp>
#include <pharos/ml/collective/failpoints.hpp>

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLookTime = 100ms;  // between a waiting rank's checks that the missing ranks are alive
constexpr std::uint32_t kHere = 1;
constexpr std::uint32_t kGone = 2;

std::uint64_t place_of(std::uint64_t round, Meeting::Phase phase) {
  return 4 * round + static_cast<std::uint64_t>(phase);
}

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

struct alignas(64) RankLine {
  std::atomic<std::uint32_t> is_here;  // kHere, then kGone
  std::int32_t process;                // valid once is_here is set
  Meeting::MemoryHandle memory;
  std::atomic<std::uint64_t> awaits;  // the condition that it sleeps for (say_awaited()), or 0
};

struct Meeting::Shared {
  Bell::Shared bell;
  SharedFailure::Shared failure;
  RankLine rank_lines[kRanksMax];
  // First the lines of rounds, slot by slot; then those of letters.
  Line lines[];

  Line& line(std::uint64_t round, std::uint32_t rank, std::uint32_t ranks) {
    return lines[round % kSlots * ranks + rank];
  }
};

std::size_t Meeting::bytes_for(std::uint32_t ranks) {
  return sizeof(Shared) + (kSlots * ranks + LetterLines::lines_for(ranks)) * sizeof(Line);
}

Meeting::Meeting(std::byte* memory, std::uint32_t rank, std::uint32_t ranks, std::vector<std::uint32_t> names)
    : shared_{*reinterpret_cast<Shared*>(memory)},
      neighbours_{rank, ranks, std::move(names)},
      bell_{shared_.bell, ranks},
      failure_{shared_.failure, neighbours_},
      letters_{shared_.lines + kSlots * ranks, bell_, rank, ranks} {
  PHAROS_CHECK(rank < ranks && ranks <= kRanksMax, rank);
}

Meeting::~Meeting() = default;

Result<void> Meeting::begin(TimePoint deadline, std::span<const std::int32_t> processes) {
  shared_.rank_lines[rank()].process = ::getpid();
  shared_.rank_lines[rank()].is_here.store(kHere, std::memory_order_release);
  failpoint(failpoints::kRankHere);
  for (std::uint32_t each = 0; each < processes.size(); ++each) PHAROS_TRY_VOID(watch(each, processes[each]));
  for (std::uint32_t each = 0; each < ranks(); ++each) {
    PHAROS_TRY_VOID(come(each, deadline));
    if (processes.empty()) PHAROS_TRY_VOID(watch(each, shared_.rank_lines[each].process));
  }
  return {};
}

Result<void> Meeting::come(std::uint32_t rank, TimePoint deadline) {
  say_awaited({.what = Awaited::What::kCome, .number = 1, .rank = rank});
  while (shared_.rank_lines[rank].is_here.load(std::memory_order_acquire) != kHere) {
    if (auto why = failure()) return *std::move(why);
    if (is_gone(rank)) return fail(has_left(neighbours_.name(rank), "the start of the group"));
    // Ranks that have come are checked, too: once one of them has died, the others may never come.
    for (std::uint32_t each = 0; each < ranks(); ++each) {
      if (neighbours_.has_died(each)) return fail(neighbours_.died_early(each));
    }
    if (now() >= deadline) {
      return fail(Error{ErrorCode::kDeadlineExceeded,
                        "rank " + std::to_string(neighbours_.name(rank)) + " did not join the group in time",
                        "Check the process of this rank."});
    }
    std::this_thread::sleep_for(1ms);
  }
  say_awaited({});
  return {};
}

Result<void> Meeting::watch(std::uint32_t rank, std::int32_t process) {
  if (const auto watched = neighbours_.watch(rank, process); !watched) return fail(watched.error());
  return {};
}

// ---- Rounds

void Meeting::enter(std::uint64_t round, const Said& said) {
  shared_.line(round, rank(), ranks()).said = said;
  reach(round, Phase::kEntered);
}

// The rank that completes the phase wakes the others.
void Meeting::reach(std::uint64_t round, Phase phase) {
  shared_.line(round, rank(), ranks()).place.store(place_of(round, phase), std::memory_order_seq_cst);
  if (bell_.has_sleepers() && all_have(round, phase)) bell_.ring();
}

bool Meeting::all_have(std::uint64_t round, Phase phase) const {
  return is_there({.number = round, .phase = phase});
}

Said Meeting::said(std::uint64_t round, std::uint32_t rank) const {
  return shared_.line(round, rank, ranks()).said;
}

Result<void> Meeting::check_agreement(std::uint64_t round) {
  const Said own = said(round, rank());
  for (std::uint32_t each = 0; each < ranks(); ++each) {
    const Said its = said(round, each);
    if (its.operation != own.operation) {
      return fail(disagreement(neighbours_.name(rank()), own.operation, neighbours_.name(each), its.operation,
                               "in round " + std::to_string(round)));
    }
    if (its.window != own.window || its.offset != own.offset) {
      const auto who = [&](std::uint32_t which) { return "rank " + std::to_string(neighbours_.name(which)); };
      return fail(Error{ErrorCode::kInvalidArgument,
                        "ranks passed different memory to " + to_string(own.operation) + ": " + who(rank()) + " and " +
                            who(each) + " do not use the same part of the same Buffer",
                        "All ranks must use the same part of the same Buffer, or none of them may use a Buffer."});
    }
  }
  return {};
}

void Meeting::leave() {
  shared_.rank_lines[rank()].is_here.store(kGone, std::memory_order_seq_cst);
  bell_.ring();
}

bool Meeting::is_gone(std::uint32_t rank) const {
  return shared_.rank_lines[rank].is_here.load(std::memory_order_acquire) == kGone;
}

// ---- Waiting

std::string Meeting::describe(const Awaited& awaited) const {
  if (awaited.what != Awaited::What::kPhase) return to_string(awaited.operation);
  return to_string(said(awaited.number, rank()).operation) + ", round " + std::to_string(awaited.number) + ',';
}

/// Returns whether `rank` has done what the rank `waiting` waits for.
bool Meeting::has(const Awaited& awaited, std::uint32_t rank, std::uint32_t waiting) const {
  if (awaited.number == 0) return true;
  switch (awaited.what) {
    case Awaited::What::kPhase:
      return shared_.line(awaited.number, rank, ranks()).place.load(std::memory_order_seq_cst) >=
             place_of(awaited.number, awaited.phase);
    case Awaited::What::kLetter: return rank != awaited.rank || letters_.is_posted(rank, waiting, awaited.number);
    case Awaited::What::kTaken: return rank != awaited.rank || letters_.is_taken(waiting, rank, awaited.number);
    case Awaited::What::kCome: return rank != awaited.rank || shared_.rank_lines[rank].is_here.load() != 0;
  }
  return false;
}

std::optional<std::uint32_t> Meeting::missing(const Awaited& awaited, std::uint32_t waiting) const {
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (!has(awaited, rank, waiting)) return rank;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Meeting::who_is_missing(const Awaited& awaited) const {
  const auto which = missing(awaited, rank());
  if (!which) return std::nullopt;
  return neighbours_.name(*which);
}

// Packed into one word, so that other ranks never read half of a change.
void Meeting::say_awaited(const Awaited& awaited) {
  const std::uint64_t word = awaited.number << 16 | std::uint64_t{awaited.rank} << 8 |
                             static_cast<std::uint64_t>(awaited.what) << 4 | static_cast<std::uint64_t>(awaited.phase);
  shared_.rank_lines[rank()].awaits.store(word, std::memory_order_relaxed);
}
Meeting::Awaited Meeting::awaited_by(std::uint32_t rank) const {
  const std::uint64_t word = shared_.rank_lines[rank].awaits.load(std::memory_order_relaxed);
  return {.what = static_cast<Awaited::What>(word >> 4 & 15U),
          .number = word >> 16,
          .phase = static_cast<Phase>(word & 15U),
          .rank = static_cast<std::uint32_t>(word >> 8 & 255U)};
}

Result<bool> Meeting::wait_until(std::span<const Awaited> any, const std::function<bool()>& or_else, TimePoint when) {
  const auto is_so = [&] {
    return std::any_of(any.begin(), any.end(), [this](const Awaited& each) { return is_there(each); }) ||
           (or_else && or_else());
  };
  while (!is_so()) {
    if (failure_.is_there()) return *failure();
    if (bell_.spin(is_so)) break;
    say_awaited(any.empty() ? Awaited{} : any.front());
    const bool wakes = bell_.sleep_unless([&] { return is_so() || failure_.is_written(); },
                                          std::clamp(when - now(), Duration{1}, kLookTime));
    say_awaited({});
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
  auto late = missing(awaited, rank());
  if (!late) return;
  std::vector<bool> is_seen(ranks());
  is_seen[rank()] = true;
  for (auto next = late; next && !is_seen[*next]; next = missing(awaited_by(*next), *next)) {
    late = next;
    is_seen[*next] = true;
  }
  fail(Error{ErrorCode::kDeadlineExceeded,
             describe(awaited) + " waits for rank " + std::to_string(neighbours_.name(*late)),
             "Check the process of that rank, or raise CommunicatorOptions::timeout."});
}

/// Fails if a rank for which the condition waits has left or died.
Result<void> Meeting::look_after(const Awaited& awaited) {
  const auto has_done = [&](std::uint32_t each) { return has(awaited, each, rank()); };
  for (std::uint32_t each = 0; each < ranks(); ++each) {
    // is_gone() comes first, so that has() sees all that the rank has published before it left.
    if (is_gone(each) && !has_done(each)) return fail(has_left(neighbours_.name(each), describe(awaited)));
    if (!neighbours_.has_died(each) || has_done(each)) continue;
    return fail(has_died(neighbours_.name(each), describe(awaited)));
  }
  return {};
}

// ---- Failing

Error Meeting::fail(const Error& why) {
  if (failure_.write(why)) bell_.ring();
  return *failure();
}

Result<void> Meeting::check() {
  if (auto why = failure()) return *std::move(why);
  for (std::uint32_t each = 0; each < ranks(); ++each) {
    if (neighbours_.has_died(each) && !is_gone(each)) return fail(has_died(neighbours_.name(each), "the group"));
  }
  return {};
}

// ---- Memory

void Meeting::publish_memory(const MemoryHandle& handle) {
  shared_.rank_lines[rank()].memory = handle;
}

Meeting::MemoryHandle Meeting::memory_of(std::uint32_t rank) const {
  return shared_.rank_lines[rank].memory;
}

}  // namespace pharos::ml
