#include <algorithm>
#include <cerrno>
#include <chrono>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

#include "node/node_records.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kZygoteTime = 55s;            // to load the program; less than a driver waits
constexpr auto kFarStopTime = 1s;            // beyond kStopTime, to hear that all nodes have stopped
constexpr std::uint32_t kFarLeasesMin = 16;  // leases that a driver asks for at once if its node has no CPUs
constexpr auto kZygoteLife = 30s;            // after which a zygote has lived for long

}  // namespace

async::Async<void> Node::register_job(Node* self, std::shared_ptr<net::Peer> driver, net::Parcel parcel,
                                      std::uint64_t request) {
  if (!self->clients_.contains(driver.get())) co_return;  // the driver has ended meanwhile
  if (self->refusal_) {
    driver->respond(request, *self->refusal_);
    co_return;
  }
  auto job = std::make_shared<Job>();
  job->id = JobId{random_u64()};
  job->caller = CallerId{random_u64()};
  job->driver = driver;
  job->program = std::move(std::get<wire::RegisterJob>(parcel.message));
  job->executable = std::move(parcel.descriptors.front());
  self->jobs_.emplace(job->id, job);
  self->clients_.insert_or_assign(driver.get(), Client{driver, job, nullptr, job->caller});
  self->tell_head(wire::AddJob{job->id, job->program});
  // A node that offers no resources runs nothing, so it needs no zygote.
  if (!self->settings_.machine.resources.empty()) {
    const auto loaded = co_await load_program(self, job);
    if (!loaded) {
      self->end_driver(job);
      driver->respond(request, loaded.error());
      co_return;
    }
  }
  driver->respond(request, self->registration_of(*job, job->caller));
}

async::Async<Result<void>> Node::load_program(Node* self, std::shared_ptr<Job> job) {
  const std::string loading = "loading " + job->program.executable + " for its workers";
  auto started = co_await start_zygote(self, job);
  if (!started) co_return std::move(started).error();
  const auto ready = co_await job->zygote_ready.wait(async::Deadline::after(kZygoteTime, self->executor_.now()));
  if (!ready) co_return Error{ready.error()}.with(loading);
  if (ready->build_id != job->program.build_id) {
    co_return Error{ErrorCode::kFailedPrecondition,
                    "the zygote of " + job->program.executable + " is another build than the program",
                    "Start the program again."};
  }
  job->warning = ready->cannot_fork;
  job->loaded = true;
  // The zygote may have ended just after it was ready.
  if (job->zygote == nullptr && !job->ended) self->background_.spawn(restart_zygote(self, job));
  co_return {};
}

// ---- Zygotes

async::Async<Result<void>> Node::start_zygote(Node* self, std::shared_ptr<Job> job) {
  const Error over{ErrorCode::kRuntimeStopped, "the program has ended"};
  if (job->ended) co_return over;
  const net::Identity child{net::Role::kZygote, job->id.value()};
  PHAROS_CO_TRY(net::SocketPair pair, self->host_.make_inheritance(child, {}));
  PHAROS_CO_TRY(job->zygote_pid, self->host_.start_zygote(job->program, job->executable.get(), std::move(pair.second)));
  const auto deadline = async::Deadline::after(kZygoteTime, self->executor_.now());
  auto proved = co_await self->host_.prove(pair.first.get(), child, deadline);
  if (!proved) co_return std::move(proved).error().with("loading " + job->program.executable + " for its workers");
  if (job->ended) co_return over;
  job->zygote = self->add_peer(std::move(pair.first));
  self->clients_.insert_or_assign(job->zygote.get(), Client{job->zygote, job, nullptr, {}});
  job->zygote_since = self->executor_.now();
  co_return {};
}

async::Async<void> Node::restart_zygote(Node* self, std::shared_ptr<Job> job) {
  if (self->executor_.now() - job->zygote_since >= kZygoteLife) job->zygote_restarts = 0;
  while (!job->ended && !job->broken && ++job->zygote_restarts <= kZygoteRestartsMax) {
    log(LogLevel::kWarn, "a program's zygote ended, and is started again", {kv("job", job->id)});
    job->zygote_ready = {};
    const auto started = co_await start_zygote(self, job);
    if (started || job->ended) co_return;
    log(LogLevel::kError, "a program's zygote cannot be started", {kv("job", job->id), kv("error", started.error())});
  }
  if (!job->ended) log(LogLevel::kError, "a program's zygote ends again and again", {kv("job", job->id)});
}

