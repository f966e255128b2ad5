#include "caller/task_pool.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>

#include "caller/refused.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::CellHandle;

constexpr Duration kShortTask = 1ms;
constexpr Duration kWorkAhead = 2ms;  // total time of the short tasks that are in flight to one worker
constexpr std::size_t kWindowMax = 1024;
constexpr Duration kIdleTime = 200ms;
constexpr Duration kRefusalTime = 20ms;  // pause before leases are asked for again

bool may_run_again(const CellHandle& task) {
  return task->call().attempt < task->call().max_retries && !task->call().cancelled();
}

void count_attempt(const CellHandle& task) {
  task->call().attempt = wire::next_attempt(task->call().attempt);
}

/// Fails a task that waits. In an earlier attempt a worker that was lost may have begun it.
void fail(const CellHandle& task, const Error& why) {
  task->set_error(Error{why}.with_outcome(task->call().outcome_unsent()));
}

}  // namespace

std::size_t TaskPool::Worker::window() const {
  if (blocked || ends) return 0;
  if (mean_execution >= kShortTask) return 1;
  const auto ahead = static_cast<std::size_t>(kWorkAhead / std::max<Duration>(mean_execution, 1us));
  return std::clamp<std::size_t>(ahead, 2, kWindowMax);
}

void TaskPool::set_requests_max(std::uint32_t requests) {
  const std::lock_guard lock{mutex_};
  requests_max_ = requests;
}

std::optional<TaskPool::Place> TaskPool::find(const detail::ResultCell& cell) {
  const std::lock_guard lock{mutex_};
  for (const Worker& worker : workers_) {
    if (const auto place = worker.calls->find(cell)) {
      return place->sent ? Place{worker.id, place->number} : Place{};
    }
  }
  const bool waits = std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& each) { return &*each == &cell; });
  return waits ? std::optional{Place{}} : std::nullopt;
}

TaskPool::Worker* TaskPool::find(const OutgoingCalls& calls) {
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const Worker& worker) { return worker.calls.get() == &calls; });
  return found == workers_.end() ? nullptr : &*found;
}

TaskPool::Worker* TaskPool::least_busy() {
  Worker* best = nullptr;
  std::size_t best_in_flight = std::numeric_limits<std::size_t>::max();
  for (Worker& worker : workers_) {
    const std::size_t in_flight = worker.calls->in_flight();
    if (worker.calls->lost() || in_flight >= worker.window() || in_flight >= best_in_flight) continue;
    best = &worker;
    best_in_flight = in_flight;
  }
  return best;
}

// Returns how many more leases to ask for now, and counts them as requested. The node grants as many as it has CPUs
// for.
std::uint32_t TaskPool::leases_to_request() {
  if (closed_ || clock_.now() < refused_until_) return 0;
  const auto wanted = static_cast<std::uint32_t>(std::min<std::size_t>(waiting_.size(), requests_max_));
  if (wanted <= leases_requested_) return 0;
  return wanted - std::exchange(leases_requested_, wanted);
}

void TaskPool::request_leases(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) leases_.request_lease(*this);
}

void TaskPool::submit(CellHandle cell) {
  std::uint32_t requests = 0;
  bool asks_later = false;
  if (auto refused = place(cell, requests, asks_later))
    return cell->set_error(std::move(*refused).with_outcome(Outcome::kNotStarted));
  request_leases(requests);
  if (asks_later) leases_.tend_soon();
}

// Takes the cell, or returns the error why it is not taken.
std::optional<Error> TaskPool::place(CellHandle& cell, std::uint32_t& requests, bool& asks_later) {
  const std::lock_guard lock{mutex_};
  if (closed_) return closed_;
  if (waiting_.size() >= waiting_max_) {
    return Error{ErrorCode::kOverloaded, std::to_string(waiting_.size()) + " tasks wait for workers",
                 "get() some results before submitting more."};
  }
  Worker* const worker = waiting_.empty() ? least_busy() : nullptr;
  if (worker != nullptr) {
    worker->calls->send(std::move(cell), OutgoingCalls::WhenFull::kHold);
  } else {
    waiting_.push_back(std::move(cell));
    requests = leases_to_request();
    asks_later = clock_.now() < refused_until_;
  }
  return std::nullopt;
}

