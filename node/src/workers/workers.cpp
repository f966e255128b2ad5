#include "workers/workers.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kWorkerTime = 30s;  // from the request to the worker's proof
constexpr auto kZygoteEndTime = 5ms;
constexpr auto kEndReportTime = 50ms;  // between the end of a connection and the report of how the process ended
constexpr auto kCrashTime = 2s;        // to find out where a worker crashed

std::string comma_separated(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

bool is_sigkill(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
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

std::shared_ptr<Worker> Workers::find(WorkerId worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : found->second;
}

std::shared_ptr<Worker> Workers::find(ActorId actor, std::uint32_t incarnation) const {
  for (const auto& [id, worker] : workers_) {
    const Incarnation& runs = worker->incarnation;
    if (runs.actor == actor && runs.number == incarnation && worker->control != nullptr) return worker;
  }
  return nullptr;
}

// ---- Start

async::Async<Result<std::shared_ptr<Worker>>> Workers::start(std::shared_ptr<Job> job, std::shared_ptr<Zygote> zygote,
                                                             ActorId actor, std::string label,
                                                             std::uint32_t incarnation, std::vector<std::string> gpus) {
  zygote->used = site_.executor.now();
  auto deadline = async::Deadline::after(kWorkerTime, site_.executor.now());
  for (;;) {
    // A zygote that has ended is started again within this time, or not at all.
    while (zygote->peer == nullptr || !zygote->loaded) {
      if (job->program_life.state() == ProgramState::kFetching) {
        deadline = async::Deadline::after(kWorkerTime, site_.executor.now());
      }
      if (zygote->broken) co_return Error{*zygote->broken}.with("on node " + to_string(site_.settings.id));
      if (job->ended() || zygote->restarts > Zygote::kRestartsMax || deadline.expired(site_.executor.now())) {
        co_return Error{ErrorCode::kUnavailable, "the program's zygote is gone, so it can have no new workers",
                        "Start the program again."};
      }
      PHAROS_CO_TRY_VOID(co_await async::sleep(5ms));
    }
    const auto peer = zygote->peer;
    auto forked = std::make_shared<Worker>();
    forked->id = WorkerId{random_u64()};
    forked->job = job;
    forked->zygote = zygote;
    forked->label = label;
    forked->gpus = gpus;
    forked->incarnation = {.actor = actor, .number = incarnation};
    auto worker = co_await fork(std::move(forked), deadline);
    if (worker || job->ended()) co_return worker;
    // The zygote may have ended without reading the request. Its end is known at about the same time.
    PHAROS_CO_TRY_VOID(co_await async::sleep(kZygoteEndTime));
    if (zygote->peer == peer) co_return worker;
  }
}

async::Async<Result<std::shared_ptr<Worker>>> Workers::fork(std::shared_ptr<Worker> worker, async::Deadline deadline) {
  const std::shared_ptr<Job> job = worker->job;
  const net::Identity child{net::Role::kWorker, worker->id.value()};
  PHAROS_CO_TRY(net::SocketPair control, site_.host.make_inheritance(child, worker->label));
  PHAROS_CO_TRY(std::vector<Fd> descriptors, make_streams(worker));
  descriptors.insert(descriptors.begin(), std::move(control.second));
  worker->process.since = site_.executor.now();
  workers_.emplace(worker->id, worker);
  logs_.begin({worker->id, worker->incarnation.actor, worker->incarnation.number, worker->label});
  owner_.on_worker_forking();
  worker->zygote->peer->send(wire::ForkWorker{worker->id, {"CUDA_VISIBLE_DEVICES=" + comma_separated(worker->gpus)}},
                             std::move(descriptors));

  auto proved = co_await site_.host.prove(control.first.get(), child, deadline);
  if (!proved || job->ended()) {
    worker->process.life.on(WorkerEvent::kNotProved);
    kill(*worker);
    site_.background.spawn(conclude(worker));
    if (!proved) {
      co_return Error{ErrorCode::kWorkerDied, "a worker ended before it was ready: " + proved.error().message(),
                      "Its output may say why."}
          .with_outcome(Outcome::kNotStarted);
    }
    co_return Error{ErrorCode::kRuntimeStopped, "the program has ended"}.with_outcome(Outcome::kNotStarted);
  }
  worker->process.life.on(WorkerEvent::kProved);
  worker->control = clients_.add(std::move(control.first), net::Descriptors::kAccepted);
  const CallerId caller{worker->id.value()};
  clients_.set({worker->control, job, worker, caller});
  worker->control->send(owner_.registration_of(*job, caller));
  co_return worker;
}

/// Makes the pipes of a worker's output. Returns their ends for the worker.
Result<std::vector<Fd>> Workers::make_streams(const std::shared_ptr<Worker>& worker) {
  const auto stream = [&](bool is_error) {
    Worker* const raw = worker.get();
    return site_.host.make_output([this, raw] { return output_.takes(*raw->job); },
                                  [this, raw, is_error](std::string lines) {
                                    logs_.write(raw->id, lines);
                                    output_.send(*raw->job, wire::Output{raw->label, raw->process.pid, is_error,
                                                                         std::move(lines), false, raw->job->id});
                                  });
  };
  PHAROS_TRY(Host::OutputPipe out, stream(false));
  auto error = stream(true);
  if (!error) {
    out.output->drain();  // until then the host calls back, and the worker does not live that long
    return std::move(error).error();
  }
  worker->process.output = std::move(out.output);
  worker->process.error_output = std::move(error->output);
  std::vector<Fd> for_worker;
  for_worker.push_back(std::move(out.for_worker));
  for_worker.push_back(std::move(error->for_worker));
  return for_worker;
}

void Workers::on_forked(const wire::WorkerForked& forked, Fd handle) {
  if (const auto worker = find(forked.worker)) on_forked(*worker, forked.pid, std::move(handle));
}

void Workers::on_forked(Worker& worker, pid_t pid, Fd handle) {
  if (worker.process.handle) return;
  worker.process.pid = pid;
  worker.process.handle = std::move(handle);
  logs_.note_process(worker.id, pid);
  if (worker.process.is_killed() || worker.job->ended()) kill(worker);
}

// ---- End

void Workers::end(const std::shared_ptr<Worker>& worker, Duration grace, bool moves) {
  if (worker->control == nullptr) return kill(*worker);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(grace).count();
  worker->control->send(wire::EndWorker{static_cast<std::uint32_t>(milliseconds), moves});
  site_.executor.run_at(site_.executor.now() + grace + kStopTime, [this, weak = std::weak_ptr{worker}] {
    if (const auto late = weak.lock()) kill(*late);
  });
}

void Workers::kill(Worker& worker) {
  worker.process.life.on(WorkerEvent::kKilled);
  if (!worker.process.handle) return;
  site_.host.kill_worker(worker.process.handle.get(), worker.process.pid);
}

void Workers::kill_all(const Job& job) {
  for (const auto& [id, worker] : workers_) {
    if (worker->job.get() == &job) kill(*worker);
  }
}

std::vector<std::shared_ptr<Worker>> Workers::end_all(const Job& job) {
  std::vector<std::shared_ptr<Worker>> workers;
  for (const auto& [id, worker] : workers_) {
    if (worker->job.get() == &job) workers.push_back(worker);
  }
  for (const auto& worker : workers) end(worker);
  return workers;
}

async::Async<void> Workers::wait_until_ended(std::vector<std::shared_ptr<Worker>> workers) {
  const auto deadline = async::Deadline::after(kStopTime + kEndReportTime, site_.executor.now());
  for (const auto& worker : workers) {
    const auto concluded = co_await worker->concluded.wait(deadline);
    if (!concluded) log(LogLevel::kError, "a worker does not end", {kv("pid", worker->process.pid)});
  }
}

void Workers::on_reaped(const wire::WorkerReaped& reaped) {
  if (const auto worker = find(reaped.worker)) process_ended(*worker, {reaped.status, reaped.crashed});
}

void Workers::on_crashed(const wire::WorkerCrashed& crashed) {
  if (const auto worker = find(crashed.worker)) worker->process.crash.complete(crashed);
}

// Orphans of workers become children of this process, and so do workers whose zygote is gone.
void Workers::on_child_ended(pid_t pid, int status) {
  for (const auto& [id, worker] : workers_) {
    if (worker->process.pid == pid) process_ended(*worker, {status, worker->process.has_crashed()});
  }
}

void Workers::process_ended(Worker& worker, Process::End end) {
  worker.process.end = end;
  worker.process.reaped.complete(end.status);
  worker.process.gone.complete();
}

void Workers::on_zygote_ended(const Job& job, const net::Peer& peer) {
  for (const auto& [id, worker] : workers_) {
    if (worker->job.get() == &job && worker->zygote->peer.get() == &peer) {
      worker->process.crash.fail(Error{ErrorCode::kUnavailable, "its zygote has ended"});
    }
  }
}

void Workers::on_connection_ended(std::shared_ptr<Worker> worker) {
  site_.background.spawn(conclude(std::move(worker)));
}

// How the process of a worker ended is known a moment after the end of its connection.
async::Async<std::string> Workers::find_reason(std::shared_ptr<Worker> worker) {
  auto reaped = co_await worker->process.reaped.wait(async::Deadline::after(kEndReportTime, site_.executor.now()));
  if (!reaped) {
    // A process that has closed its connection but lives on is of no use to any caller.
    kill(*worker);
    reaped = co_await worker->process.reaped.wait(async::Deadline::after(kEndReportTime, site_.executor.now()));
  }
  if (reaped && is_sigkill(*reaped) && !worker->process.is_killed()) {
    if (std::string why = owner_.why_kernel_killed(); !why.empty()) worker->killed_for_memory = std::move(why);
  }
  if (!worker->killed_for_memory.empty()) co_return worker->killed_for_memory;
  co_return reaped ? describe_end(*reaped) : "its connection ended";
}

async::Async<void> Workers::conclude(std::shared_ptr<Worker> worker) {
  std::string reason = co_await find_reason(worker);
  Process& process = worker->process;
  Job& job = *worker->job;
  // The worker may have left processes behind.
  if (process.handle) site_.host.kill_worker(process.handle.get(), process.pid);
  process.output->drain();
  process.error_output->drain();
  if (process.has_crashed()) {
    auto crash = co_await process.crash.wait(async::Deadline::after(kCrashTime, site_.executor.now()));
    if (crash) {
      reason += crash->headline;
      logs_.write(worker->id, crash->report);
      output_.send(job, wire::Output{worker->label, process.pid, true, crash->report, true, job.id});
    }
  }
  output_.send(job, wire::Output{worker->label, process.pid, false, "", false, job.id, true});
  logs_.end(worker->id, reason);
  workers_.erase(worker->id);
  owner_.on_worker_ended(*worker, reason);
  process.gone.complete();
  worker->concluded.complete();
}

}  // namespace pharos::node
