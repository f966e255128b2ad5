#pragma once

#include <memory>
#include <optional>
#include <string>

#include <pharos/actors/arguments.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/actors/placement_group.hpp>
#include <pharos/net/peer.hpp>

#include "caller/connector.hpp"
#include "caller/flush_queue.hpp"
#include "caller/known_actors.hpp"
#include "caller/lineage.hpp"
#include "caller/node_line.hpp"
#include "caller/pending_calls.hpp"
#include "caller/pending_results.hpp"
#include "caller/task_pools.hpp"
#include "program/platform.hpp"
#include "results/large_values.hpp"
#include "results/waiting_room.hpp"

namespace pharos::detail {

/// The job and the node of a Caller. A value.
struct Home {
  JobId job;
  NodeId node;
};

/// The calling side of a process: of a program, or of a worker whose code makes calls. It puts the
/// parts of this side together: the line to the node, calls before they are sent (PendingCalls), tasks (TaskPools),
/// actors (KnownActors), and the store for large values.
/// Made by a Driver or by a worker (CallServer), which reads the messages of the node for it; users' handles share it.
/// Threads: the interface may be used from any thread, unless a function says otherwise; messages of the node are
/// handled on the executor's strand.
/// Failure: what goes wrong with a task or a call is the error of its cell. When the node of a program is gone, its
/// Driver calls lose_everything(); a worker ends.
/// End: end(), before the destructor: otherwise FlushQueue, or a coroutine that is left, aborts the process. Afterwards
/// calls fail with kRuntimeStopped; cells and handles may live on. In a worker it ends with the process.
class Caller final : public std::enable_shared_from_this<Caller> {
 public:
  static std::shared_ptr<Caller> make(const std::shared_ptr<actors::Platform>& platform,
                                      std::shared_ptr<actors::FlushQueue> flush_queue,
                                      actors::OutgoingCalls::Side side);
  ~Caller();

  /// Called once, when the node has registered this caller. Nothing can be called before.
  void join(const std::shared_ptr<net::Peer>& node, const wire::JobRegistered& registered);
  /// Handles a message of the node. Returns false if the message is not meant for callers.
  bool on_node_message(const wire::Message& message);

  /// Never throws for an error of the task: that is the error of the cell.
  CellHandle submit(const TaskOptions& options, const RegisteredFunction& function, const Arguments& arguments);
  /// Throws InvalidArgument if the options make no sense, and RuntimeStopped in a child of fork().
  std::shared_ptr<GroupHandle> reserve(const GroupOptions& options);
  /// Cancels the call of a pending result. If the call has not begun, the cell gets kCancelled; else its worker is
  /// told, and if it is cancelled by force, a worker that runs the task is killed. Does nothing if no call brings the
  /// result.
  void cancel(ResultCell& cell);
  CellHandle new_cell() const { return pending_->new_cell(); }
  /// Returns a cell with this value. Throws Exhausted or RuntimeStopped if there is no room for a large value. If the
  /// value cannot be encoded, the cell has kInvalidArgument.
  CellHandle put(const Encoder& value);

  actors::KnownActors& actors() { return *actors_; }
  actors::TaskPools& tasks() { return *tasks_; }
  actors::LargeValues& large_values() { return *large_values_; }
  actors::PendingResults& pending_results() { return pending_results_; }
  actors::NodeLine& line() { return *line_; }
  const std::shared_ptr<actors::NodeLine>& shared_line() const { return line_; }

  /// Returns the Caller whose result this is; null if it has ended.
  static std::shared_ptr<Caller> of(const CellHandle& result);
  /// Returns the job and node of the newest Caller in this process that has joined and not ended; nullopt if there is
  /// none.
  static std::optional<Home> home_of_newest();

  JobId job() const { return line_->registered().job; }
  NodeId node() const { return line_->registered().node; }
  const std::string& address() const { return line_->registered().address; }

  /// Fails all tasks, calls and actors with this error, and all later ones.
  void lose_everything(const Error& why);
  /// The same, because the Runtime ends.
  void close();
  /// Calls close(), and waits until its coroutines and callbacks have ended. Waits for a callback as long as it takes;
  /// a coroutine that goes on for 10 s aborts the process. Not to be called on the strand or in a callback.
  void end();
  /// Called in a child of fork(), which must not use the parent's Caller: from now on everything fails with
  /// kRuntimeStopped, and the child's copies of the connections are closed.
  void abandon_after_fork();
  bool abandoned() const { return line_->abandoned(); }

 private:
  Caller(const std::shared_ptr<actors::Platform>& platform, std::shared_ptr<actors::FlushQueue> flush_queue,
         actors::OutgoingCalls::Side side);

  /// Returns true if the call has not begun, and then it never begins. Otherwise its worker is told.
  bool give_up(ResultCell& cell);

  const std::shared_ptr<actors::NodeLine> line_;
  const std::shared_ptr<actors::FlushQueue> flush_queue_;
  const std::shared_ptr<actors::LargeValues> large_values_;
  const std::shared_ptr<actors::WaitingRoom> room_;
  const std::shared_ptr<actors::PendingCalls> pending_;
  const std::shared_ptr<actors::Connector> connector_;
  const std::shared_ptr<actors::KnownActors> actors_;
  const std::shared_ptr<actors::Lineage> lineage_;
  const std::shared_ptr<actors::TaskPools> tasks_;
  actors::PendingResults pending_results_;
};

/// Returns the Caller of the code that runs in this worker, inside and outside of calls. Null in a program. Any thread.
std::shared_ptr<Caller> caller_of_worker();
/// Sets the Caller of this worker process, before it runs any call.
void set_caller_of_worker(std::shared_ptr<Caller> caller);

}  // namespace pharos::detail
