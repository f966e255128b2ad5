#include "committer.hpp"

#include <pthread.h>

#include <utility>
#include <vector>

#include <pharos/base/check.hpp>

namespace pharos::storage {

Committer::Committer(std::string place, Commit commit, std::size_t batches_max, ByteCount bytes_max)
    : place_{std::move(place)},
      commit_{std::move(commit)},
      batches_max_{batches_max},
      bytes_max_{bytes_max},
      thread_{[this] { run(); }} {
  pthread_setname_np(thread_.native_handle(), "committer");
}

Committer::~Committer() {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

async::Async<Result<void>> Committer::write(Batch batch, Deadline deadline) {
  if (batch.empty()) co_return {};
  const bool too_late = co_await async::cancelled();
  if (too_late) {
    co_return Error{ErrorCode::kCancelled, "cancelled before writing"}.with_outcome(Outcome::kNotStarted);
  }
  const auto pending = std::make_shared<Pending>(std::move(batch));
  PHAROS_CO_TRY_VOID(enqueue(pending));
  auto committed = co_await pending->committed.wait(deadline);
  if (committed.ok()) co_return {};
  const bool never_tried = !pending->taken.exchange(true);
  co_return std::move(committed).error().with_outcome(never_tried ? Outcome::kNotStarted : Outcome::kUnknown);
}

Result<void> Committer::enqueue(std::shared_ptr<Pending> pending) {
  const ByteCount bytes = pending->batch.bytes();
  if (bytes > bytes_max_) {
    return Error{ErrorCode::kInvalidArgument,
                 "a batch of " + to_string(bytes) + " is too large for the store in " + place_ + "; the limit is " +
                     to_string(bytes_max_),
                 "Write the batch in parts."}
        .with_outcome(Outcome::kNotStarted);
  }
  {
    std::lock_guard lock{mutex_};
    PHAROS_CHECK(!stopping_);
    if (failure_) return refused();
    if (queue_.size() >= batches_max_ || queued_bytes_ + bytes > bytes_max_) {
      return Error{ErrorCode::kOverloaded,
                   std::to_string(queue_.size()) + " writes of " + to_string(queued_bytes_) +
                       " wait for the disk under " + place_ + " already",
                   "Try again after a pause."}
          .with_outcome(Outcome::kNotStarted);
    }
    queued_bytes_ = queued_bytes_ + bytes;
    queue_.push_back(std::move(pending));
  }
  changed_.notify_one();
  return {};
}

void Committer::run() {
  for (auto group = take_group(); !group.empty(); group = take_group()) commit(group);
}

// Returns an empty group only at the end, when the committer stops and no batch is left.
Committer::Group Committer::take_group() {
  Group group;
  ByteCount bytes;
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  while (!queue_.empty()) {
    const ByteCount next = queue_.front()->batch.bytes();
    if (!group.empty() && bytes + next > kGroupBytesMax) break;
    bytes = bytes + next;
    queued_bytes_ = queued_bytes_ - next;
    group.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return group;
}

void Committer::commit(const Group& group) {
  std::vector<const Batch*> batches;
  Group taken;
  for (const auto& pending : group) {
    if (pending->taken.exchange(true)) continue;
    batches.push_back(&pending->batch);
    taken.push_back(pending);
  }
  if (taken.empty()) return;
  auto committed = commit_(batches);
  // Set before any writer is told of the failure, so that a writer which then writes again is refused.
  if (!committed.ok()) fail_from_now_on(committed.error());
  for (const auto& pending : taken) {
    if (committed.ok()) {
      pending->committed.complete();
    } else {
      pending->committed.fail(committed.error());
    }
  }
}

void Committer::fail_from_now_on(const Error& cause) {
  Group refused_too;
  {
    std::lock_guard lock{mutex_};
    failure_ = cause;
    refused_too.swap(queue_);
    queued_bytes_ = {};
  }
  for (const auto& pending : refused_too) pending->committed.fail(refused());
}

Error Committer::refused() const {
  return Error{ErrorCode::kFailedPrecondition,
               "the store in " + place_ + " accepts no writes because an earlier write failed: " + failure_->message(),
               failure_->remedy() + " Then open the store again: what was acknowledged is kept."}
      .with_outcome(Outcome::kNotStarted);
}

}  // namespace pharos::storage
