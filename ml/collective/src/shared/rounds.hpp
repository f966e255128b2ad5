#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/collective/backend.hpp>

#include "shared/meeting.hpp"
#include "shared/round_operation.hpp"
#include "shared/shared_windows.hpp"

namespace pharos::ml {

/// The operations of all ranks of a machine that this rank has begun: gives them their rounds and staging buffers, and
/// takes each through the phases of its rounds. Owned by SharedBackend. It keeps each operation until it has ended or
/// drop() was called. Only the thread of the owner uses this object, and nothing waits: begin() gives an operation its
/// rounds, and advance() does the work.
///
/// A staging buffer has 1 MiB, in the first window. There are several in a set, which are used in turn, in the order of
/// the operations.
class Rounds {
 public:
  static constexpr std::uint32_t kStagingWindow = 1;

  /// `sets` is the number of sets of staging buffers: one, and a second one where operations can be held. The other
  /// arguments outlive the object.
  Rounds(Meeting& meeting, const SharedWindows& windows, std::size_t sets);

  /// The size of a rank's staging buffers together.
  static std::size_t staging_bytes(std::size_t sets) { return sets * kStagings * RoundOperation::kStagingBytes; }

  std::shared_ptr<RoundOperation> begin(const detail::Step& step, const detail::Places& places, bool is_held);
  /// Takes the next round for an operation that goes another way than advance().
  std::uint64_t take_round() { return ++last_round_; }
  /// Continues all operations as far as possible without waiting. Fails on all ranks with kInvalidArgument if ranks
  /// called different operations.
  Result<void> advance();
  /// Drops the operations that have not ended, after a failure. They never become `ended`.
  void drop() { running_.clear(); }

  /// Returns the oldest operation that has not ended; null if there is none.
  std::shared_ptr<RoundOperation> oldest() const { return running_.empty() ? nullptr : running_.front(); }
  /// What the operation waits for.
  Meeting::Awaited awaited(const RoundOperation& operation) const;
  /// Adds what the operations wait for that are not held and have their turn.
  void add_awaited(std::vector<Meeting::Awaited>& all) const;

 private:
  static constexpr std::size_t kStagings = 4;
  struct StagingSet {
    std::uint64_t given = 0;
    std::array<std::uint64_t, kStagings> rounds{};  // by buffer: the last round that used it
  };

  Result<void> advance(RoundOperation& operation);
  bool enter(RoundOperation& operation);
  bool is_next_to_stage(const RoundOperation& operation) const;
  void do_work(RoundOperation& operation);
  std::vector<std::byte*> staging_of_all(const RoundOperation& operation) const;

  Meeting& meeting_;
  const SharedWindows& windows_;
  std::vector<StagingSet> sets_;
  std::uint64_t last_round_ = 0;
  std::deque<std::shared_ptr<RoundOperation>> running_;  // in the order in which they were begun
};

}  // namespace pharos::ml
