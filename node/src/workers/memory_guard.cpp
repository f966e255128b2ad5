#include "workers/memory_guard.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kWatchTime = 250ms;
constexpr auto kAskTime = 100ms;     // for workers to say what they run; short, because memory fills meanwhile
constexpr auto kEndPatience = 10s;   // with a process that was killed, before the log says that it does not end
constexpr auto kBlameTime = 1500ms;  // between a kill by the kernel and the report of a worker's end, at most

std::string describe(const Host::MemoryUse& use) {
  return to_string(use.used) + " of the " + to_string(use.total) +
         (use.of_cgroup ? " that the node's cgroup allows" : " of the node's machine");
}

}  // namespace

void MemoryGuard::watch() {
  if (!std::exchange(watches_, true)) site_.background.spawn(watch_until_idle());
}

async::Async<void> MemoryGuard::watch_until_idle() {
  bool told_in_vain = false;
  while (!workers_.all().empty() && look()) {
    if (is_short()) {
      const auto victim = co_await find_victim();
      if (!look()) break;
      if (!is_short()) continue;  // some memory was freed while the workers said what they run
      if (victim != nullptr) {
        kill(*victim);
        const bool gone = co_await wait_until_gone(victim);
        if (!gone) break;
        continue;  // rule 1
      }
      if (!std::exchange(told_in_vain, true)) {
        log(LogLevel::kWarn, "memory is short, and there is no worker to kill",
            {kv("used", memory_->used), kv("total", memory_->total)});
      }
    } else {
      told_in_vain = false;
    }
    const auto slept = co_await async::sleep(kWatchTime);
    if (!slept) break;
  }
  watches_ = false;
}

/// Reads the memory use. Returns false if it is not known.
bool MemoryGuard::look() {
  const auto use = site_.host.memory_use();
  if (use && memory_ && use->kills > memory_->kills) kernel_killed_ = site_.executor.now();
  memory_ = use;
  return memory_.has_value();
}

bool MemoryGuard::is_short() const {
  const auto total = static_cast<double>(memory_->total.bytes());
  return static_cast<double>(memory_->used.bytes()) > site_.settings.memory_threshold * total;
}

async::Async<std::shared_ptr<Worker>> MemoryGuard::find_victim() {
  const auto can_be_killed = [](const Worker& worker) {
    return !worker.process.is_killed() && !worker.process.end && worker.control != nullptr;
  };
  const auto is_idle = [this](const Worker& worker) {
    return !worker.incarnation.actor && !book_.lessee_of(worker.id);
  };
  bool any_idle = false;
  const auto inspection = std::make_shared<WorkerInspection>();
  for (const auto& [id, worker] : workers_.all()) {
    if (!can_be_killed(*worker)) continue;
    any_idle = any_idle || is_idle(*worker);
    if (!worker->incarnation.actor) inspection->answer.workers.push_back({.worker = id});
  }
  if (!any_idle) co_await ask_what_runs(inspection);
  // Workers may have ended while the others answered. From here on nothing suspends, so the chosen one is still there.
  std::vector<std::shared_ptr<Worker>> workers;
  std::vector<Candidate> candidates;
  for (const auto& [id, worker] : workers_.all()) {
    if (!can_be_killed(*worker)) continue;
    Candidate candidate{.idle = is_idle(*worker),
                        .may_run_again = worker->incarnation.may_restart,
                        .since = worker->process.since,
                        .memory = site_.host.memory_of(worker->process.pid)};
    for (const wire::InspectedWorker& told : inspection->answer.workers) {
      if (told.worker != id || !told.answered || told.function == wire::kNoFunction) continue;
      candidate.may_run_again = told.may_run_again;
      candidate.since = site_.executor.now() - std::chrono::nanoseconds{told.nanoseconds};
    }
    workers.push_back(worker);
    candidates.push_back(candidate);
  }
  const auto chosen = choose_victim(candidates);
  co_return chosen ? workers[*chosen] : nullptr;
}

/// Asks the workers of the inspection what they run. A worker that does not answer in time may run something that
/// cannot be run again.
async::Async<void> MemoryGuard::ask_what_runs(std::shared_ptr<WorkerInspection> inspection) {
  const auto deadline = async::Deadline::after(kAskTime, site_.executor.now());
  for (const wire::InspectedWorker& entry : inspection->answer.workers) {
    const auto worker = workers_.find(entry.worker);
    ++inspection->missing;
    site_.background.spawn(inspect_worker(inspection, worker, deadline));
  }
  inspection->take_one();  // the answer of the head, which is not asked
  [[maybe_unused]] const auto all = co_await inspection->done.wait(deadline);
}

void MemoryGuard::kill(Worker& worker) {
  if (workers_.find(worker.id) == nullptr) return;  // the worker has just ended by itself
  const ByteCount its = site_.host.memory_of(worker.process.pid);
  const auto percent = static_cast<int>(std::lround(site_.settings.memory_threshold * 100));
  worker.killed_for_memory = "the node killed it because memory was short: it had " + to_string(its) + ", and " +
                             describe(*memory_) + " were in use; the limit is " + std::to_string(percent) + "%";
  log(LogLevel::kWarn, "memory is short, and a worker is killed",
      {kv("worker", worker.label), kv("pid", worker.process.pid), kv("bytes", its), kv("used", memory_->used),
       kv("total", memory_->total)});
  workers_.kill(worker);
  // An idle worker must not be leased to a caller any more.
  const bool idle = !worker.incarnation.actor && !book_.lessee_of(worker.id) && book_.held_by(worker.id).empty();
  if (idle) book_.tell_all([&](scheduler::Leases& leases) { return leases.worker_ended(worker.id); });
}

/// Returns false if the node ends.
async::Async<bool> MemoryGuard::wait_until_gone(std::shared_ptr<Worker> worker) {
  for (;;) {
    const auto gone = co_await worker->process.gone.wait(async::Deadline::after(kEndPatience, site_.executor.now()));
    if (gone) co_return true;
    if (gone.error().code() != ErrorCode::kDeadlineExceeded) co_return false;
    log(LogLevel::kError, "a worker that was killed because memory was short does not end",
        {kv("pid", worker->process.pid)});
  }
}

std::string MemoryGuard::why_kernel_killed() {
  if (!memory_ || !look() || !kernel_killed_ || *kernel_killed_ + kBlameTime < site_.executor.now()) return {};
  return "the kernel killed it because memory ran out: the node has " + to_string(memory_->least);
}

}  // namespace pharos::node
