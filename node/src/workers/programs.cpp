#include "workers/programs.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kFetchAgainTime = 300ms;  // between attempts
constexpr auto kFetchPatience = 5min;    // without a new byte: a thousand nodes may fetch the program at once

/// Returns whether another attempt may succeed.
bool may_pass(const Error& why) {
  return why.code() == ErrorCode::kUnavailable || why.code() == ErrorCode::kDeadlineExceeded ||
         why.code() == ErrorCode::kOverloaded || why.code() == ErrorCode::kCorrupt;
}

}  // namespace

async::Async<Result<void>> Programs::obtain(std::shared_ptr<Job> job, std::vector<NodeId> sources) {
  for (;;) {
    auto here = co_await open(job);
    if (here) {
      take(*job, *std::move(here));
      co_return {};
    }
    if (here.error().code() != ErrorCode::kNotFound) co_return std::move(here).error();
    if (const auto coming = coming_.find(job->program.build_id); coming != coming_.end()) {
      async::Completion<void> over;
      coming->second.push_back(over);
      PHAROS_CO_TRY_VOID(co_await over.wait(async::Deadline::never()));
      continue;
    }
    coming_.try_emplace(job->program.build_id);
    auto fetched = co_await fetch(job, sources);
    auto waiting = coming_.extract(job->program.build_id);
    for (auto& each : waiting.mapped()) each.complete();
    if (!fetched) co_return std::move(fetched).error().with("fetching " + job->program.executable);
  }
}

async::Async<Result<ProgramHere>> Programs::open(std::shared_ptr<Job> job) {
  const auto here = std::make_shared<Result<ProgramHere>>(Error{ErrorCode::kCancelled, "not opened"});
  async::Completion<void> opened;
  site_.host.open_program(job->program, [here, opened](Result<ProgramHere> program) mutable {
    *here = std::move(program);
    opened.complete();
  });
  PHAROS_CO_TRY_VOID(co_await opened.wait(async::Deadline::never()));
  co_return std::move(*here);
}

void Programs::take(Job& job, ProgramHere here) {
  job.executable = std::move(here.executable);
  if (here.folder == job.program.folder) return;
  const std::string warning = "the folder " + job.program.folder + " is not on node " + to_string(site_.settings.id) +
                              ": workers there start in " + here.folder;
  log(LogLevel::kWarn, warning, {kv("job", job.id)});
  warn_(job, warning);
  job.program.folder = std::move(here.folder);
}

// The driver's node is asked first. A node that is not reached, or does not have the whole executable yet, is asked
// again after the others.
async::Async<Result<void>> Programs::fetch(std::shared_ptr<Job> job, std::vector<NodeId> sources) {
  const auto into = std::make_shared<ArrivingProgram>(job->program.build_id);
  std::uint64_t had = 0;
  TimePoint since = site_.executor.now();
  while (!sources.empty()) {
    auto fetched = co_await fetch_some(job, sources.front(), into);
    if (fetched) co_return {};
    if (job->ended()) co_return Error{ErrorCode::kRuntimeStopped, "the program has ended"};
    if (into->arrived() > had) {
      had = into->arrived();
      since = site_.executor.now();
    }
    if (fetched.error().code() == ErrorCode::kNotFound) {
      sources.erase(sources.begin());
      continue;
    }
    std::rotate(sources.begin(), sources.begin() + 1, sources.end());
    if (!may_pass(fetched.error()) || site_.executor.now() - since >= kFetchPatience) co_return fetched;
    log(LogLevel::kInfo, "an executable was not received, and is requested again",
        {kv("job", job->id), kv("bytes", had), kv("error", fetched.error())});
    PHAROS_CO_TRY_VOID(co_await async::sleep(kFetchAgainTime));
  }
  co_return Error{ErrorCode::kNotFound, "the program's driver has ended, and so have the nodes that had the executable",
                  "Put the program at the same path on the nodes where its detached actors may go."};
}

async::Async<Result<void>> Programs::fetch_some(std::shared_ptr<Job> job, NodeId from,
                                                std::shared_ptr<ArrivingProgram> into) {
  auto address = co_await far_nodes_.find(from);
  if (!address) co_return std::move(address).error();
  async::Completion<void> fetched;
  site_.host.fetch_program(*std::move(address), job->id, std::move(into), [fetched](Result<void> end) mutable {
    if (end) {
      fetched.complete();
    } else {
      fetched.fail(std::move(end).error());
    }
  });
  co_return co_await fetched.wait(async::Deadline::never());
}

// If the executable is still on its way to this node, the connection ends and the other node connects again. If it is
// not here otherwise, the other node is told so.
void Programs::serve(const Job* job, Fd socket) {
  if (job != nullptr && job->program_life.state() == ProgramState::kFetching && !job->executable) return;
  const bool is_here = job != nullptr && job->executable;
  site_.host.serve_program(std::move(socket), is_here ? Fd{::fcntl(job->executable.get(), F_DUPFD_CLOEXEC, 0)} : Fd{});
}

}  // namespace pharos::node
