#include "worker/strand.hpp"

#include <algorithm>
#include <iterator>

namespace pharos::actors {

bool Strand::push(std::shared_ptr<Runner> runner, net::FrameBatch batch) {
  const std::lock_guard lock{mutex_};
  entries_.push_back({std::move(runner), std::move(batch)});
  return running_;
}

void Strand::run() {
  std::unique_lock lock{mutex_};
  if (running_ || stopped_ || entries_.empty()) return;
  running_ = true;
  while (!entries_.empty() && !stopped_) {
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    const bool more = !entries_.empty();
    lock.unlock();
    entry.runner->run(std::move(entry.batch), more);
    if (!more) entry.runner->on_drained();
    lock.lock();
  }
  running_ = false;
  lock.unlock();
  wake_waiting();
}

void Strand::give_back_waiting() {
  std::deque<Entry> entries;
  {
    const std::lock_guard lock{mutex_};
    const auto posted = [](const Entry& entry) { return entry.batch.empty(); };
    const auto sent = std::stable_partition(entries_.begin(), entries_.end(), posted);
    entries.assign(std::make_move_iterator(sent), std::make_move_iterator(entries_.end()));
    entries_.erase(sent, entries_.end());
  }
  for (Entry& entry : entries) entry.runner->give_back(std::move(entry.batch));
}

void Strand::run_posted() {
  std::unique_lock lock{mutex_};
  for (;;) {
    const auto posted =
        std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.batch.empty(); });
    if (posted == entries_.end()) return;
    Entry entry = std::move(*posted);
    entries_.erase(posted);
    lock.unlock();
    entry.runner->run({}, false);
    lock.lock();
  }
}

void Strand::note_suspended() {
  const std::lock_guard lock{mutex_};
  ++suspended_;
}
void Strand::note_ended() {
  {
    const std::lock_guard lock{mutex_};
    --suspended_;
  }
  wake_waiting();
}

void Strand::wait_until_idle(async::Executor& executor, async::Deadline deadline) {
  wait(executor, deadline, [this] { return !running_ && suspended_ == 0; });
}

bool Strand::wait(async::Executor& executor, async::Deadline deadline, const std::function<bool()>& condition) {
  waiting_.fetch_add(1);
  std::unique_lock waiting{waiting_mutex_};
  const bool came = executor.wait(waiting, changed_, deadline, [&] {
    const std::lock_guard lock{mutex_};
    return condition();
  });
  waiting_.fetch_sub(1);
  return came;
}

// A waiting thread has raised waiting_ before it took mutex_ to look at the condition. So a thread that has changed the
// state under mutex_ either sees the number, or the waiting thread sees the state.
void Strand::wake_waiting() {
  if (waiting_.load() == 0) return;
  {
    // A thread that has looked, and found that it must wait, sleeps once this lock is free.
    const std::lock_guard waiting{waiting_mutex_};
  }
  changed_.notify_all();
}

}  // namespace pharos::actors