bool TaskPool::cancel(detail::ResultCell& cell) {
  std::vector<std::shared_ptr<OutgoingCalls>> all;
  {
    const std::lock_guard lock{mutex_};
    const auto found =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const CellHandle& each) { return &*each == &cell; });
    if (found != waiting_.end()) {
      waiting_.erase(found);
      return true;
    }
    for (const Worker& worker : workers_) all.push_back(worker.calls);
  }
  return std::any_of(all.begin(), all.end(), [&](const auto& calls) { return calls->cancel(cell); });
}

void TaskPool::end_by_force(const detail::ResultCell& cell) {
  std::shared_ptr<OutgoingCalls> calls;
  {
    const std::lock_guard lock{mutex_};
    for (Worker& worker : workers_) {
      const auto place = worker.calls->find(cell);
      if (!place || !place->sent) continue;
      worker.forced = place->number;
      worker.ends = true;
      calls = worker.calls;
    }
    if (calls == nullptr) return;
  }
  calls->ask_back();
  leases_.tend_soon();
}

bool TaskPool::take_back(detail::ResultCell& cell) {
  const std::lock_guard lock{mutex_};
  if (clock_.now() >= refused_until_) return false;
  // The search begins at the end, because a task whose result is awaited was usually submitted last.
  const auto found =
      std::find_if(waiting_.rbegin(), waiting_.rend(), [&](const CellHandle& each) { return &*each == &cell; });
  if (found == waiting_.rend()) return false;
  waiting_.erase(std::next(found).base());
  return true;
}

void TaskPool::feed(Worker& worker) {
  worker.last_used = clock_.now();
  const std::size_t window = worker.window();
  while (!waiting_.empty() && !worker.calls->lost() && worker.calls->in_flight() < window) {
    CellHandle task = std::move(waiting_.front());
    waiting_.pop_front();
    worker.calls->send(std::move(task), OutgoingCalls::WhenFull::kHold);
  }
}

void TaskPool::add_worker(WorkerId worker, std::shared_ptr<OutgoingCalls> calls) {
  std::optional<Error> closed;
  std::uint32_t requests = 0;
  {
    const std::lock_guard lock{mutex_};
    --leases_requested_;
    closed = closed_;
    if (!closed) {
      workers_.push_back({worker, calls, kShortTask, clock_.now()});
      feed(workers_.back());
    }
    requests = leases_to_request();
  }
  if (closed) calls->lose(*closed);
  request_leases(requests);
}

void TaskPool::lease_refused(const Error& why) {
  std::deque<CellHandle> failed;
  {
    const std::lock_guard lock{mutex_};
    --leases_requested_;
    if (why.code() == ErrorCode::kOverloaded) {
      refused_until_ = clock_.now() + kRefusalTime;
    } else if (workers_.empty() && leases_requested_ == 0) {
      failed.swap(waiting_);
      if (why.code() == ErrorCode::kWorkerDied) keep_what_may_run_again(failed);
    }
  }
  for (const CellHandle& task : failed) fail(task, why);
}

// The worker died before it was ready. The tasks wait on, and tend() asks for another worker.
void TaskPool::keep_what_may_run_again(std::deque<CellHandle>& failed) {
  const auto end = std::stable_partition(failed.begin(), failed.end(), may_run_again);
  for (auto task = failed.begin(); task != end; ++task) {
    count_attempt(*task);
    waiting_.push_back(std::move(*task));
  }
  failed.erase(failed.begin(), end);
}

void TaskPool::on_replies(OutgoingCalls& calls, std::size_t replies, Duration execution, std::size_t in_flight) {
  if (replies == 0) return;
  std::uint32_t requests = 0;
  bool asks_back = false;
  Done done;
  {
    const std::lock_guard lock{mutex_};
    Worker* const worker = find(calls);
    if (worker == nullptr) return;
    if (recalls_ != 0 && worker->recalled && !worker->ends) {
      --recalls_;
      worker->ends = true;
      asks_back = calls.in_flight() != 0;
    }
    const Duration mean = execution / static_cast<std::int64_t>(replies);
    // The mean rises at once and falls slowly, because a mean that is too short makes tasks wait behind a slow one.
    worker->mean_execution = mean > worker->mean_execution ? mean : (worker->mean_execution + 3 * mean) / 4;
    worker->blocked = false;
    worker->silent = false;
    if (!waiting_.empty() || in_flight == 0) feed(*worker);
    take_if_done(*worker, calls.in_flight(), done);  // other threads may have sent more tasks meanwhile
    requests = leases_to_request();
  }
  if (asks_back) calls.ask_back();
  give_back(done);
  request_leases(requests);
}

