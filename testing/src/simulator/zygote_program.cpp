#include "simulator/zygote_program.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "simulator/network.hpp"
#include "simulator/worker_program.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kForkMin = 100us;
constexpr Duration kForkMax = 3ms;
constexpr Duration kStartMax = 500us;  // longest time until a forked child begins
constexpr Duration kDescribeMin = 1ms;
constexpr Duration kDescribeMax = 30ms;

}  // namespace

ZygoteProgram::ZygoteProgram(Process& process, Kernel& kernel, Fd node, const wire::BuildId& build_id)
    : process_{process}, kernel_{kernel} {
  const auto link = kernel.network().open(std::move(node), process);
  node_ = net::Peer::make(process.executor(), link, *this);
  link->start(node_);
  node_->send(wire::ZygoteReady{build_id, 0, {}});
}

// A zygote forks one worker after the other, so each fork begins after the last one.
void ZygoteProgram::on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t> request) {
  if (std::holds_alternative<wire::ReadStacks>(parcel.message) && request) {
    process_.at(process_.now() + kernel_.world().lots().between(kDescribeMin, kDescribeMax),
                [node = node_, number = *request] { node->respond(number, wire::Stacks{"a stack\n"}); });
    return;
  }
  const auto* const fork = std::get_if<wire::ForkWorker>(&parcel.message);
  if (fork == nullptr) return;
  last_fork_ = std::max(last_fork_, process_.now()) + kernel_.world().lots().between(kForkMin, kForkMax);
  process_.at(last_fork_, [this, worker = fork->worker, control = std::move(parcel.descriptors.front())]() mutable {
    fork_worker(worker, std::move(control));
  });
}

void ZygoteProgram::fork_worker(WorkerId worker, Fd control) {
  const Duration loading = kernel_.world().lots().between(Duration{0}, kStartMax);
  const Process& child =
      kernel_.start("worker", &process_, loading,
                    [worker, control = std::move(control)](Process& process) mutable -> std::unique_ptr<Program> {
                      return std::make_unique<WorkerProgram>(process, worker, std::move(control));
                    });
  workers_.emplace(child.number(), worker);
  node_->send(wire::WorkerForked{worker, child.number()}, some_file());
}

void ZygoteProgram::on_child_ended(pid_t pid, int status) {
  const WorkerId worker = workers_.extract(pid).mapped();
  const bool crashed = status == SIGSEGV;
  node_->send(wire::WorkerReaped{worker, status, crashed});
  if (!crashed) return;
  process_.at(process_.now() + kernel_.world().lots().between(kDescribeMin, kDescribeMax), [this, worker] {
    node_->send(wire::WorkerCrashed{worker, " in user code", "a stack\n"});
  });
}

}  // namespace pharos::simulator
