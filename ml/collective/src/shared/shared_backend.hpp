#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pharos/ml/collective/backend.hpp>

#include "shared/mail.hpp"
#include "shared/meeting.hpp"
#include "shared/rounds.hpp"
#include "shared/shared_memory.hpp"
#include "shared/shared_windows.hpp"

namespace pharos::ml {

/// Ranks of one machine, which work in memory that they share. There is no thread for it: a rank does its work when it
/// begins an operation, looks at it or waits for it. One thread at a time, except where a function says more. Its owner
/// is Core or HierarchicalBackend. The destructor leaves the meeting: ranks that still wait for this one fail with
/// kActorDied. It finishes nothing that is under way.
///
/// Operations of all ranks go in Rounds, and messages go by Mail. The allocation of memory is a round of its own.
class SharedBackend final : public detail::Backend {
 public:
  /// Returns when all ranks have come; waits for that, and then for their first memory, at most for `time` each.
  /// `shared` is the memory of their Meeting. `processes` has the process ids of the ranks; empty if they are unknown.
  /// kDeadlineExceeded if a rank does not come, kActorDied if one has died or left, kExhausted if a rank has no memory:
  /// then all ranks fail.
  static Result<std::unique_ptr<SharedBackend>> make(Mapping shared, std::uint32_t rank, std::uint32_t ranks,
                                                     Duration time, std::span<const std::int32_t> processes = {});
  /// The same for ranks that are threads of one process.
  static Result<std::unique_ptr<SharedBackend>> make(std::shared_ptr<ThreadMemory> shared, std::uint32_t rank,
                                                     std::uint32_t ranks, Duration time);
  /// For HierarchicalBackend: the ranks of one of several machines, which do operations in steps. `names` has their
  /// numbers among the ranks of all machines. They call meet(), which does what make() does, before the first
  /// operation.
  SharedBackend(Mapping shared, std::uint32_t rank, std::vector<std::uint32_t> names);
  SharedBackend(std::shared_ptr<ThreadMemory> shared, std::uint32_t rank, std::vector<std::uint32_t> names);
  Result<void> meet(Duration time, std::span<const std::int32_t> processes);
  ~SharedBackend() override;

  std::uint32_t rank() const override { return meeting_.rank(); }
  std::uint32_t ranks() const override { return meeting_.ranks(); }
  bool shares_memory() const override { return true; }
  std::uint64_t bytes_sent() const override { return 0; }
  std::shared_ptr<detail::Work> begin(const Operation& operation, const detail::Places& places) override {
    return begin({operation, operation}, places);
  }
  Result<bool> advance(detail::Work& work) override;
  Result<void> finish(detail::Work& work, Duration time) override;
  Result<std::byte*> allocate(std::size_t bytes, Duration time) override;
  Result<std::byte*> allocate_for_all(std::size_t bytes, Duration time) override;
  void free(std::byte* memory) override { windows_.free(memory); }
  bool works_on(std::span<const std::byte> memory) const override;
  void fail(const Error& why) override { static_cast<void>(meeting_.fail(why)); }
  Result<void> check() override { return meeting_.check(); }
  std::optional<Error> failure() override {
    const auto well = meeting_.check();
    return well ? std::nullopt : std::optional{well.error()};
  }

  // The rest is for HierarchicalBackend, which does operations in steps.

  /// `is_held`: the step gets its place in the order of operations now, but it waits for release(), because its data
  /// comes later.
  std::shared_ptr<detail::Work> begin(const detail::Step& step, const detail::Places& places, bool is_held = false);
  void release(detail::Work& work);
  /// Advances all steps that are not held, and all messages. Returns the failure, if there is one.
  std::optional<Error> advance_all();
  static bool has_ended(const detail::Work& work);
  /// Waits until a step can continue, or until news() differs from `known_news`. Returns false at `when`. A failure is
  /// one of all ranks.
  Result<bool> wait_until(std::uint64_t known_news, TimePoint when);
  /// Returns a function that says which rank `work` waits for now. It and whom_it_sleeps_for() may be called on any
  /// thread, as long as this backend lives.
  std::function<std::optional<std::uint32_t>()> who_is_missing(const detail::Work& work) const;
  std::optional<std::uint32_t> whom_it_sleeps_for() const { return meeting_.whom_it_sleeps_for(); }
  /// Wakes wait_until() because of a change that this backend does not see. On any thread, as long as this backend
  /// lives.
  void tell_news();
  std::uint64_t news() const { return news_.load(std::memory_order_seq_cst); }

 private:
  SharedBackend(Mapping shared, std::shared_ptr<ThreadMemory> threads, std::uint32_t rank, std::uint32_t ranks,
                std::vector<std::uint32_t> names);

  /// Publishes `memory`, calls `map` when all ranks have published theirs, and returns when all ranks have done so.
  /// Operations of all ranks that are under way are finished first, each within `time`. Then the ranks wait for each
  /// other, at most for `time`. Any failure is one of all ranks.
  Result<void> exchange_memory(const Operation& operation, const Meeting::MemoryHandle& memory, Duration time,
                               const std::function<Result<void>()>& map);
  Result<void> wait_for(std::uint64_t round, Meeting::Phase phase, TimePoint deadline);
  std::vector<Meeting::Awaited> awaited_by(const SharedTask& task) const;

  const Mapping shared_;
  const std::shared_ptr<ThreadMemory> threads_;  // null if ranks are processes
  const std::size_t staging_sets_;
  Meeting meeting_;
  std::atomic<std::uint64_t> news_{0};  // sequentially consistent, because Bell lets its rank sleep by it
  SharedWindows windows_;
  Rounds rounds_;
  Mail mail_;
  std::optional<Error> failed_;
};

}  // namespace pharos::ml
