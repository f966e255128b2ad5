#include "program/wait_report.hpp"

#include <algorithm>
#include <cstdio>

#include <pharos/scheduler/resources.hpp>

namespace pharos::actors {
namespace {

using wire::InspectedWorker;
using wire::PendingResult;
using Stage = wire::PendingResult::Stage;

std::string seconds(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(nanoseconds) / 1e9);
  return text;
}

class Report {
 public:
  Report(const wire::Inspected* node, const std::function<std::string(std::uint32_t)>& name_of)
      : node_{node}, name_of_{name_of} {}

  /// Explains all waits of one process.
  void explain_all(const std::vector<PendingResult>& waits, CallerId caller, std::size_t depth) {
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].argument_of < 0) explain(waits, i, caller, depth);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void say(std::size_t depth, const std::string& line) {
    text_.append(2 * depth + 2, ' ').append(line).append(1, '\n');
  }

  void explain(const std::vector<PendingResult>& waits, std::size_t at, CallerId caller, std::size_t depth) {
    const PendingResult& wait = waits[at];
    std::string who;
    if (wait.argument_of < 0) {
      who = wait.thread == 0 ? std::string{"a coroutine"} : "thread " + std::to_string(wait.thread);
      if (wait.inside != wire::kNoFunction) who += ", in " + name_of_(wait.inside) + ",";
      who += " waits for ";
    } else {
      who = "for its argument, ";
    }
    if (wait.stage == Stage::kNoCall) {
      return say(depth,
                 who + "a result that comes from no call: the waiting process sets it, perhaps from other results");
    }
    say(depth,
        who + name_of_(wait.function) + (wait.actor ? " of actor \"" + wait.label + "\"" : std::string{", a task"}));
    if (wait.stage == Stage::kArguments) {
      say(depth + 1, "which waits");
      for (std::size_t i = at + 1; i < waits.size(); ++i) {
        if (waits[i].argument_of == static_cast<std::int32_t>(at)) explain(waits, i, caller, depth + 1);
      }
      return;
    }
    if (node_ == nullptr) return say(depth + 1, "the reason is unknown, because the node did not answer in time");
    const auto worker = std::find_if(node_->workers.begin(), node_->workers.end(), [&](const auto& each) {
      return wait.actor ? each.actor == wait.actor : wait.worker && each.worker == wait.worker;
    });
    if (worker != node_->workers.end()) {
      explain_worker(*worker, wait, caller, depth + 1);
    } else if (wait.stage == Stage::kUnsent && !wait.actor) {
      explain_resources(scheduler::Resources{wait.amounts}, depth + 1);
    } else {
      say(depth + 1, "whose answer is just arriving, or whose process has just ended");
    }
  }

  void explain_worker(const InspectedWorker& worker, const PendingResult& wait, CallerId caller, std::size_t depth) {
    if (!worker.elsewhere.empty()) {
      return say(depth, worker.actor ? "which is on " + worker.elsewhere + ": " + worker.state
                                     : "runs on " + worker.elsewhere);
    }
    if (!worker.worker) return say(depth, "which has no process: " + worker.state);
    const std::string process = "process " + std::to_string(worker.pid);
    const std::string state = worker.state.empty() ? "" : " (" + worker.state + ")";
    if (!worker.answered) return say(depth, process + state + " did not answer in time");
    if (worker.function == wire::kNoFunction) {
      say(depth, process + state + " runs nothing: " +
                     (wait.stage != Stage::kSent ? "its connection is being made"
                      : worker.waits.empty()     ? "its answer is on its way, or it is a coroutine that waits"
                                                 : "its coroutines wait"));
      return explain_waits_of(worker, depth);
    }
    const std::string running = seconds(worker.nanoseconds);
    if (wait.stage == Stage::kSent && worker.caller == caller && worker.number == wait.number) {
      say(depth, "runs in " + process + " for " + running);
    } else {
      say(depth, "queued in " + process + state + ", which runs " + name_of_(worker.function) + " for " + running);
    }
    explain_waits_of(worker, depth);
  }

  void explain_waits_of(const InspectedWorker& worker, std::size_t depth) {
    if (worker.waits.empty()) return;
    if (std::find(above_.begin(), above_.end(), &worker) != above_.end()) {
      return say(depth, "which waits for a process above: this is a deadlock, and none of these processes can go on");
    }
    above_.push_back(&worker);
    explain_all(worker.waits, CallerId{worker.worker.value()}, depth + 1);
    above_.pop_back();
  }

  void explain_resources(const scheduler::Resources& demand, std::size_t depth) {
    const scheduler::Resources total{node_->total};
    if (!demand.fits_in(total)) {
      const std::string there =
          node_->cluster.empty()
              ? ""
              : "; all nodes together have " + demand.as_in(scheduler::Resources{node_->cluster}).to_string();
      say(depth, "which waits for a worker of another node, with " + demand.to_string() + there);
      return name_holders(demand, depth + 1);
    }
    scheduler::Resources left = total;
    left -= scheduler::Resources{node_->in_use};
    say(depth, "which waits for a worker" + (demand.empty() ? "" : ": " + demand.use(total, left)));
    name_holders(demand.scarce_in(left), depth + 1);
  }

  void name_holders(const scheduler::Resources& scarce, std::size_t depth) {
    for (const InspectedWorker& worker : node_->workers) {
      const scheduler::Resources held = scarce.as_in(scheduler::Resources{worker.amounts});
      if (held.empty()) continue;
      const std::string process = "process " + std::to_string(worker.pid);
      if (worker.actor) {
        say(depth, "actor \"" + worker.label + "\" has " + held.to_string() +
                       (worker.elsewhere.empty() ? ", in " + process : ", on " + worker.elsewhere));
      } else if (!worker.elsewhere.empty()) {
        say(depth, "tasks have " + held.to_string() + " on " + worker.elsewhere);
      } else if (worker.function == wire::kNoFunction) {
        say(depth, process + " has " + held.to_string() + ", and runs nothing");
      } else {
        say(depth, process + " runs " + name_of_(worker.function) + " for " + seconds(worker.nanoseconds));
        explain_waits_of(worker, depth);
      }
    }
  }

  const wire::Inspected* const node_;
  const std::function<std::string(std::uint32_t)>& name_of_;
  std::vector<const InspectedWorker*> above_;
  std::string text_;
};

}  // namespace

std::string explain_waits(const std::vector<PendingResult>& waits, CallerId caller, const wire::Inspected* node,
                          const std::function<std::string(std::uint32_t)>& name_of) {
  if (waits.empty()) return "  none: no get() waits\n";
  Report report{node, name_of};
  report.explain_all(waits, caller, 0);
  return report.take();
}

}  // namespace pharos::actors
