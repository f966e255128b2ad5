// When memory is short, the node kills workers before the kernel kills any process: one at a time, the cheapest first
// (victims.hpp).
//
// 1. The next worker is killed only after the process of the last one is gone and memory has been read again.
// 2. Callers that wait for a killed worker are told why it was killed, with numbers.

#include <algorithm>
#include <chrono>
#include <cmath>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>

#include "node/node_records.hpp"
#include "node/victims.hpp"

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

void Node::watch_memory_if_needed() {
  if (!std::exchange(watches_memory_, true)) background_.spawn(watch_memory(this));
}

async::Async<void> Node::watch_memory(Node* self) {
  bool told_in_vain = false;
  while (!self->workers_.empty() && self->look_at_memory()) {
    if (self->memory_is_short()) {
      const auto victim = co_await find_victim(self);
      if (victim != nullptr) {
        self->kill_for_memory(*victim);
        const bool gone = co_await wait_until_gone(self, victim);
        if (!gone) break;
        continue;  // rule 1
      }
      if (!std::exchange(told_in_vain, true)) {
        log(LogLevel::kWarn, "memory is short, and there is no worker to kill",
            {kv("used", self->memory_->used), kv("total", self->memory_->total)});
      }
    } else {
      told_in_vain = false;
    }
    const auto slept = co_await async::sleep(kWatchTime);
    if (!slept) break;
  }
  self->watches_memory_ = false;
}

/// Reads the memory use. Returns false if it is not known.
bool Node::look_at_memory() {
  const auto use = host_.memory_use();
  if (use && memory_ && use->kills > memory_->kills) kernel_killed_ = executor_.now();
  memory_ = use;
  return memory_.has_value();
}

bool Node::memory_is_short() const {
  const auto total = static_cast<double>(memory_->total.bytes());
  return static_cast<double>(memory_->used.bytes()) > settings_.memory_threshold * total;
}

async::Async<std::shared_ptr<Node::Worker>> Node::find_victim(Node* self) {
  std::vector<std::shared_ptr<Worker>> workers;
  std::vector<Candidate> candidates;
  const auto inspection = std::make_shared<Inspection>();
  for (const auto& [id, worker] : self->workers_) {
    if (worker->gone || worker->control == nullptr) continue;
    const bool idle = !worker->actor && !self->leases_.lessee_of(id);
    workers.push_back(worker);
    candidates.push_back({.idle = idle,
                          .may_run_again = worker->may_restart,
                          .since = worker->since,
                          .memory = self->host_.memory_of(worker->pid)});
    if (!worker->actor && !idle) inspection->answer.workers.push_back({.worker = id});
  }
  const bool any_idle = std::any_of(candidates.begin(), candidates.end(), [](const auto& each) { return each.idle; });
  if (!any_idle) {
    co_await ask_what_runs(self, inspection);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      for (const wire::InspectedWorker& told : inspection->answer.workers) {
        if (told.worker != workers[i]->id || !told.answered || told.function == wire::kNoFunction) continue;
        candidates[i].may_run_again = told.may_run_again;
        candidates[i].since = self->executor_.now() - std::chrono::nanoseconds{told.nanoseconds};
      }
    }
  }
  const auto chosen = choose_victim(candidates);
  co_return chosen ? workers[*chosen] : nullptr;
}

/// Asks the workers of the inspection what they run. A worker that does not answer in time may run something that
/// cannot be run again.
async::Async<void> Node::ask_what_runs(Node* self, std::shared_ptr<Inspection> inspection) {
  const auto deadline = async::Deadline::after(kAskTime, self->executor_.now());
  for (const wire::InspectedWorker& entry : inspection->answer.workers) {
    const auto worker = self->find_worker(entry.worker);
    ++inspection->missing;
    self->background_.spawn(inspect_worker(inspection, worker, deadline));
  }
  inspection->take_one();  // the answer of the head, which is not asked
  [[maybe_unused]] const auto all = co_await inspection->done.wait(deadline);
}

void Node::kill_for_memory(Worker& worker) {
  if (find_worker(worker.id) == nullptr) return;  // the worker has just ended by itself
  const ByteCount its = host_.memory_of(worker.pid);
  const auto percent = static_cast<int>(std::lround(settings_.memory_threshold * 100));
  worker.killed_because = "the node killed it because memory was short: it had " + to_string(its) + ", and " +
                          describe(*memory_) + " were in use; the limit is " + std::to_string(percent) + "%";
  worker.out_of_memory = true;
  log(LogLevel::kWarn, "memory is short, and a worker is killed",
      {kv("worker", worker.label), kv("pid", worker.pid), kv("bytes", its), kv("used", memory_->used),
       kv("total", memory_->total)});
  kill_worker(worker);
  // An idle worker must not be leased to a caller any more.
  const bool idle = !worker.actor && !leases_.lessee_of(worker.id) && leases_.held_by(worker.id).empty();
  if (idle) apply(leases_.worker_ended(worker.id));
}

/// Returns false if the node ends.
async::Async<bool> Node::wait_until_gone(Node* self, std::shared_ptr<Worker> worker) {
  for (;;) {
    const auto gone = co_await worker->process_gone.wait(async::Deadline::after(kEndPatience, self->executor_.now()));
    if (gone) co_return true;
    if (gone.error().code() != ErrorCode::kDeadlineExceeded) co_return false;
    log(LogLevel::kError, "a worker that was killed because memory was short does not end", {kv("pid", worker->pid)});
  }
}

/// For a worker that was killed by SIGKILL, but not by this node: notes whether the kernel has killed it for memory,
/// faster than the watch.
void Node::note_if_kernel_killed(Worker& worker) {
  if (!memory_ || !look_at_memory() || !kernel_killed_ || *kernel_killed_ + kBlameTime < executor_.now()) return;
  worker.killed_because = "the kernel killed it because memory ran out: the node has " + to_string(memory_->least);
  worker.out_of_memory = true;
}

}  // namespace pharos::node
