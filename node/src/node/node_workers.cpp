#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

#include "node/node_records.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kWorkerTime = 30s;  // from the request to the worker's proof
constexpr auto kZygoteEndTime = 5ms;
constexpr auto kReasonTime = 50ms;  // between the end of a connection and the report of how the process ended
constexpr auto kCrashTime = 2s;     // to find out where a worker crashed
constexpr std::size_t kOutputQueuedMax = std::size_t{1} << 20;
constexpr std::size_t kFarOutputUnshownMax = std::size_t{16} << 20;

std::string comma_separated(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace

std::string describe_end(int status) {
  if (status < 0) return std::string{"it could not be started: "} + ::strerror(-status);
  if (WIFSIGNALED(status)) {
    const char* const name = ::sigabbrev_np(WTERMSIG(status));
    return "its process was killed by " +
           (name == nullptr ? "signal " + std::to_string(WTERMSIG(status)) : std::string{"SIG"} + name);
  }
  return "its process exited with status " + std::to_string(WEXITSTATUS(status));
}

std::shared_ptr<Node::Worker> Node::find_worker(WorkerId worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : found->second;
}

std::shared_ptr<Node::Worker> Node::find_incarnation(ActorId actor, std::uint32_t incarnation) const {
  for (const auto& [id, worker] : workers_) {
    if (worker->actor == actor && worker->incarnation == incarnation && worker->control != nullptr) return worker;
  }
  return nullptr;
}

// ---- Start

async::Async<Result<std::shared_ptr<Node::Worker>>> Node::start_worker(Node* self, std::shared_ptr<Job> job,
                                                                       ActorId actor, std::string label,
                                                                       std::uint32_t incarnation,
                                                                       std::vector<std::string> gpus) {
  auto deadline = async::Deadline::after(kWorkerTime, self->executor_.now());
  for (;;) {
    // A zygote that has ended is started again within this time, or not at all.
    while (job->zygote == nullptr || !job->loaded) {
      if (job->coming) deadline = async::Deadline::after(kWorkerTime, self->executor_.now());
      if (job->broken) co_return Error{*job->broken}.with("on node " + to_string(self->settings_.id));
      if (job->ended || job->zygote_restarts > kZygoteRestartsMax || deadline.expired(self->executor_.now())) {
        co_return Error{ErrorCode::kUnavailable, "the program's zygote is gone, so it can have no new workers",
                        "Start the program again."};
      }
      PHAROS_CO_TRY_VOID(co_await async::sleep(5ms));
    }
    const auto zygote = job->zygote;
    auto worker = co_await fork_worker(self, job, actor, label, incarnation, gpus, deadline);
    if (worker || job->ended) co_return worker;
    // The zygote may have ended without reading the request. Its end is known at about the same time.
    PHAROS_CO_TRY_VOID(co_await async::sleep(kZygoteEndTime));
    if (job->zygote == zygote) co_return worker;
  }
}

async::Async<Result<std::shared_ptr<Node::Worker>>> Node::fork_worker(Node* self, std::shared_ptr<Job> job,
                                                                      ActorId actor, std::string label,
                                                                      std::uint32_t incarnation,
                                                                      std::vector<std::string> gpus,
                                                                      async::Deadline deadline) {
  auto worker = std::make_shared<Worker>();
  worker->id = WorkerId{random_u64()};
  worker->job = job;
  worker->actor = actor;
  worker->incarnation = incarnation;
  worker->label = std::move(label);
  worker->gpus = std::move(gpus);

  const net::Identity child{net::Role::kWorker, worker->id.value()};
  PHAROS_CO_TRY(net::SocketPair control, self->host_.make_inheritance(child, worker->label));
  const auto stream = [&](bool is_error) {
    auto* const raw = worker.get();
    return self->host_.make_output([self, raw] { return self->takes_output(*raw->job); },
                                   [self, raw, is_error](std::string lines) {
                                     self->logs_.write(raw->id, lines);
                                     self->send_output(*raw->job, wire::Output{raw->label, raw->pid, is_error,
                                                                               std::move(lines), false, raw->job->id});
                                   });
  };
  PHAROS_CO_TRY(Host::OutputPipe out, stream(false));
  PHAROS_CO_TRY(Host::OutputPipe error, stream(true));
  worker->output = std::move(out.output);
  worker->error_output = std::move(error.output);
  std::vector<Fd> descriptors;
  descriptors.push_back(std::move(control.second));
  descriptors.push_back(std::move(out.for_worker));
  descriptors.push_back(std::move(error.for_worker));
  worker->since = self->executor_.now();
  self->workers_.emplace(worker->id, worker);
  self->logs_.begin({worker->id, actor, incarnation, worker->label});
  self->watch_memory_if_needed();
  job->zygote->send(wire::ForkWorker{worker->id, {"CUDA_VISIBLE_DEVICES=" + comma_separated(worker->gpus)}},
                    std::move(descriptors));

  auto proved = co_await self->host_.prove(control.first.get(), child, deadline);
  if (!proved || job->ended) {
    worker->failed_to_start = true;
    self->kill_worker(*worker);
    self->background_.spawn(conclude_worker(self, worker));
    if (!proved) {
      co_return Error{ErrorCode::kWorkerDied, "a worker ended before it was ready: " + proved.error().message(),
                      "Its output may say why."}
          .with_outcome(Outcome::kNotStarted);
    }
    co_return Error{ErrorCode::kRuntimeStopped, "the program has ended"}.with_outcome(Outcome::kNotStarted);
  }
  worker->control = self->add_peer(std::move(control.first));
  const CallerId caller{worker->id.value()};
  self->clients_.insert_or_assign(worker->control.get(), Client{worker->control, job, worker, caller});
  worker->control->send(self->registration_of(*job, caller));
  co_return worker;
}

void Node::know_process(Worker& worker, pid_t pid, Fd handle) {
  if (worker.handle) return;
  worker.pid = pid;
  worker.handle = std::move(handle);
  logs_.note_process(worker.id, pid);
  if (worker.gone || worker.job->ended) kill_worker(worker);
}

// ---- Output

bool Node::takes_output(const Job& job) {
  return (job.driver != nullptr ? job.unshown_bytes : queued_to_head_()) < kOutputQueuedMax;
}

void Node::send_output(Job& job, wire::Output output) {
  if (job.driver == nullptr) return tell_head(std::move(output));
  job.unshown.push_back(output.lines.size());
  job.unshown_bytes += output.lines.size();
  job.driver->send(output);
}

// Output of a worker at another node.
void Node::forward_output(const wire::Output& output) {
  const auto of_job = jobs_.find(output.job);
  if (of_job == jobs_.end() || of_job->second->driver == nullptr) return;
  Job& job = *of_job->second;
  // If a driver shows nothing, it misses lines of other machines; otherwise it would block the workers there.
  if (job.unshown_bytes < kFarOutputUnshownMax) send_output(job, output);
}

void Node::note_shown(Job& job) {
  if (job.unshown.empty()) return;
  job.unshown_bytes -= job.unshown.front();
  job.unshown.pop_front();
}

// ---- End

void Node::end_worker(const std::shared_ptr<Worker>& worker, Duration grace, bool moves) {
  if (worker->control == nullptr) return kill_worker(*worker);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(grace).count();
  worker->control->send(wire::EndWorker{static_cast<std::uint32_t>(milliseconds), moves});
  executor_.run_at(executor_.now() + grace + kStopTime, [this, weak = std::weak_ptr{worker}] {
    if (const auto late = weak.lock()) kill_worker(*late);
  });
}

void Node::kill_worker(Worker& worker) {
  worker.gone = true;  // if its process is not known yet, it is killed as soon as it is
  if (!worker.handle) return;
  host_.kill_worker(worker.handle.get(), worker.pid);
}

void Node::process_ended(Worker& worker, int status) {
  worker.reaped.complete(status);
  worker.process_gone.complete();
}

// The worker's connection has ended. How its process ended is known a moment later.
async::Async<void> Node::conclude_worker(Node* self, std::shared_ptr<Worker> worker) {
  auto reaped = co_await worker->reaped.wait(async::Deadline::after(kReasonTime, self->executor_.now()));
  if (!reaped) {
    // A process that has closed its connection but lives on is of no use to any caller.
    self->kill_worker(*worker);
    reaped = co_await worker->reaped.wait(async::Deadline::after(kReasonTime, self->executor_.now()));
  }
  std::string reason = reaped ? describe_end(*reaped) : "its connection ended";
  if (reaped && WIFSIGNALED(*reaped) && WTERMSIG(*reaped) == SIGKILL && !worker->gone) {
    self->note_if_kernel_killed(*worker);
  }
  if (!worker->killed_because.empty()) reason = worker->killed_because;
  // The worker may have left processes behind.
  if (worker->handle) self->host_.kill_worker(worker->handle.get(), worker->pid);
  worker->output->drain();
  worker->error_output->drain();
  if (worker->crashed) {
    auto crash = co_await worker->crash.wait(async::Deadline::after(kCrashTime, self->executor_.now()));
    if (crash) {
      reason += crash->headline;
      self->logs_.write(worker->id, crash->report);
      self->send_output(*worker->job,
                        wire::Output{worker->label, worker->pid, true, crash->report, true, worker->job->id});
    }
  }
  self->send_output(*worker->job, wire::Output{worker->label, worker->pid, false, "", false, worker->job->id, true});
  self->logs_.end(worker->id, reason);
  self->apply(self->leases_.worker_ended(worker->id));
  if (!worker->job->ended && worker->user != nullptr) {
    worker->user->send(wire::WorkerEnded{worker->id, reason, worker->out_of_memory});
  }
  if (worker->far_user) self->tell_head(wire::WorkerEnded{worker->id, reason, worker->out_of_memory});
  self->workers_.erase(worker->id);
  if (worker->actor && !worker->failed_to_start) {
    self->incarnation_ended(worker->actor, worker->incarnation, worker->reservation, reason, worker->out_of_memory);
  }
  worker->process_gone.complete();
  worker->concluded.complete();
}

// Ends the workers of a job on this node, actors after their destructors.
async::Async<void> Node::stop_workers(Node* self, std::shared_ptr<Job> job) {
  std::vector<std::shared_ptr<Worker>> workers;
  for (const auto& [id, worker] : self->workers_) {
    if (worker->job == job) workers.push_back(worker);
  }
  for (const auto& worker : workers) self->end_worker(worker);
  std::vector<wire::EndIncarnation> unbegun;
  for (const auto& [reservation, starting] : self->starting_) {
    if (starting.start.job == job->id) unbegun.push_back({starting.start.actor, starting.start.incarnation, true});
  }
  for (const auto& end : unbegun) self->end_incarnation(end);
  const auto deadline = async::Deadline::after(kStopTime + kReasonTime, self->executor_.now());
  for (const auto& worker : workers) {
    const auto concluded = co_await worker->concluded.wait(deadline);
    if (!concluded) log(LogLevel::kError, "a worker does not end", {kv("pid", worker->pid)});
  }
}

}  // namespace pharos::node
