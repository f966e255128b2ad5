#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>

#include "node/node_records.hpp"
#include "store/program_files.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kAgainTime = 300ms;     // between attempts
constexpr auto kFetchPatience = 5min;  // without a new byte: a thousand nodes may fetch the program at once

/// Returns whether another attempt may succeed.
bool may_pass(const Error& why) {
  return why.code() == ErrorCode::kUnavailable || why.code() == ErrorCode::kDeadlineExceeded ||
         why.code() == ErrorCode::kOverloaded || why.code() == ErrorCode::kCorrupt;
}

}  // namespace

// ---- Jobs of drivers at other nodes

void Node::add_far_job(wire::AddJob add) {
  auto job = std::make_shared<Job>();
  job->id = add.job;
  job->program = std::move(add.program);
  job->coming = true;
  std::vector<NodeId> sources = std::move(add.others);
  if (add.node) sources.insert(sources.begin(), add.node);
  if (jobs_.emplace(job->id, job).second) background_.spawn(load_far_program(this, job, std::move(sources)));
}

async::Async<void> Node::load_far_program(Node* self, std::shared_ptr<Job> job, std::vector<NodeId> sources) {
  auto loaded = co_await obtain_program(self, job, std::move(sources));
  job->coming = false;
  if (loaded) {
    loaded = co_await load_program(self, job);
    // A zygote that ended may have been killed, so it is started again. A program that cannot be loaded ends each time.
    while (!loaded && loaded.error().code() == ErrorCode::kUnavailable &&
           ++job->zygote_restarts <= kZygoteRestartsMax) {
      self->drop_zygote(*job);
      job->zygote_ready = {};
      loaded = co_await load_program(self, job);
    }
    if (!loaded && loaded.error().code() == ErrorCode::kUnavailable) {
      loaded =
          Error{ErrorCode::kFailedPrecondition, job->program.executable + " does not load: " + loaded.error().message(),
                "Read the output of that node. The program's shared libraries must be there, too."};
    }
  }
  if (loaded) co_return;
  log(LogLevel::kWarn, "a program cannot run here", {kv("job", job->id), kv("error", loaded.error())});
  job->broken = loaded.error();
  self->drop_zygote(*job);
}

// ---- Their executables

async::Async<Result<void>> Node::obtain_program(Node* self, std::shared_ptr<Job> job, std::vector<NodeId> sources) {
  for (;;) {
    auto here = co_await open_program(self, job);
    if (here) {
      self->take_program(*job, *std::move(here));
      co_return {};
    }
    if (here.error().code() != ErrorCode::kNotFound) co_return std::move(here).error();
    if (const auto coming = self->coming_programs_.find(job->program.build_id);
        coming != self->coming_programs_.end()) {
      async::Completion<void> over;
      coming->second.push_back(over);
      PHAROS_CO_TRY_VOID(co_await over.wait(async::Deadline::never()));
      continue;
    }
    self->coming_programs_.try_emplace(job->program.build_id);
    auto fetched = co_await fetch_program(self, job, sources);
    auto waiting = self->coming_programs_.extract(job->program.build_id);
    for (auto& each : waiting.mapped()) each.complete();
    if (!fetched) co_return std::move(fetched).error().with("fetching " + job->program.executable);
  }
}

async::Async<Result<ProgramHere>> Node::open_program(Node* self, std::shared_ptr<Job> job) {
  const auto here = std::make_shared<Result<ProgramHere>>(Error{ErrorCode::kCancelled, "not opened"});
  async::Completion<void> opened;
  self->host_.open_program(job->program, [here, opened](Result<ProgramHere> program) mutable {
    *here = std::move(program);
    opened.complete();
  });
  PHAROS_CO_TRY_VOID(co_await opened.wait(async::Deadline::never()));
  co_return std::move(*here);
}

void Node::take_program(Job& job, ProgramHere here) {
  job.executable = std::move(here.executable);
  if (here.folder == job.program.folder) return;
  const std::string warning = "the folder " + job.program.folder + " is not on node " + to_string(settings_.id) +
                              ": workers there start in " + here.folder;
  log(LogLevel::kWarn, warning, {kv("job", job.id)});
  send_output(job, {.label = "node", .pid = ::getpid(), .error = true, .lines = warning + "\n", .job = job.id});
  job.program.folder = std::move(here.folder);
}

// The driver's node is asked first. A node that is not reached, or does not have the whole executable yet, is asked
// again after the others.
async::Async<Result<void>> Node::fetch_program(Node* self, std::shared_ptr<Job> job, std::vector<NodeId> sources) {
  const auto into = std::make_shared<ArrivingProgram>(job->program.build_id);
  std::uint64_t had = 0;
  TimePoint since = self->executor_.now();
  while (!sources.empty()) {
    auto fetched = co_await fetch_some(self, job, sources.front(), into);
    if (fetched) co_return {};
    if (job->ended) co_return Error{ErrorCode::kRuntimeStopped, "the program has ended"};
    if (into->arrived() > had) {
      had = into->arrived();
      since = self->executor_.now();
    }
    if (fetched.error().code() == ErrorCode::kNotFound) {
      sources.erase(sources.begin());
      continue;
    }
    std::rotate(sources.begin(), sources.begin() + 1, sources.end());
    if (!may_pass(fetched.error()) || self->executor_.now() - since >= kFetchPatience) co_return fetched;
    log(LogLevel::kInfo, "an executable was not received, and is requested again",
        {kv("job", job->id), kv("bytes", had), kv("error", fetched.error())});
    PHAROS_CO_TRY_VOID(co_await async::sleep(kAgainTime));
  }
  co_return Error{ErrorCode::kNotFound, "the program's driver has ended, and so have the nodes that had the executable",
                  "Put the program at the same path on the nodes where its detached actors may go."};
}

async::Async<Result<void>> Node::fetch_some(Node* self, std::shared_ptr<Job> job, NodeId from,
                                            std::shared_ptr<ArrivingProgram> into) {
  auto address = co_await find_node(self, from);
  if (!address) co_return std::move(address).error();
  async::Completion<void> fetched;
  self->host_.fetch_program(*std::move(address), job->id, std::move(into), [fetched](Result<void> end) mutable {
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
void Node::serve_program(JobId id, Fd socket) {
  const auto job = jobs_.find(id);
  if (job != jobs_.end() && job->second->coming && !job->second->executable) return;
  const bool is_here = job != jobs_.end() && job->second->executable;
  host_.serve_program(std::move(socket),
                      is_here ? Fd{::fcntl(job->second->executable.get(), F_DUPFD_CLOEXEC, 0)} : Fd{});
}

}  // namespace pharos::node
