#include "workers/zygotes.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>

#include "workers/workers.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kZygoteTime = 55s;  // to load the program; less than a driver waits
constexpr auto kZygoteLife = 30s;  // after which a zygote has lived for long
constexpr auto kLookTime = 5ms;    // between looks whether the program is here

/// The job's first zygote, which lives as long as the job.
std::shared_ptr<Zygote> first_of(const std::shared_ptr<Job>& job) {
  return {job, &job->zygote};
}

template <class Each>
void for_all(Job& job, const Each& each) {
  each(job.zygote);
  for (const auto& [environment, zygote] : job.others) each(*zygote);
}

}  // namespace

// ---- The first zygote of a job

async::Async<Result<void>> Zygotes::load(std::shared_ptr<Job> job) {
  co_return co_await load(job, first_of(job));
}

async::Async<Result<void>> Zygotes::load_patiently(std::shared_ptr<Job> job) {
  co_return co_await load_patiently(job, first_of(job));
}

void Zygotes::break_job(Job& job, const Error& why) {
  job.zygote.broken = why;
  drop(job.zygote);
}

// ---- Other environments

Result<std::shared_ptr<Zygote>> Zygotes::find(const std::shared_ptr<Job>& job,
                                              const scheduler::Environment& environment) {
  if (environment.empty()) return first_of(job);
  if (const auto found = job->others.find(environment); found != job->others.end()) return found->second;
  PHAROS_TRY_VOID(make_room());
  auto zygote = std::make_shared<Zygote>();
  zygote->environment = environment;
  zygote->used = site_.executor.now();
  job->others.emplace(environment, zygote);
  others_.push_back({job, zygote});
  site_.background.spawn(load_other(job, zygote));
  return zygote;
}

Result<void> Zygotes::make_room() {
  std::erase_if(others_, [](const Other& each) { return each.zygote.expired(); });
  if (others_.size() < kOthersMax) return {};
  // Workers have shares of their zygote, and so have coroutines that start them; else only the job has one.
  const auto is_unused = [](const Other& each) { return each.zygote.use_count() == 1; };
  auto oldest = others_.end();
  for (auto each = others_.begin(); each != others_.end(); ++each) {
    if (is_unused(*each) && (oldest == others_.end() || each->zygote.lock()->used < oldest->zygote.lock()->used)) {
      oldest = each;
    }
  }
  if (oldest == others_.end()) {
    return Error{ErrorCode::kOverloaded,
                 "this node has processes in " + std::to_string(kOthersMax) + " other environments, which is the limit",
                 "Use fewer different values in .env."};
  }
  const auto zygote = oldest->zygote.lock();
  if (const auto job = oldest->job.lock()) job->others.erase(zygote->environment);
  end(*zygote);
  others_.erase(oldest);
  return {};
}

async::Async<void> Zygotes::load_other(std::shared_ptr<Job> job, std::shared_ptr<Zygote> zygote) {
  while (job->program_life.state() == ProgramState::kFetching && !job->ended()) {
    const auto slept = co_await async::sleep(kLookTime);
    if (!slept) co_return;
  }
  Result<void> loaded{};
  if (job->broken) {
    loaded = Error{*job->broken};
  } else {
    loaded = co_await load_patiently(job, zygote);
  }
  if (loaded) co_return;
  log(LogLevel::kWarn, "a program cannot run here in another environment",
      {kv("job", job->id), kv("error", loaded.error())});
  zygote->broken = loaded.error();
  drop(*zygote);
  // The next task with this environment tries again.
  if (const auto found = job->others.find(zygote->environment); found != job->others.end() && found->second == zygote) {
    job->others.erase(found);
  }
}

// ---- All zygotes

async::Async<Result<void>> Zygotes::load(std::shared_ptr<Job> job, std::shared_ptr<Zygote> zygote) {
  const std::string loading = "loading " + job->program.executable + " for its workers";
  auto started = co_await start(job, zygote);
  if (!started) co_return std::move(started).error();
  const auto ready = co_await zygote->ready.wait(async::Deadline::after(kZygoteTime, site_.executor.now()));
  if (!ready) co_return Error{ready.error()}.with(loading);
  if (ready->build_id != job->program.build_id) {
    co_return Error{ErrorCode::kFailedPrecondition,
                    "the zygote of " + job->program.executable + " is another build than the program",
                    "Start the program again."};
  }
  zygote->loaded = true;
  if (zygote->environment.empty()) {
    job->warning = ready->cannot_fork;
    job->program_life.on(ProgramEvent::kLoaded);
  }
  // The zygote may have ended just after it was ready.
  if (zygote->peer == nullptr && !job->ended()) site_.background.spawn(restart(job, zygote));
  co_return {};
}

