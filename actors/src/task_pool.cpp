#include "task_pool.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;

constexpr Duration kShortTask = 1ms;
constexpr Duration kWorkAhead = 2ms;  // so much of short tasks is in flight to one worker
constexpr std::size_t kWindowMax = 1024;
constexpr Duration kIdleTime = 200ms;

}  // namespace

std::size_t TaskPool::Worker::window() const {
  if (mean_execution >= kShortTask) return 1;
  const auto ahead = static_cast<std::size_t>(kWorkAhead / std::max<Duration>(mean_execution, 1us));
  return std::clamp<std::size_t>(ahead, 2, kWindowMax);
}

void TaskPool::set_workers_max(std::uint32_t workers) {
  const std::lock_guard lock{mutex_};
  workers_max_ = workers;
}

TaskPool::Worker* TaskPool::least_busy() {
  Worker* best = nullptr;
  std::size_t best_in_flight = std::numeric_limits<std::size_t>::max();
  for (Worker& worker : workers_) {
    const std::size_t in_flight = worker.link->in_flight();
    if (worker.link->lost() || in_flight >= worker.window() || in_flight >= best_in_flight) continue;
    best = &worker;
    best_in_flight = in_flight;
  }
  return best;
}

bool TaskPool::wants_lease() const {
  return !closed_ && !waiting_.empty() && leases_requested_ < waiting_.size() &&
         workers_.size() + leases_requested_ < workers_max_;
}

void TaskPool::submit(std::uint32_t function, std::span<const std::byte> arguments, detail::CellHandle cell) {
  bool request = false;
  {
    const std::lock_guard lock{mutex_};
    if (closed_) return cell->set_error(Error{*closed_}.with_outcome(Outcome::kNotStarted));
    if (waiting_.empty()) {
      if (Worker* const worker = least_busy()) {
        return worker->link->send(wire::FrameKind::kCall, function, arguments, std::move(cell));
      }
    }
    if (waiting_.size() >= kWaitingMax) {
      return cell->set_error(Error{ErrorCode::kOverloaded, std::to_string(waiting_.size()) + " tasks wait for workers",
                                   "get() some results before submitting more."}
                                 .with_outcome(Outcome::kNotStarted));
    }
    waiting_.push_back({function, {arguments.begin(), arguments.end()}, std::move(cell)});
    request = wants_lease();
    if (request) ++leases_requested_;
  }
  if (request) leases_.request_lease();
}

void TaskPool::feed(Worker& worker) {
  worker.last_used = clock_.now();
  const std::size_t window = worker.window();
  while (!waiting_.empty() && !worker.link->lost() && worker.link->in_flight() < window) {
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    worker.link->send(wire::FrameKind::kCall, task.function, task.arguments, std::move(task.cell));
  }
}

void TaskPool::add_worker(WorkerId worker, std::shared_ptr<CallLink> link) {
  const std::lock_guard lock{mutex_};
  --leases_requested_;
  if (closed_) return link->lose(*closed_);
  workers_.push_back({worker, std::move(link), kShortTask, clock_.now()});
  feed(workers_.back());
}

void TaskPool::lease_refused(const Error& why) {
  std::deque<Task> failed;
  {
    const std::lock_guard lock{mutex_};
    --leases_requested_;
    if (workers_.empty() && leases_requested_ == 0) failed.swap(waiting_);
  }
  for (Task& task : failed) task.cell->set_error(Error{why}.with_outcome(Outcome::kNotStarted));
}

void TaskPool::on_replies(CallLink& link, std::size_t replies, Duration execution, std::size_t in_flight) {
  if (replies == 0) return;
  bool request = false;
  {
    const std::lock_guard lock{mutex_};
    const auto worker =
        std::find_if(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.link.get() == &link; });
    if (worker == workers_.end()) return;
    const Duration mean = execution / static_cast<std::int64_t>(replies);
    // Fast tasks are believed slowly, slow ones at once: a wrong guess makes tasks wait behind a slow one.
    worker->mean_execution = mean > worker->mean_execution ? mean : (worker->mean_execution + 3 * mean) / 4;
    if (!waiting_.empty() || in_flight == 0) feed(*worker);
    request = wants_lease();
    if (request) ++leases_requested_;
  }
  if (request) leases_.request_lease();
}

void TaskPool::on_disconnected(CallLink& link) {
  WorkerId lost;
  {
    const std::lock_guard lock{mutex_};
    const auto worker =
        std::find_if(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.link.get() == &link; });
    if (worker == workers_.end()) return;
    lost = worker->id;
  }
  leases_.worker_disconnected(lost);
}

void TaskPool::lose_worker(WorkerId worker, const Error& why) {
  std::shared_ptr<CallLink> link;
  bool request = false;
  {
    const std::lock_guard lock{mutex_};
    const auto found = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.id == worker; });
    if (found == workers_.end()) return;
    link = std::move(found->link);
    workers_.erase(found);
    request = wants_lease();
    if (request) ++leases_requested_;
  }
  link->lose(why);
  if (request) leases_.request_lease();
}

bool TaskPool::return_idle_workers() {
  std::vector<Worker> idle;
  bool left = false;
  {
    const std::lock_guard lock{mutex_};
    const TimePoint now = clock_.now();
    for (std::size_t i = 0; i < workers_.size();) {
      Worker& worker = workers_[i];
      if (worker.link->in_flight() != 0) worker.last_used = now;
      if (!waiting_.empty() || now - worker.last_used < kIdleTime) {
        ++i;
        continue;
      }
      idle.push_back(std::move(worker));
      workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    left = !workers_.empty() || leases_requested_ != 0;
  }
  for (const Worker& worker : idle) {
    worker.link->lose(Error{ErrorCode::kWorkerDied, "the worker was given back"});
    leases_.return_lease(worker.id);
  }
  return left;
}

void TaskPool::close(const Error& why) {
  std::deque<Task> failed;
  std::vector<Worker> workers;
  {
    const std::lock_guard lock{mutex_};
    closed_ = why;
    failed.swap(waiting_);
    workers.swap(workers_);
  }
  for (Task& task : failed) task.cell->set_error(Error{why}.with_outcome(Outcome::kNotStarted));
  for (const Worker& worker : workers) worker.link->lose(why);
}

}  // namespace pharos::actors
