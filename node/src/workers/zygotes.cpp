#include "workers/zygotes.hpp"

#include <chrono>
#include <string>
#include <utility>

#include <pharos/base/log.hpp>

#include "workers/workers.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kZygoteTime = 55s;  // to load the program; less than a driver waits
constexpr auto kZygoteLife = 30s;  // after which a zygote has lived for long

}  // namespace

async::Async<Result<void>> Zygotes::load(std::shared_ptr<Job> job) {
  const std::string loading = "loading " + job->program.executable + " for its workers";
  auto started = co_await start(job);
  if (!started) co_return std::move(started).error();
  const auto ready = co_await job->zygote.ready.wait(async::Deadline::after(kZygoteTime, site_.executor.now()));
  if (!ready) co_return Error{ready.error()}.with(loading);
  if (ready->build_id != job->program.build_id) {
    co_return Error{ErrorCode::kFailedPrecondition,
                    "the zygote of " + job->program.executable + " is another build than the program",
                    "Start the program again."};
  }
  job->warning = ready->cannot_fork;
  job->program_life.on(ProgramEvent::kLoaded);
  // The zygote may have ended just after it was ready.
  if (job->zygote.peer == nullptr && !job->ended()) site_.background.spawn(restart(job));
  co_return {};
}

async::Async<Result<void>> Zygotes::load_patiently(std::shared_ptr<Job> job) {
  auto loaded = co_await load(job);
  while (!loaded && loaded.error().code() == ErrorCode::kUnavailable &&
         ++job->zygote.restarts <= Zygote::kRestartsMax) {
    drop(*job);
    job->zygote.ready = {};
    loaded = co_await load(job);
  }
  if (loaded || loaded.error().code() != ErrorCode::kUnavailable) co_return loaded;
  co_return Error{
      ErrorCode::kFailedPrecondition, job->program.executable + " does not load: " + loaded.error().message(),
      "Read the output of that node. The program's shared libraries must be there, too: those of the system "
      "(/lib, /usr) are not sent, and libtorch's only by --with-libtorch."};
}

async::Async<Result<void>> Zygotes::start(std::shared_ptr<Job> job) {
  const Error over{ErrorCode::kRuntimeStopped, "the program has ended"};
  if (job->ended()) co_return over;
  const net::Identity child{net::Role::kZygote, job->id.value()};
  PHAROS_CO_TRY(net::SocketPair pair, site_.host.make_inheritance(child, {}));
  PHAROS_CO_TRY(job->zygote.pid, site_.host.start_zygote(job->program, job->executable.get(), std::move(pair.second)));
  const auto deadline = async::Deadline::after(kZygoteTime, site_.executor.now());
  auto proved = co_await site_.host.prove(pair.first.get(), child, deadline);
  if (!proved) co_return std::move(proved).error().with("loading " + job->program.executable + " for its workers");
  if (job->ended()) co_return over;
  job->zygote.peer = clients_.add(std::move(pair.first), net::Descriptors::kAccepted);
  clients_.set({job->zygote.peer, job});
  job->zygote.since = site_.executor.now();
  co_return {};
}

async::Async<void> Zygotes::restart(std::shared_ptr<Job> job) {
  if (site_.executor.now() - job->zygote.since >= kZygoteLife) job->zygote.restarts = 0;
  while (!job->ended() && !job->broken && ++job->zygote.restarts <= Zygote::kRestartsMax) {
    log(LogLevel::kWarn, "a program's zygote ended, and is started again", {kv("job", job->id)});
    job->zygote.ready = {};
    const auto started = co_await start(job);
    if (started || job->ended()) co_return;
    log(LogLevel::kError, "a program's zygote cannot be started", {kv("job", job->id), kv("error", started.error())});
  }
  if (!job->ended()) log(LogLevel::kError, "a program's zygote ends again and again", {kv("job", job->id)});
}

void Zygotes::drop(Job& job) {
  if (job.zygote.peer == nullptr) return;
  clients_.erase(*job.zygote.peer);
  std::exchange(job.zygote.peer, nullptr)->close();
}

void Zygotes::end(Job& job) {
  if (job.zygote.peer != nullptr) {
    drop(job);
  } else if (job.zygote.pid != 0) {
    site_.host.kill_zygote(job.zygote.pid);
  }
}

void Zygotes::on_connection_ended(std::shared_ptr<Job> job) {
  job->zygote.peer = nullptr;
  // Coroutines that wait for this zygote are told of its end; the next zygote gets a new completion.
  job->zygote.ready.fail(Error{ErrorCode::kUnavailable, "the program ended while it was loaded as a zygote"});
  if (!job->ended() && job->loaded()) site_.background.spawn(restart(std::move(job)));
}

void Zygotes::on_process_ended(Job& job, int status) {
  job.zygote.pid = 0;
  job.zygote.ready.fail(
      Error{ErrorCode::kUnavailable, "the program ended while it was loaded as a zygote: " + describe_end(status)});
}

}  // namespace pharos::node