async::Async<Result<void>> Zygotes::load_patiently(std::shared_ptr<Job> job, std::shared_ptr<Zygote> zygote) {
  auto loaded = co_await load(job, zygote);
  while (!loaded && loaded.error().code() == ErrorCode::kUnavailable && ++zygote->restarts <= Zygote::kRestartsMax) {
    drop(*zygote);
    zygote->ready = {};
    loaded = co_await load(job, zygote);
  }
  if (loaded || loaded.error().code() != ErrorCode::kUnavailable) co_return loaded;
  const std::string why = job->program.executable + " does not load: " + loaded.error().message();
  if (!zygote->environment.empty()) {
    co_return Error{ErrorCode::kFailedPrecondition, why, "Read the output of that node, and look at the option .env."};
  }
  co_return Error{
      ErrorCode::kFailedPrecondition, why,
      "Read the output of that node. The program's shared libraries must be there, too: those of the system "
      "(/lib, /usr) are not sent, and libtorch's only by --with-libtorch."};
}

async::Async<Result<void>> Zygotes::start(std::shared_ptr<Job> job, std::shared_ptr<Zygote> zygote) {
  const Error over{ErrorCode::kRuntimeStopped, "the program has ended"};
  if (job->ended()) co_return over;
  const net::Identity child{net::Role::kZygote, job->id.value()};
  PHAROS_CO_TRY(net::SocketPair pair, site_.host.make_inheritance(child, {}));
  wire::RegisterJob program = job->program;
  program.environment = scheduler::joined(std::move(program.environment), zygote->environment);
  PHAROS_CO_TRY(zygote->pid, site_.host.start_zygote(program, job->executable.get(), std::move(pair.second)));
  const auto deadline = async::Deadline::after(kZygoteTime, site_.executor.now());
  auto proved = co_await site_.host.prove(pair.first.get(), child, deadline);
  if (!proved) co_return std::move(proved).error().with("loading " + job->program.executable + " for its workers");
  if (job->ended()) co_return over;
  zygote->peer = clients_.add(std::move(pair.first), net::Descriptors::kAccepted);
  clients_.set({zygote->peer, job});
  zygote->since = site_.executor.now();
  co_return {};
}

async::Async<void> Zygotes::restart(std::shared_ptr<Job> job, std::shared_ptr<Zygote> zygote) {
  if (site_.executor.now() - zygote->since >= kZygoteLife) zygote->restarts = 0;
  while (!job->ended() && !zygote->broken && ++zygote->restarts <= Zygote::kRestartsMax) {
    log(LogLevel::kWarn, "a program's zygote ended, and is started again", {kv("job", job->id)});
    zygote->ready = {};
    const auto started = co_await start(job, zygote);
    if (started || job->ended()) co_return;
    log(LogLevel::kError, "a program's zygote cannot be started", {kv("job", job->id), kv("error", started.error())});
  }
  if (!job->ended()) log(LogLevel::kError, "a program's zygote ends again and again", {kv("job", job->id)});
}

void Zygotes::drop(Zygote& zygote) {
  if (zygote.peer == nullptr) return;
  clients_.erase(*zygote.peer);
  std::exchange(zygote.peer, nullptr)->close();
}

void Zygotes::end(Zygote& zygote) {
  zygote.ready.fail(Error{ErrorCode::kRuntimeStopped, "the program has ended"});
  if (zygote.peer != nullptr) {
    drop(zygote);
  } else if (zygote.pid != 0) {
    site_.host.kill_zygote(zygote.pid);
  }
}

void Zygotes::end(Job& job) {
  for_all(job, [this](Zygote& zygote) { end(zygote); });
}

// ---- Events

void Zygotes::on_ready(Job& job, const net::Peer& peer, const wire::ZygoteReady& ready) {
  for_all(job, [&](Zygote& zygote) {
    if (zygote.peer.get() == &peer) zygote.ready.complete(ready);
  });
}

void Zygotes::on_connection_ended(const std::shared_ptr<Job>& job, const net::Peer& peer) {
  std::vector<std::shared_ptr<Zygote>> all{first_of(job)};
  for (const auto& [environment, zygote] : job->others) all.push_back(zygote);
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each->peer.get() == &peer; });
  if (found == all.end()) return;
  Zygote& zygote = **found;
  zygote.peer = nullptr;
  // Coroutines that wait for this zygote are told of its end; the next zygote gets a new completion.
  zygote.ready.fail(Error{ErrorCode::kUnavailable, "the program ended while it was loaded as a zygote"});
  if (!job->ended() && zygote.loaded) site_.background.spawn(restart(job, *found));
}

void Zygotes::on_process_ended(Job& job, pid_t pid, int status) {
  for_all(job, [&](Zygote& zygote) {
    if (zygote.pid != pid) return;
    zygote.pid = 0;
    zygote.ready.fail(
        Error{ErrorCode::kUnavailable, "the program ended while it was loaded as a zygote: " + describe_end(status)});
  });
}

}  // namespace pharos::node
