#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/async/outermost.hpp>
#include <pharos/async/wait.hpp>
#include <pharos/base/check.hpp>

namespace pharos::async {

namespace {
Error not_ended(std::size_t left) {
  return {ErrorCode::kDeadlineExceeded,
          "the deadline passed while joining a group; " + std::to_string(left) + " of its coroutines have not ended",
          "Cancel the group first."};
}
}  // namespace

/// The spawned coroutines and their shared state. Kept alive by shared_ptr: it outlives the group while a coroutine is
/// being removed or a posted callback has not run.
class AsyncGroup::Members : public std::enable_shared_from_this<Members> {
 public:
  Members(Executor& executor, OnError on_error) : executor_{executor}, on_error_{std::move(on_error)} {}

  void spawn(Async<void> coroutine);
  void cancel();
  bool empty_or_leave(const std::shared_ptr<detail::Wait>& joiner);
  void forget(const std::shared_ptr<detail::Wait>& joiner);
  bool wait_until_empty(Deadline deadline);
  std::size_t size() const;
  void report(std::exception_ptr exception);
  void remove(std::list<Member>::iterator member);

 private:
  Executor& executor_;
  OnError on_error_;  // called on the executor only
  std::atomic<bool> cancelled_{false};

  mutable std::mutex mutex_;
  std::condition_variable emptied_;
  std::list<Member> members_;
  std::size_t size_ = 0;  // includes coroutines that are out of the list, but not yet destroyed
  std::vector<std::shared_ptr<detail::Wait>> joiners_;
};

class AsyncGroup::Member final : public detail::Outermost {
 public:
  using Outermost::Outermost;

  void start(std::shared_ptr<Members> members, std::list<Member>::iterator self) {
    members_ = std::move(members);
    self_ = self;
    Outermost::start();
    executor().post([this] { run(); });
  }

 private:
  void ended() override {
    try {
      take();
    } catch (...) {
      members_->report(std::current_exception());
    }
    const auto members = members_;  // remove() destroys this Member
    members->remove(self_);
  }

  std::shared_ptr<Members> members_;
  std::list<Member>::iterator self_;
};

void AsyncGroup::Members::spawn(Async<void> coroutine) {
  std::lock_guard lock{mutex_};
  members_.emplace_back(executor_, cancelled_, std::move(coroutine));
  ++size_;
  members_.back().start(shared_from_this(), std::prev(members_.end()));
}

void AsyncGroup::Members::cancel() {
  if (cancelled_.exchange(true)) return;
  // Coroutines that run see the flag at their next wait. Coroutines that wait already are woken on their executor.
  executor_.post([members = shared_from_this()] {
    std::lock_guard lock{members->mutex_};
    for (auto& member : members->members_) member.cancel_wait();
  });
}

bool AsyncGroup::Members::empty_or_leave(const std::shared_ptr<detail::Wait>& joiner) {
  std::lock_guard lock{mutex_};
  if (size_ == 0) return true;
  joiners_.push_back(joiner);
  return false;
}

void AsyncGroup::Members::forget(const std::shared_ptr<detail::Wait>& joiner) {
  std::lock_guard lock{mutex_};
  std::erase(joiners_, joiner);
}

bool AsyncGroup::Members::wait_until_empty(Deadline deadline) {
  std::unique_lock lock{mutex_};
  return executor_.wait(lock, emptied_, deadline, [this] { return size_ == 0; });
}

std::size_t AsyncGroup::Members::size() const {
  std::lock_guard lock{mutex_};
  return size_;
}

void AsyncGroup::Members::report(std::exception_ptr exception) {
  if (on_error_) return on_error_(std::move(exception));
  const bool exception_left_a_spawned_coroutine = true;
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const std::exception& thrown) {
    PHAROS_CHECK(!exception_left_a_spawned_coroutine, typeid(thrown).name(), thrown.what());
  } catch (...) {
    PHAROS_CHECK(!exception_left_a_spawned_coroutine, "not a std::exception");
  }
}

void AsyncGroup::Members::remove(std::list<Member>::iterator member) {
  std::list<Member> removed;
  {
    std::lock_guard lock{mutex_};
    removed.splice(removed.begin(), members_, member);
  }
  removed.clear();  // without the lock, because objects in the coroutine's frame may call the group when destroyed
  std::vector<std::shared_ptr<detail::Wait>> joined;
  {
    std::lock_guard lock{mutex_};
    if (--size_ > 0) return;
    joined.swap(joiners_);
    emptied_.notify_all();
  }
  for (const auto& joiner : joined) {
    if (joiner->claim(detail::WaitEnd::kReady)) joiner->resume();
  }
}

AsyncGroup::AsyncGroup(Executor& executor, OnError on_error)
    : members_{std::make_shared<Members>(executor, std::move(on_error))} {}

AsyncGroup::~AsyncGroup() {
  const std::size_t coroutines_left = members_->size();
  PHAROS_CHECK(coroutines_left == 0, coroutines_left);
}

void AsyncGroup::spawn(Async<void> coroutine) {
  members_->spawn(std::move(coroutine));
}

void AsyncGroup::cancel() {
  members_->cancel();
}

Async<Result<void>> AsyncGroup::join(Deadline deadline) {
  return join(members_, deadline);
}

Async<Result<void>> AsyncGroup::join(std::shared_ptr<Members> members, Deadline deadline) {
  auto joiner = std::make_shared<detail::Wait>(co_await detail::current_routine());
  if (members->empty_or_leave(joiner)) co_return {};
  const auto end = co_await detail::suspend_uncancellable(joiner, deadline);
  if (end == detail::WaitEnd::kReady) co_return {};
  members->forget(joiner);
  co_return not_ended(members->size());
}

Result<void> AsyncGroup::join_blocking(Deadline deadline) {
  const auto members = members_;
  if (members->wait_until_empty(deadline)) return {};
  return not_ended(members->size());
}

std::size_t AsyncGroup::size() const {
  return members_->size();
}

}  // namespace pharos::async
