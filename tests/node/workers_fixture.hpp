#pragma once

// Workers on a machine that starts no process.

#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "parts_fixture.hpp"
#include "workers/workers.hpp"

namespace pharos::node {

/// A job with a zygote, and workers of it. What the zygote and the last worker are sent is in their links.
class WorkersFixture : public PartsTest, public Workers::Owner {
 protected:
  wire::JobRegistered registration_of(const Job& of, CallerId caller) const override {
    wire::JobRegistered registered;
    registered.job = of.id;
    registered.caller = caller;
    return registered;
  }
  void on_worker_forking() override { ++forks; }
  std::string why_kernel_killed() override { return kernel_killed; }
  void on_worker_ended(const Worker&, const std::string& reason) override { ends.push_back(reason); }

  WorkersFixture() {
    job->id = JobId{1};
    job->program_life.on(ProgramEvent::kLoaded);
    job->zygote.loaded = true;
    job->zygote.peer = new_peer();
    zygote = host.links.back();
  }
  static async::Async<void> start_into(WorkersFixture* test, std::uint64_t actor) {
    const std::shared_ptr<Zygote> zygote{test->job, &test->job->zygote};
    test->started = co_await test->workers.start(test->job, zygote, ActorId{actor}, "w", 1, {});
  }
  std::shared_ptr<Worker> start(std::uint64_t actor = 0) {
    background.spawn(start_into(this, actor));
    executor.advance(std::chrono::milliseconds{10});
    return *started ? **started : nullptr;
  }
  /// The process is known, with this number.
  void forked(Worker& worker, pid_t pid) { workers.on_forked(worker, pid, Fd{::dup(0)}); }

  std::shared_ptr<Job> job = std::make_shared<Job>();
  std::shared_ptr<FakeLink> zygote;
  int forks = 0;
  std::string kernel_killed;
  Names ends;
  std::optional<Result<std::shared_ptr<Worker>>> started;
  Clients clients{executor, host, *this};
  JobOutput output{site.head, [] { return std::size_t{0}; }};
  Logs logs{[](auto work, auto done) {
              work();
              done();
            },
            {},
            NodeId{1},
            "node"};
  Workers workers{site, clients, output, logs, *this};
};

}  // namespace pharos::node
