#include "stream/stream_requests.hpp"

#include <utility>

namespace pharos::ml {

// ---- The owner

void StreamRequests::add(std::shared_ptr<StreamOperation> operation) {
  {
    const std::lock_guard lock{mutex_};
    if (!failed_) new_.operations.push_back(std::move(operation));
  }
  wake_();
}

Result<bool> StreamRequests::has_ended(const StreamOperation& operation) const {
  const std::lock_guard lock{mutex_};
  if (operation.ended) return true;
  if (failed_) return *failed_;
  return false;
}

Result<void> StreamRequests::wait_for(const StreamOperation& operation, TimePoint deadline) {
  std::unique_lock lock{mutex_};
  const auto is_over = [&] { return operation.ended || failed_.has_value(); };
  waiting_ = Waiting{.order = operation.order};
  if (!changed_.wait_until(lock, deadline, is_over)) {
    new_.overdue = operation.describe();
    wake_();
    changed_.wait(lock, is_over);  // The backend's thread makes this true soon: it waits for no rank for long.
  }
  waiting_.reset();
  new_.overdue.reset();
  if (!operation.ended) return *failed_;
  return {};
}

void StreamRequests::waits_for(const OperationId& order) {
  const std::lock_guard lock{mutex_};
  waiting_ = Waiting{.order = order};
}
void StreamRequests::waits_for(WhoIsMissing who) {
  const std::lock_guard lock{mutex_};
  waiting_ = Waiting{.who = std::move(who)};
}
void StreamRequests::waits_no_more() {
  const std::lock_guard lock{mutex_};
  waiting_.reset();
  new_.overdue.reset();
}

void StreamRequests::say_overdue(const std::string& what) {
  {
    const std::lock_guard lock{mutex_};
    new_.overdue = what;
  }
  wake_();
}

void StreamRequests::fail(const Error& why) {
  {
    const std::lock_guard lock{mutex_};
    if (!new_.fails) new_.fails = why;
  }
  wake_();
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return failed_.has_value(); });
}

std::optional<Error> StreamRequests::failure() const {
  const std::lock_guard lock{mutex_};
  return failed_;
}

void StreamRequests::close() {
  {
    const std::lock_guard lock{mutex_};
    closes_ = true;
  }
  changed_.notify_all();
  wake_();
}

// ---- The backend's thread

std::optional<StreamRequests::Taken> StreamRequests::take_new() {
  const std::lock_guard lock{mutex_};
  if (closes_) return std::nullopt;
  return Taken{.operations = std::exchange(new_.operations, {}), .fails = new_.fails, .overdue = new_.overdue};
}

std::optional<std::uint32_t> StreamRequests::whom_the_owner_waits_for(
    const std::function<std::optional<std::uint32_t>(const OperationId&)>& missing) const {
  // The lock is held while `who` runs, because the objects that it uses may be destroyed after waits_no_more().
  const std::lock_guard lock{mutex_};
  if (!waiting_) return std::nullopt;
  return waiting_->order ? missing(*waiting_->order) : waiting_->who();
}

void StreamRequests::say_ended(StreamOperation& operation) {
  {
    const std::lock_guard lock{mutex_};
    operation.ended = true;
  }
  tell_owner();
}

void StreamRequests::say_failed(const Error& why) {
  {
    const std::lock_guard lock{mutex_};
    failed_ = why;
  }
  tell_owner();
}

void StreamRequests::tell_owner() {
  changed_.notify_all();
  if (heard_) heard_();
}

void StreamRequests::wait_for_close() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return closes_; });
}

}  // namespace pharos::ml
