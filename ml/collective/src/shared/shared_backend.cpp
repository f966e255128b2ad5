#include "shared/shared_backend.hpp"

#include <unistd.h>

#include <utility>

#include <pharos/async/deadline.hpp>
#include <pharos/ml/collective/failpoints.hpp>

namespace pharos::ml {
namespace {

using Kind = Operation::Kind;
using Phase = Meeting::Phase;

TimePoint after(Duration time) {
  return Deadline::in(time).when();
}

}  // namespace

// ---- Making

Result<std::unique_ptr<SharedBackend>> SharedBackend::make(Mapping shared, std::uint32_t rank, std::uint32_t ranks,
                                                           Duration time, std::span<const std::int32_t> processes) {
  std::unique_ptr<SharedBackend> backend{new SharedBackend{std::move(shared), nullptr, rank, ranks, {}}};
  PHAROS_TRY_VOID(backend->meet(time, processes));
  return backend;
}

Result<std::unique_ptr<SharedBackend>> SharedBackend::make(std::shared_ptr<ThreadMemory> shared, std::uint32_t rank,
                                                           std::uint32_t ranks, Duration time) {
  std::unique_ptr<SharedBackend> backend{new SharedBackend{Mapping{}, std::move(shared), rank, ranks, {}}};
  PHAROS_TRY_VOID(backend->meet(time, {}));
  return backend;
}

SharedBackend::SharedBackend(Mapping shared, std::uint32_t rank, std::vector<std::uint32_t> names)
    : SharedBackend{std::move(shared), nullptr, rank, static_cast<std::uint32_t>(names.size()), names} {}

SharedBackend::SharedBackend(std::shared_ptr<ThreadMemory> shared, std::uint32_t rank, std::vector<std::uint32_t> names)
    : SharedBackend{Mapping{}, std::move(shared), rank, static_cast<std::uint32_t>(names.size()), names} {}

SharedBackend::SharedBackend(Mapping shared, std::shared_ptr<ThreadMemory> threads, std::uint32_t rank,
                             std::uint32_t ranks, std::vector<std::uint32_t> names)
    : shared_{std::move(shared)},
      threads_{std::move(threads)},
      staging_sets_{names.empty() ? std::size_t{1} : std::size_t{2}},
      meeting_{threads_ == nullptr ? shared_.memory() : threads_->meeting(), rank, ranks, names},
      windows_{meeting_, threads_},
      rounds_{meeting_, windows_, staging_sets_},
      mail_{meeting_} {}

// The first window has the staging buffers, and then the buffers of letters.
Result<void> SharedBackend::meet(Duration time, std::span<const std::int32_t> processes) {
  PHAROS_TRY_VOID(meeting_.begin(after(time), processes));
  const std::size_t staging = Rounds::staging_bytes(staging_sets_);
  PHAROS_TRY_VOID(allocate(staging + Mail::buffer_bytes(ranks()), time));
  std::vector<std::byte*> letters;
  for (std::byte* const each : windows_.places(Rounds::kStagingWindow)) letters.push_back(each + staging);
  mail_.use(std::move(letters));
  return {};
}

SharedBackend::~SharedBackend() {
  meeting_.leave();
}

// ---- Memory

Result<std::byte*> SharedBackend::allocate(std::size_t bytes, Duration time) {
  auto piece = windows_.make_piece(bytes);
  if (!piece) return meeting_.fail(piece.error());
  std::byte* const memory = piece->memory;
  PHAROS_TRY_VOID(exchange_memory({.kind = Kind::kAllocate, .count = bytes}, piece->handle(), time,
                                  [&] { return windows_.add_window(*piece); }));
  return memory;
}

Result<std::byte*> SharedBackend::allocate_for_all(std::size_t bytes, Duration time) {
  Fd file;
  if (rank() == 0) {
    auto made = windows_.make_file_for_all(bytes);
    if (!made) return meeting_.fail(made.error());
    file = *std::move(made);
  }
  const Meeting::MemoryHandle handle{.pid = ::getpid(), .descriptor = file.get()};
  std::byte* memory = nullptr;
  PHAROS_TRY_VOID(exchange_memory({.kind = Kind::kAllocateForAll, .count = bytes}, handle, time, [&]() -> Result<void> {
    PHAROS_TRY(memory, windows_.map_for_all(file, bytes));
    return {};
  }));
  return memory;
}

Result<void> SharedBackend::exchange_memory(const Operation& operation, const Meeting::MemoryHandle& memory,
                                            Duration time, const std::function<Result<void>()>& map) {
  while (const auto oldest = rounds_.oldest()) PHAROS_TRY_VOID(finish(*oldest, time));
  // Computed only now: the earlier operations may have taken longer than `time`, although no rank is late.
  const TimePoint deadline = after(time);
  const std::uint64_t round = rounds_.take_round();
  if (round > Meeting::kSlots) PHAROS_TRY_VOID(wait_for(round - Meeting::kSlots, Phase::kLeft, deadline));
  meeting_.publish_memory(memory);
  failpoint(failpoints::kMemoryOffered);
  meeting_.enter(round, {.operation = operation});
  PHAROS_TRY_VOID(wait_for(round, Phase::kEntered, deadline));
  PHAROS_TRY_VOID(meeting_.check_agreement(round));
  if (const auto mapped = map(); !mapped) return meeting_.fail(mapped.error());
  failpoint(failpoints::kMemoryMapped);
  meeting_.reach(round, Phase::kReduced);
  PHAROS_TRY_VOID(wait_for(round, Phase::kReduced, deadline));
  meeting_.reach(round, Phase::kLeft);
  return {};
}

/// Waits until all ranks have reached the phase. Messages continue meanwhile: another rank may need one before it comes
/// here.
Result<void> SharedBackend::wait_for(std::uint64_t round, Phase phase, TimePoint deadline) {
  const Meeting::Awaited awaited{.number = round, .phase = phase};
  for (;;) {
    if (meeting_.is_there(awaited)) return {};
    if (auto why = advance_all()) return *std::move(why);
    std::vector<Meeting::Awaited> any{awaited};
    mail_.add_awaited(any);
    PHAROS_TRY_VOID(meeting_.wait(any, deadline));
  }
}

bool SharedBackend::works_on(std::span<const std::byte> memory) const {
  return memory.size() > RoundOperation::kOneShotMax && windows_.window_of(memory.data(), memory.size()) != 0;
}

// ---- Operations

std::shared_ptr<detail::Work> SharedBackend::begin(const detail::Step& step, const detail::Places& places,
                                                   bool is_held) {
  std::shared_ptr<detail::Work> work;
  if (step.operation.kind == Kind::kMessage) {
    work = mail_.begin(step, places);
  } else {
    work = rounds_.begin(step, places, is_held);
  }
  advance_all();
  return work;
}

void SharedBackend::release(detail::Work& work) {
  static_cast<RoundOperation&>(work).is_held = false;
}

bool SharedBackend::has_ended(const detail::Work& work) {
  return static_cast<const SharedTask&>(work).ended;
}

std::optional<Error> SharedBackend::advance_all() {
  if (!failed_) failed_ = meeting_.failure();
  if (!failed_) {
    if (const auto done = rounds_.advance(); !done) failed_ = done.error();
  }
  if (!failed_) {
    if (const auto done = mail_.advance(); !done) failed_ = done.error();
  }
  if (failed_) {
    rounds_.drop();
    mail_.drop();
  }
  return failed_;
}

Result<bool> SharedBackend::advance(detail::Work& work) {
  const auto& task = static_cast<const SharedTask&>(work);
  if (task.ended) return true;
  if (auto why = advance_all(); why && !task.ended) return *std::move(why);
  return task.ended;
}

Result<void> SharedBackend::finish(detail::Work& work, Duration time) {
  const auto& task = static_cast<const SharedTask&>(work);
  const TimePoint deadline = after(time);
  for (;;) {
    const auto why = advance_all();
    if (task.ended) return {};
    if (why) return *why;
    if (const auto there = meeting_.wait(awaited_by(task), deadline); !there) failed_ = there.error();
  }
}

// ---- Waiting

void SharedBackend::tell_news() {
  news_.fetch_add(1, std::memory_order_seq_cst);
  meeting_.ring();
}

Result<bool> SharedBackend::wait_until(std::uint64_t known_news, TimePoint when) {
  std::vector<Meeting::Awaited> any;
  rounds_.add_awaited(any);
  mail_.add_awaited(any);
  return meeting_.wait_until(
      any, [&] { return news() != known_news; }, when);
}

std::function<std::optional<std::uint32_t>()> SharedBackend::who_is_missing(const detail::Work& work) const {
  const auto* const of_all = dynamic_cast<const RoundOperation*>(&work);
  const auto what =
      of_all != nullptr ? rounds_.awaited(*of_all) : awaited_by(static_cast<const SharedTask&>(work)).front();
  return [this, what] { return meeting_.who_is_missing(what); };
}

/// The conditions that this rank waits for; any of them lets it continue. The first is the condition of the task, or of
/// an earlier operation or message that comes before the task. For the operations of all ranks the condition of the
/// oldest is enough, since all ranks do them in one order.
std::vector<Meeting::Awaited> SharedBackend::awaited_by(const SharedTask& task) const {
  std::vector<Meeting::Awaited> all;
  if (const auto of_message = mail_.awaited_by(task)) all.push_back(*of_message);
  if (const auto oldest = rounds_.oldest()) all.push_back(rounds_.awaited(*oldest));
  mail_.add_awaited(all);
  return all;
}

}  // namespace pharos::ml
