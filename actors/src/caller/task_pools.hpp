#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <pharos/actors/options.hpp>
#include <pharos/async/async.hpp>
#include <pharos/wire/message.hpp>

#include "caller/connector.hpp"
#include "caller/lineage.hpp"
#include "caller/node_line.hpp"
#include "caller/shape.hpp"
#include "caller/task_pool.hpp"

namespace pharos::actors {

/// The tasks of one caller: a TaskPool for each combination of resources, labels and nodes that its tasks ask for, and
/// the leases of workers that the pools ask the node for.
/// Owned by the Caller. Any thread, unless a function says otherwise. Bounds: kShapesMax combinations; a task with
/// another one fails with kOverloaded. A pool of a placement group is forgotten when it has no tasks and nobody has it.
/// End: close() fails the tasks. Its coroutines use this object, so NodeLine::end() comes before the destructor.
class TaskPools final : public TaskPool::Leases, public std::enable_shared_from_this<TaskPools> {
 public:
  static constexpr std::size_t kShapesMax = 256;  ///< different shapes of tasks, besides the default and groups

  TaskPools(std::shared_ptr<NodeLine> line, std::shared_ptr<Connector> connector, std::shared_ptr<Lineage> lineage)
      : line_{std::move(line)},
        connector_{std::move(connector)},
        lineage_{std::move(lineage)},
        tasks_{std::make_shared<TaskPool>(*this, line_->executor(), Shape::of_cpus(1))} {}

  /// Called once, when the node has registered the caller.
  void join() { tasks_->set_requests_max(line_->registered().cpus); }

  /// Returns the pool of the tasks that ask for these resources and nodes; makes the pool if there is none. The pool of
  /// tasks that ask for one CPU is always there. For others it fails with kInvalidArgument if the options make no
  /// sense, with kOverloaded beyond kShapesMax, and with the reason for which the line to the node is over.
  Result<std::shared_ptr<TaskPool>> pool_of(const TaskOptions& options);
  /// The same, for a task whose arguments are known by now: prefers the node where most bytes of them lie, if the
  /// difference is large and the options name and prefer no node.
  Result<std::shared_ptr<TaskPool>> pool_near(TaskOptions options, const std::vector<detail::Placeholder>& arguments);
  /// Takes the task of this cell back, so that the thread that waits for it can run it. Returns false, and takes
  /// nothing, if the task has a worker, will have one soon, or asks for more than CPUs: for other resources, labels or
  /// a node.
  bool take_back(detail::ResultCell& cell);
  /// Gives up the task of this cell. Returns true if it was not sent; else its worker is told.
  bool cancel(detail::ResultCell& cell);
  /// Kills the worker that runs the task of this cell: see TaskPool::end_by_force().
  void end_by_force(const detail::ResultCell& cell);
  /// Where a task is.
  struct Place {
    TaskPool::Place in_pool;
    Shape shape;  ///< what the task asks for
  };
  std::optional<Place> find(const detail::ResultCell& cell);

  /// The node wants workers back. On the strand.
  void give_back(const wire::RecallLeases& recalled);
  /// A worker has ended. On the strand.
  void lose_worker(const wire::WorkerEnded& ended);
  void close(const Error& why);

  void request_lease(TaskPool& pool) override;
  void return_lease(WorkerId worker) override;
  void kill_worker(WorkerId worker) override;
  void tend_soon() override;
  void worker_disconnected(WorkerId worker) override;
  Lineage& lineage() override { return *lineage_; }

 private:
  std::vector<std::shared_ptr<TaskPool>> all();
  void forget_ended_groups();
  std::shared_ptr<OutgoingCalls::Observer> observer_of(const std::shared_ptr<TaskPool>& pool);
  void begin_to_tend();
  async::Async<void> lease_worker(std::shared_ptr<TaskPool> pool);
  async::Async<void> tend_tasks();
  async::Async<void> give_up_on_worker(WorkerId worker);

  const std::shared_ptr<NodeLine> line_;
  const std::shared_ptr<Connector> connector_;
  const std::shared_ptr<Lineage> lineage_;
  const std::shared_ptr<TaskPool> tasks_;  // tasks with default options
  std::mutex mutex_;
  std::map<Shape, std::shared_ptr<TaskPool>> others_;  // tasks with other options, by shape
  // The observers of the pools of groups, which keep this object until close().
  std::map<const TaskPool*, std::shared_ptr<OutgoingCalls::Observer>> observers_;
  bool tends_tasks_ = false;  // used on the strand alone
};

}  // namespace pharos::actors