void TaskPool::on_returned(OutgoingCalls& calls, std::vector<CellHandle> cells, bool takes_more) {
  std::uint32_t requests = 0;
  std::optional<Error> closed;
  std::vector<CellHandle> cancelled;
  Done done;
  {
    const std::lock_guard lock{mutex_};
    // A task that is in flight and was not returned has begun, and its reply will come.
    if (Worker* const worker = find(calls)) {
      const std::size_t begun = calls.in_flight() - cells.size();
      worker->blocked = begun != 0;
      worker->ends = worker->ends || !takes_more;
      take_if_done(*worker, begun, done);
    }
    closed = closed_;
    if (!closed) {
      // A thread that cancels a task marks it and then looks for it here. This thread takes a task in unless it is
      // marked. Both hold the lock when they look, so one of the two sees what the other has done.
      const auto left =
          std::stable_partition(cells.begin(), cells.end(), [](const auto& e) { return !e->call().cancelled(); });
      cancelled.assign(left, cells.end());
      waiting_.insert(waiting_.begin(), cells.begin(), left);
      while (Worker* const worker = waiting_.empty() ? nullptr : least_busy()) feed(*worker);
      requests = leases_to_request();
    }
  }
  if (closed) {
    for (const CellHandle& task : cells) fail(task, *closed);
  }
  for (const CellHandle& task : cancelled) fail(task, actors::cancelled(task->call().function));
  give_back(done);
  request_leases(requests);
}

std::size_t TaskPool::recall(const std::vector<WorkerId>& workers, std::size_t count) {
  Done done;
  std::size_t will = 0;
  {
    const std::lock_guard lock{mutex_};
    const auto is_meant = [&](const Worker& worker) {
      return std::find(workers.begin(), workers.end(), worker.id) != workers.end();
    };
    will = static_cast<std::size_t>(std::count_if(workers_.begin(), workers_.end(), is_meant));
    if (will == 0) return 0;  // the workers belong to another pool
    for (Worker& worker : workers_) worker.recalled = is_meant(worker);
    recalls_ = will = std::min(will, count);
    for (std::size_t i = 0; i < workers_.size();) {
      Worker& worker = workers_[i];
      if (worker.recalled && worker.ends && recalls_ != 0) --recalls_;
      const bool is_idle = worker.recalled && !worker.ends && recalls_ != 0 && worker.calls->in_flight() == 0;
      if (is_idle) {
        --recalls_;
        take_out(worker, done);
      } else {
        ++i;
      }
    }
  }
  give_back(done);
  return will;
}

void TaskPool::take_if_done(Worker& worker, std::size_t in_flight, Done& done) {
  if (worker.ends && in_flight == 0) take_out(worker, done);
}

void TaskPool::take_out(Worker& worker, Done& done) {
  const std::ptrdiff_t place = &worker - workers_.data();
  done.push_back(std::move(worker));
  workers_.erase(workers_.begin() + place);
}

void TaskPool::give_back(const Done& done) {
  for (const Worker& worker : done) {
    worker.calls->lose(Error{ErrorCode::kWorkerDied, "the worker was given back"});
    leases_.return_lease(worker.id);
  }
}

void TaskPool::on_large_result(CellHandle cell, std::shared_ptr<object_store::Object> object,
                               detail::ActorHandles actors) {
  auto remakable = leases_.lineage().note(shared_from_this(), *cell, object->location().id);
  cell->set_object(std::move(object), std::move(actors), std::move(remakable));
}

void TaskPool::on_argument_lost(CellHandle cell, const Error& why) {
  leases_.lineage().repair(shared_from_this(), std::move(cell), why);
}

void TaskPool::on_result_lost(CellHandle cell, const Error& why) {
  if (!may_run_again(cell)) return cell->set_error(why);
  count_attempt(cell);
  submit(std::move(cell));
}

