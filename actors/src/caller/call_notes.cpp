#include "caller/call_notes.hpp"

#include <utility>

namespace pharos::actors {

void CallNotes::note_cancel(std::uint64_t number) {
  std::shared_ptr<SuspendedCall> suspended;
  {
    const std::lock_guard lock{mutex_};
    const auto found = suspended_.find(number);
    if (found != suspended_.end()) suspended = found->second;
    if (suspended == nullptr && number < first_not_begun_.load()) return;
    notes_[number].cancelled = true;
    any_.store(true, std::memory_order_release);
  }
  if (suspended != nullptr) suspended->cancel_wait();
}

void CallNotes::note_deadline(std::uint64_t number, async::Deadline deadline) {
  const std::lock_guard lock{mutex_};
  notes_[number].deadline = deadline;
  any_.store(true, std::memory_order_release);
}

void CallNotes::note_retries(std::uint64_t number, Retries retries) {
  const std::lock_guard lock{mutex_};
  notes_[number].retries = retries;
  any_.store(true, std::memory_order_release);
}

void CallNotes::note_suspended(std::uint64_t number, std::shared_ptr<SuspendedCall> call) {
  bool cancelled = false;
  {
    const std::lock_guard lock{mutex_};
    suspended_.emplace(number, call);
    any_.store(true, std::memory_order_release);
    const auto note = notes_.find(number);
    cancelled = over_ || (note != notes_.end() && note->second.cancelled);
  }
  if (cancelled) call->cancel_wait();
}

void CallNotes::cancel_suspended() {
  std::unordered_map<std::uint64_t, std::shared_ptr<SuspendedCall>> suspended;
  {
    const std::lock_guard lock{mutex_};
    suspended.swap(suspended_);
    over_ = true;
  }
  for (const auto& [number, call] : suspended) call->cancel_wait();
}

CallNotes::Note CallNotes::find(std::uint64_t number) const {
  const std::lock_guard lock{mutex_};
  const auto found = notes_.find(number);
  return found == notes_.end() ? Note{} : found->second;
}

void CallNotes::erase(std::uint64_t number) {
  std::shared_ptr<SuspendedCall> ended;  // destroyed after the lock is released
  const std::lock_guard lock{mutex_};
  if (const auto suspended = suspended_.extract(number); !suspended.empty()) ended = std::move(suspended.mapped());
  notes_.erase(number);
  any_.store(!notes_.empty() || !suspended_.empty(), std::memory_order_release);
}

}  // namespace pharos::actors
