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

/// The loader then looks into this folder before all others, but for those of DT_RPATH.
void load_libraries_from(const std::string& folder, std::vector<std::string>& environment) {
  const std::string name = "LD_LIBRARY_PATH=";
  const auto found = std::find_if(environment.begin(), environment.end(),
                                  [&](const std::string& each) { return each.starts_with(name); });
  if (found == environment.end()) {
    environment.push_back(name + folder);
  } else {
    found->insert(name.size(), folder + ":");
  }
}

/// Returns whether another attempt may succeed.
bool may_pass(const Error& why) {
  return why.code() == ErrorCode::kUnavailable || why.code() == ErrorCode::kDeadlineExceeded ||
         why.code() == ErrorCode::kOverloaded || why.code() == ErrorCode::kCorrupt;
}

}  // namespace

async::Async<Result<void>> Programs::obtain(std::shared_ptr<Job> job, std::vector<NodeId> sources) {
  for (;;) {
    PHAROS_CO_TRY(auto here, co_await open(job));
    const std::vector<wire::BuildId> missing = std::move(here.missing);
    if (missing.empty()) {
      take(*job, std::move(here));
      if (job->ended()) forget(*job);  // nobody else does, after the end
      co_return {};
    }
    if (auto* const coming = coming_of(missing)) {
      async::Completion<void> over;
      coming->push_back(over);
      PHAROS_CO_TRY_VOID(co_await over.wait(async::Deadline::never()));
      continue;
    }
    for (const auto& file : missing) coming_.try_emplace(file);
    auto fetched = co_await fetch(job, missing, sources);
    for (const auto& file : missing) {
      auto waiting = coming_.extract(file);
      for (auto& each : waiting.mapped()) each.complete();
    }
    if (!fetched) co_return std::move(fetched).error().with("fetching " + job->program.executable);
  }
}

std::vector<async::Completion<void>>* Programs::coming_of(const std::vector<wire::BuildId>& files) {
  for (const auto& file : files) {
    if (const auto coming = coming_.find(file); coming != coming_.end()) return &coming->second;
  }
  return nullptr;
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
  job.own_folder = std::move(here.own_folder);
  if (!here.libraries_folder.empty()) load_libraries_from(here.libraries_folder, job.program.environment);
  if (here.folder == job.program.folder) return;
  if (!job.own_folder.empty() && here.folder.starts_with(job.own_folder)) {  // with the files that it takes along
    job.program.folder = std::move(here.folder);
    return;
  }
  const std::string warning = "the folder " + job.program.folder + " is not on node " + to_string(site_.settings.id) +
                              ": workers there start in " + here.folder;
  log(LogLevel::kWarn, warning, {kv("job", job.id)});
  warn_(job, warning);
  job.program.folder = std::move(here.folder);
}

// The driver's node is asked first. A node that is not reached, or does not have all files yet, is asked
// again after the others.
async::Async<Result<void>> Programs::fetch(std::shared_ptr<Job> job, std::vector<wire::BuildId> missing,
                                           std::vector<NodeId> sources) {
  const auto into = std::make_shared<ArrivingProgram>(job->program, missing);
  std::string nobody = "no node is known that has " + job->program.executable;
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
      nobody = "no node has all of the program's files any more: " + fetched.error().message();
      continue;
    }
    std::rotate(sources.begin(), sources.begin() + 1, sources.end());
    if (!may_pass(fetched.error()) || site_.executor.now() - since >= kFetchPatience) co_return fetched;
    log(LogLevel::kInfo, "files of a program were not received, and are requested again",
        {kv("job", job->id), kv("bytes", had), kv("error", fetched.error())});
    PHAROS_CO_TRY_VOID(co_await async::sleep(kFetchAgainTime));
  }
  co_return Error{ErrorCode::kNotFound, nobody,
                  "Start the program again, or put its files at the same paths on the nodes where it is to run."};
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

// If the files are still on their way to this node, the connection ends and the other node connects again. If they are
// not here otherwise, the other node is told so.
void Programs::serve(const Job* job, Fd socket) {
  if (job != nullptr && job->program_life.state() == ProgramState::kFetching && !job->executable) return;
  const bool is_here = job != nullptr && job->executable;
  site_.host.serve_program(std::move(socket), is_here ? Fd{::fcntl(job->executable.get(), F_DUPFD_CLOEXEC, 0)} : Fd{},
                           is_here ? job->program : wire::RegisterJob{});
}

void Programs::forget(Job& job) {
  if (!job.own_folder.empty()) site_.host.remove_own_folder(std::exchange(job.own_folder, {}));
}

}  // namespace pharos::node