void TaskPool::on_disconnected(OutgoingCalls& calls) {
  WorkerId lost;
  {
    const std::lock_guard lock{mutex_};
    const Worker* const worker = find(calls);
    if (worker == nullptr) return;
    lost = worker->id;
  }
  leases_.worker_disconnected(lost);
}

bool TaskPool::lose_worker(WorkerId worker, const Error& why) {
  std::shared_ptr<OutgoingCalls> calls;
  std::uint32_t requests = 0;
  {
    const std::lock_guard lock{mutex_};
    const auto found = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.id == worker; });
    if (found == workers_.end()) return false;
    calls = std::move(found->calls);
    workers_.erase(found);
  }
  OutgoingCalls::Unanswered unanswered = calls->cut(why);
  const auto failed = std::stable_partition(unanswered.sent.begin(), unanswered.sent.end(), may_run_again);
  {
    const std::lock_guard lock{mutex_};
    if (!closed_) {
      for (auto task = unanswered.sent.begin(); task != failed; ++task) count_attempt(*task);
      // The unsent tasks include those that were given to the worker after its connection had ended.
      waiting_.insert(waiting_.begin(), unanswered.unsent.begin(), unanswered.unsent.end());
      waiting_.insert(waiting_.begin(), unanswered.sent.begin(), failed);
      unanswered.unsent.clear();
      unanswered.sent.erase(unanswered.sent.begin(), failed);
    }
    while (Worker* const next = waiting_.empty() ? nullptr : least_busy()) feed(*next);
    requests = leases_to_request();
  }
  for (const CellHandle& task : unanswered.sent) task->set_error(Error{why}.with_outcome(Outcome::kUnknown));
  for (const CellHandle& task : unanswered.unsent) fail(task, why);
  request_leases(requests);
  return true;
}

/// Kills a worker that was taken out of the pool. Tasks behind the one that runs were given back before.
void TaskPool::kill(const Worker& worker) {
  OutgoingCalls::Unanswered unanswered = worker.calls->cut(
      Error{ErrorCode::kCancelled, "the task was cancelled by force", "Submit it again if its result is needed."});
  for (const auto* const cells : {&unanswered.sent, &unanswered.unsent}) {
    for (const CellHandle& task : *cells) {
      task->set_error(actors::cancelled(task->call().function).with_outcome(Outcome::kUnknown));
    }
  }
  leases_.kill_worker(worker.id);
}

bool TaskPool::tend() {
  Done idle;
  Done forced;
  std::vector<std::shared_ptr<OutgoingCalls>> slow;
  std::uint32_t requests = 0;
  bool left = false;
  {
    const std::lock_guard lock{mutex_};
    const TimePoint now = clock_.now();
    for (std::size_t i = 0; i < workers_.size();) {
      Worker& worker = workers_[i];
      if (worker.calls->in_flight() != 0) worker.last_used = now;
      if (worker.forced && worker.calls->in_flight() == 1 && worker.calls->awaits(*worker.forced)) {
        take_out(worker, forced);
        continue;
      }
      const bool waits_behind = worker.calls->in_flight() > 1 && !worker.blocked;
      if (waits_behind && worker.silent) {
        worker.blocked = true;
        slow.push_back(worker.calls);
      }
      worker.silent = waits_behind;
      if (!waiting_.empty()) feed(worker);  // the worker may have given all its tasks back
      const bool is_wanted = !worker.ends && (!waiting_.empty() || now - worker.last_used < kIdleTime);
      if (is_wanted || worker.calls->in_flight() != 0) {
        ++i;
        continue;
      }
      take_out(worker, idle);
    }
    requests = leases_to_request();
    left = !workers_.empty() || leases_requested_ != 0 || !waiting_.empty();
  }
  give_back(idle);
  for (const Worker& each : forced) kill(each);
  for (const auto& calls : slow) calls->ask_back();
  request_leases(requests);
  return left;
}

void TaskPool::close(const Error& why) {
  std::deque<CellHandle> failed;
  std::vector<Worker> workers;
  {
    const std::lock_guard lock{mutex_};
    closed_ = why;
    failed.swap(waiting_);
    workers.swap(workers_);
  }
  for (const CellHandle& task : failed) fail(task, why);
  for (const Worker& worker : workers) worker.calls->lose(why);
}

}  // namespace pharos::actors
