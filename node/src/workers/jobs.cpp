#include "workers/jobs.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

#include "node/demands.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kFarStopTime = 1s;            // beyond kStopTime, to hear that all nodes have stopped
constexpr std::uint32_t kFarLeasesMin = 16;  // leases that a driver asks for at once if its node has no CPUs

}  // namespace

Jobs::Jobs(Site& site, Clients& clients, FarNodes& far_nodes, Workers& workers, JobOutput& output, Owner& owner)
    : site_{site},
      clients_{clients},
      workers_{workers},
      owner_{owner},
      zygotes_{site, clients},
      programs_{site, far_nodes, [&output](Job& job, const std::string& warning) {
                  output.send(
                      job, {.label = "node", .pid = ::getpid(), .error = true, .lines = warning + "\n", .job = job.id});
                }} {}

std::shared_ptr<Job> Jobs::find(JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second;
}

// ---- Jobs of drivers here

void Jobs::add(std::shared_ptr<net::Peer> driver, net::Parcel registration, std::uint64_t request) {
  site_.background.spawn(register_job(std::move(driver), std::move(registration), request));
}

async::Async<void> Jobs::register_job(std::shared_ptr<net::Peer> driver, net::Parcel registration,
                                      std::uint64_t request) {
  if (!clients_.contains(*driver)) co_return;  // the driver has ended meanwhile
  if (refusal_) {
    driver->respond(request, *refusal_);
    co_return;
  }
  auto job = std::make_shared<Job>();
  job->id = JobId{random_u64()};
  job->caller = CallerId{random_u64()};
  job->driver = driver;
  job->program = std::move(std::get<wire::RegisterJob>(registration.message));
  job->executable = std::move(registration.descriptors.front());
  jobs_.emplace(job->id, job);
  clients_.set({driver, job, nullptr, job->caller});
  site_.head.tell(wire::AddJob{job->id, job->program});
  // A node that offers no resources runs nothing, so it needs no zygote.
  if (!site_.settings.machine.resources.empty()) {
    const auto loaded = co_await zygotes_.load(job);
    if (!loaded) {
      end_driver(job);
      driver->respond(request, loaded.error());
      co_return;
    }
  }
  driver->respond(request, registration_of(*job, job->caller));
}

wire::JobRegistered Jobs::registration_of(const Job& job, CallerId caller) const {
  const scheduler::Resources& here = site_.settings.machine.resources;
  return {.job = job.id,
          .caller = caller,
          .node = site_.settings.id,
          .cpus = here.cpus() != 0 ? whole_cpus(here) : std::max(cluster_cpus_, kFarLeasesMin),
          .warning = job.warning,
          .address = site_.settings.address};
}

// ---- Jobs of drivers at other nodes

void Jobs::add_far(wire::AddJob add) {
  auto job = std::make_shared<Job>();
  job->id = add.job;
  job->program = std::move(add.program);
  job->program_life = ProgramLife{ProgramState::kFetching};
  std::vector<NodeId> sources = std::move(add.others);
  if (add.node) sources.insert(sources.begin(), add.node);
  if (jobs_.emplace(job->id, job).second) site_.background.spawn(load_far(job, std::move(sources)));
}

async::Async<void> Jobs::load_far(std::shared_ptr<Job> job, std::vector<NodeId> sources) {
  auto loaded = co_await programs_.obtain(job, std::move(sources));
  if (loaded) {
    job->program_life.on(ProgramEvent::kOpened);
    loaded = co_await zygotes_.load_patiently(job);
  }
  if (loaded) co_return;
  log(LogLevel::kWarn, "a program cannot run here", {kv("job", job->id), kv("error", loaded.error())});
  job->program_life.on(ProgramEvent::kRefused);
  job->broken = loaded.error();
  zygotes_.break_job(*job, loaded.error());
}

// ---- Ends

void Jobs::stop_everywhere(const std::shared_ptr<Job>& job, std::uint64_t request) {
  if (job->life.state() != JobState::kRunning) return;
  job->life.on(JobEvent::kDriverAsks);
  site_.background.spawn(wait_until_stopped(job, request));
}

async::Async<void> Jobs::wait_until_stopped(std::shared_ptr<Job> job, std::uint64_t request) {
  site_.head.tell(wire::StopJob{job->id});
  const auto deadline = async::Deadline::after(kStopTime + kFarStopTime, site_.executor.now());
  const auto everywhere = co_await job->stopped_everywhere.wait(deadline);
  const auto driver = job->driver;
  if (driver == nullptr) co_return;
  if (!everywhere) log(LogLevel::kError, "not all nodes have ended their workers", {kv("job", job->id)});
  end_driver(job);
  driver->respond(request, wire::Done{});
}

void Jobs::stop_here(JobId job) {
  site_.background.spawn(stop_workers(job));
}

// Ends the workers of a job on this node, actors after their destructors.
async::Async<void> Jobs::stop_workers(JobId id) {
  if (const auto job = find(id); job != nullptr) {
    if (job->life.state() == JobState::kStopping) co_return;  // an earlier head has ordered this already
    job->life.on(JobEvent::kHeadOrders);
    const auto workers = workers_.end_all(*job);
    owner_.on_job_stops(id);
    co_await workers_.wait_until_ended(workers);
    job->life.on(JobEvent::kWorkersGone);
  }
  site_.head.tell(wire::JobStopped{id});
}

void Jobs::on_stopped_everywhere(JobId job) {
  if (const auto stopped = find(job)) stopped->stopped_everywhere.complete();
}

// The head decides whether the job has ended with its driver, or detached actors go on, perhaps on this node.
void Jobs::end_driver(const std::shared_ptr<Job>& job) {
  if (job->ended() || job->driver == nullptr) return;
  const Client driver{std::exchange(job->driver, nullptr), job, nullptr, job->caller};
  job->unshown.clear();
  site_.head.tell(wire::EndJob{job->id});
  owner_.on_caller_ended(driver);
}

// Detached actors may bring the job back to this node later, as another Job with the same id. So records are compared
// by their Job, and not by the id.
void Jobs::end(JobId id) {
  const std::shared_ptr<Job> job = find(id);
  if (job == nullptr) return;
  job->life.on(JobEvent::kOver);
  jobs_.erase(id);
  owner_.on_job_ended(job);
  workers_.kill_all(*job);
  zygotes_.end(*job);
  programs_.forget(*job);
}

void Jobs::ask_again() const {
  for (const auto& [id, job] : jobs_) {
    if (job->life.state() != JobState::kRunning && job->driver != nullptr) site_.head.tell(wire::StopJob{id});
  }
}

void Jobs::on_child_ended(pid_t pid, int status) {
  for (const auto& [id, job] : jobs_) {
    zygotes_.on_process_ended(*job, pid, status);
  }
}

}  // namespace pharos::node
