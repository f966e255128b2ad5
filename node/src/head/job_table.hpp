#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

#include "head/events.hpp"

namespace pharos::node::head {

/// The jobs of a cluster: where the driver of each is, and which nodes know its program. A job is a running program. It
/// lasts until its driver and the last of its detached actors have ended.
/// Owned by Head; on its strand. Calls about unknown jobs do nothing, except show() and leave_driver(), which need a
/// known job. Pointers that it returns are valid until the job is over.
class JobTable {
 public:
  struct Job {
    NodeId node;  ///< the driver's node; unset: the driver has ended, and detached actors go on
    wire::RegisterJob program;
    std::set<NodeId> known_at;
    std::optional<std::set<NodeId>> stopping;  ///< nodes that have not stopped the job; nullopt: it is not stopping
  };

  explicit JobTable(Events& events) : events_{events} {}

  /// Adds the job of a driver at this node, and records it. A known job is left as it is.
  void add(NodeId from, wire::AddJob job);
  /// Adds a job from the records.
  void restore(const wire::AddJob& job);
  /// Returns nullptr if the job is unknown or over.
  const Job* find(JobId job) const;
  bool contains(JobId job) const { return jobs_.contains(job); }
  const std::unordered_map<JobId, Job>& all() const { return jobs_; }
  /// Returns whether the asker's job is known and is not stopping. If not, the question is refused with
  /// kRuntimeStopped.
  bool admit(NodeId from, const wire::Asker& asker);
  /// Fails with kFailedPrecondition if the two jobs run different builds. The caller must then not call the actor of
  /// this name, which is of the other job: calls name functions by numbers that hold within one build only.
  Result<void> check_build(JobId caller, JobId its, const std::string& actor) const;
  /// A node has to know a program before it is asked to run it: tells the node, unless it knows the job already.
  void show(NodeId node, JobId job);
  /// Passes output of the job's workers on to its driver; drops it if there is no driver. Output does not wait for a
  /// write, because more and more of it would pile up behind a slow one.
  void pass_on(const wire::Output& output);

  /// From here on nothing of the job is started, and the nodes that know the job stop it. With `has_detached` the job
  /// does not stop, because its detached actors go on, and the driver's node hears at once that it has stopped: what
  /// the driver holds ends, after its destructors, once the driver is gone.
  void stop(JobId job, bool has_detached);
  /// The node has stopped the job. The driver's node hears of it when all nodes have.
  void note_stopped(JobId job, NodeId node);
  /// The driver has ended. Its detached actors go on, and so does whatever they hold.
  void leave_driver(JobId job);
  /// The job is over: the nodes that know it are told. Returns false if it was not known.
  bool end(JobId job);

  /// The node is lost and knows no job any more. Returns the jobs whose driver was there.
  std::vector<JobId> lose_node(NodeId node);
  /// A lost node counts as having stopped all jobs.
  void note_stopped_all(NodeId node);
  /// Returns the jobs whose driver was at this node and that the node has not reported.
  std::vector<JobId> missing(NodeId node, const std::vector<JobId>& reported) const;
  /// The node knows these jobs. Jobs that are over end there, too.
  void take_reported(NodeId node, const std::vector<JobId>& reported);

  /// An actor of the job has ended. If the job has no driver, it may be over.
  void note_actor_over(JobId job);
  /// All jobs without a driver may be over.
  void review_all();
  bool has_maybe_over() const { return !maybe_over_.empty(); }
  /// Returns the jobs that may be over, which still have to be known and without a driver.
  std::unordered_set<JobId> take_maybe_over() { return std::exchange(maybe_over_, {}); }

 private:
  Events& events_;
  std::unordered_map<JobId, Job> jobs_;
  std::unordered_set<JobId> maybe_over_;  // jobs without a driver of which an actor has ended
};

}  // namespace pharos::node::head
