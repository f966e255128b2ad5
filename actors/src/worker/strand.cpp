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
  idle_.notify_all();
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
  idle_.notify_all();
}

void Strand::wait_until_idle(async::Executor& executor, async::Deadline deadline) {
  std::unique_lock lock{mutex_};
  executor.wait(lock, idle_, deadline, [this] { return !running_ && suspended_ == 0; });
}

}  // namespace pharos::actors