void Node::drop_zygote(Job& job) {
  if (job.zygote == nullptr) return;
  clients_.erase(job.zygote.get());
  std::exchange(job.zygote, nullptr)->close();
}

void Node::on_zygote_message(Job& job, net::Parcel parcel) {
  if (const auto* const ready = std::get_if<wire::ZygoteReady>(&parcel.message)) {
    job.zygote_ready.complete(*ready);
  } else if (const auto* const forked = std::get_if<wire::WorkerForked>(&parcel.message)) {
    if (const auto worker = find_worker(forked->worker)) {
      know_process(*worker, forked->pid, std::move(parcel.descriptors.front()));
    }
  } else if (const auto* const reaped = std::get_if<wire::WorkerReaped>(&parcel.message)) {
    if (const auto worker = find_worker(reaped->worker)) {
      worker->crashed = reaped->crashed;
      process_ended(*worker, reaped->status);
    }
  } else if (const auto* const crashed = std::get_if<wire::WorkerCrashed>(&parcel.message)) {
    if (const auto worker = find_worker(crashed->worker)) worker->crash.complete(*crashed);
  }
}

// ---- Ends

async::Async<void> Node::stop_job(Node* self, std::shared_ptr<Job> job, std::uint64_t request) {
  self->tell_head(wire::StopJob{job->id});
  const auto deadline = async::Deadline::after(kStopTime + kFarStopTime, self->executor_.now());
  const auto everywhere = co_await job->stopped_everywhere.wait(deadline);
  const auto driver = job->driver;
  if (driver == nullptr) co_return;
  if (!everywhere) log(LogLevel::kError, "not all nodes have ended their workers", {kv("job", job->id)});
  self->end_driver(job);
  driver->respond(request, wire::Done{});
}

async::Async<void> Node::stop_here(Node* self, JobId id) {
  if (const auto found = self->jobs_.find(id); found != self->jobs_.end()) {
    const auto job = found->second;
    if (std::exchange(job->stopping, true) && !job->stopped) co_return;  // an earlier head has told this node already
    co_await stop_workers(self, job);
    job->stopped = true;
  }
  self->tell_head(wire::JobStopped{id});
}

// The head decides whether the job has ended with its driver, or detached actors go on, perhaps on this node.
void Node::end_driver(const std::shared_ptr<Job>& job) {
  if (job->ended || job->driver == nullptr) return;
  const Client driver{std::exchange(job->driver, nullptr), job, nullptr, job->caller};
  job->unshown.clear();
  job->unshown_bytes = 0;
  tell_head(wire::EndJob{job->id});
  end_caller(driver);
}

// Detached actors may bring the job back to this node later, as another Job with the same id. So records are compared
// by their Job, and not by the id.
void Node::end_job(const std::shared_ptr<Job>& job) {
  if (std::exchange(job->ended, true)) return;
  const JobId id = job->id;
  job->zygote_ready.fail(Error{ErrorCode::kRuntimeStopped, "the program has ended"});
  jobs_.erase(id);
  std::erase_if(lease_requests_, [&](const auto& entry) { return entry.second.client.job == job; });
  forget_questions([&](const Client& client) { return client.job == job; });
  std::erase_if(far_leases_, [&](const auto& entry) { return entry.second.client.job == job; });
  apply(leases_.job_ended(id));
  forget_holds(job->caller);
  for (const auto& [worker_id, worker] : workers_) {
    if (worker->job == job) kill_worker(*worker);
  }
  if (job->zygote != nullptr) {
    drop_zygote(*job);
  } else if (job->zygote_pid != 0) {
    host_.kill_zygote(job->zygote_pid);
  }
}

wire::JobRegistered Node::registration_of(const Job& job, CallerId caller) const {
  return {.job = job.id,
          .caller = caller,
          .node = settings_.id,
          .cpus = leases_.total().cpus() != 0 ? whole_cpus(leases_.total()) : std::max(cluster_cpus_, kFarLeasesMin),
          .warning = job.warning,
          .address = settings_.address};
}

}  // namespace pharos::node
