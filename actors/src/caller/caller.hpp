#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/actors/runtime.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/net/peer.hpp>

#include "caller/flush_queue.hpp"
#include "caller/lineage.hpp"
#include "caller/outgoing_calls.hpp"
#include "caller/task_pool.hpp"
#include "groups/group_handle.hpp"
#include "program/platform.hpp"
#include "results/carried_actors.hpp"
#include "results/large_values.hpp"
#include "results/waiting_room.hpp"

namespace pharos::detail {

/// One actor as this process knows it: its connection, and why it was lost. A user's handles are shares of it
/// (share()). The Caller keeps it until no user of this process has a handle, or the actor has ended. Any thread.
class ActorHandle final : public actors::OutgoingCalls::Observer, public std::enable_shared_from_this<ActorHandle> {
 public:
  static std::shared_ptr<ActorHandle> make(const std::shared_ptr<Caller>& caller, ActorId id, std::string label);

  ActorId id() const { return id_; }
  const std::string& label() const { return label_; }
  const std::shared_ptr<actors::OutgoingCalls>& calls() const { return calls_; }
  /// Returns the store for the large arguments of its calls; null if the Caller is gone.
  std::shared_ptr<actors::LargeValues> large_values() const;
  /// Keeps the cell with the constructor's arguments, since the constructor may be called again at a restart.
  void keep_construction(CellHandle construction) { construction_ = std::move(construction); }
  /// Keeps the placement group of which the actor's resources are a part.
  void keep_group(std::shared_ptr<GroupHandle> group) { group_ = std::move(group); }
  /// Sends a call. Returns an empty handle only with kRefuse, if the queue is full.
  CellHandle call(const CallOptions& options, const RegisteredFunction& function, const Arguments& arguments,
                  actors::OutgoingCalls::WhenFull when_full = actors::OutgoingCalls::WhenFull::kWait);
  /// `why` is the error of its calls; without it they say that this program has killed the actor.
  void kill(const std::optional<Error>& why = std::nullopt);
  void stop(Duration grace);
  /// Returns a cell that gets an error, the reason, when this process knows that the actor is gone for good. It is
  /// ready before any call throws that reason.
  CellHandle loss();
  /// Notes that the actor is gone. Returns the reason that was noted first.
  Error note_loss(const Error& why);
  /// Returns a share for a user. When the last share is gone and every call is answered, the actor is let go.
  std::shared_ptr<ActorHandle> share();

  void on_replies(actors::OutgoingCalls& calls, std::size_t replies, Duration execution,
                  std::size_t in_flight) override;
  void on_returned(actors::OutgoingCalls& calls, std::vector<CellHandle> cells, bool takes_more) override;
  void on_disconnected(actors::OutgoingCalls& calls) override;

 private:
  ActorHandle(const std::shared_ptr<Caller>& caller, ActorId id, std::string label);
  void let_go_if_done();

  const std::weak_ptr<Caller> caller_;
  const ActorId id_;
  const std::string label_;
  std::atomic<std::int64_t> shares_ = 0;
  std::atomic<bool> ended_ = false;               // this process has killed the actor or let it go
  std::shared_ptr<actors::OutgoingCalls> calls_;  // set once, by make()
  CellHandle construction_;
  std::shared_ptr<GroupHandle> group_;
  std::mutex mutex_;
  CellHandle loss_;  // empty until loss() is called
  std::optional<Error> lost_;
};

/// The job and the node of a Caller.
struct Home {
  JobId job;
  NodeId node;
};

/// The calling side of a process: of a program, or of a worker whose code makes calls. It has the tasks, the actors and
/// the results of the process, and talks to the node about them.
/// Made by a Driver or by a worker (CallServer), which reads the messages of the node for it; users' handles share it.
/// Threads: the interface may be used from any thread, unless a function says otherwise; messages of the node are
/// handled on the executor's strand.
/// Failure: what goes wrong with a task or a call is the error of its cell. When the node of a program is gone, its
/// Driver calls lose_everything(); a worker ends.
/// End: close(), then end(); afterwards calls fail with kRuntimeStopped. In a worker it ends with the process.
class Caller final : public std::enable_shared_from_this<Caller>, public actors::TaskPool::Leases {
 public:
  static std::shared_ptr<Caller> make(std::shared_ptr<actors::Platform> platform,
                                      std::shared_ptr<actors::FlushQueue> flush_queue,
                                      actors::OutgoingCalls::Side side);
  ~Caller() override;

  /// Called once, when the node has registered this caller. Nothing can be called before.
  void join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered);
  /// Handles a message of the node. Returns false if the message is not meant for callers.
  bool on_node_message(const wire::Message& message);

  CellHandle submit(const TaskOptions& options, const RegisteredFunction& function, const Arguments& arguments);
  /// `label` is the actor's name in messages; if empty, its name in the options, or its type.
  std::shared_ptr<ActorHandle> spawn(const ActorOptions& options, const char* type_name,
                                     const RegisteredFunction& constructor, const Arguments& arguments,
                                     const std::string& label = {});
  std::shared_ptr<GroupHandle> reserve(const GroupOptions& options);
  /// Cancels the call of a pending result. If the call has not begun, the cell gets kCancelled; else its worker is
  /// told.
  void cancel(ResultCell& cell);
  Result<std::shared_ptr<ActorHandle>> find_actor(const std::string& name, const std::string& name_space,
                                                  const char* type_name);
  /// Returns a handle of an actor that this process has received with a call, or found by its name. `held` says whether
  /// the node has counted a hold for this handle already.
  std::shared_ptr<ActorHandle> adopt(ActorId id, const std::string& label, bool held);
  /// The same for a handle that came in a result.
  std::shared_ptr<ActorHandle> receive(const actors::CarriedActor& carried) {
    return adopt(carried.id, carried.label, false);
  }
  CellHandle new_cell() const { return ResultCell::make(room_); }
  /// Returns a cell with this value. Throws if there is no room for a large value.
  CellHandle put(const Encoder& value);
  actors::LargeValues& large_values() { return *large_values_; }
  /// Returns the results that threads and coroutines of this process wait for.
  std::vector<wire::PendingResult> pending_results();
  /// Explains these waits in lines for people. Asks the node, for at most a second. `then` runs on the strand.
  void explain_waits(async::UniqueFunction<void(std::string)> then);
  /// The same, together with the call that this process runs.
  void explain(const wire::InspectedWorker& running, async::UniqueFunction<void(wire::Explained)> then);
  /// Takes the task of this cell back, so that the thread that waits for it can run it. Returns false, and takes
  /// nothing, if the task has a worker, will have one soon, or needs more than CPUs.
  bool take_back(ResultCell& cell);

  /// Sends a message to the node, after all earlier ones.
  void tell_node(wire::Message message);
  /// Waits until all earlier messages have been sent to the node. Not to be called on the strand.
  void finish_telling_node();
  /// Runs `then` on the strand after this time, unless the Runtime has ended.
  void run_later(Duration time, async::Callback then) { executor_.run_at(executor_.now() + time, std::move(then)); }
  /// Runs `then` on the strand once all earlier messages have been sent to the node.
  void after_telling_node(async::Callback then) { executor_.post(std::move(then)); }
  void actor_disconnected(std::shared_ptr<ActorHandle> actor);
  /// Gives up this process's hold of an actor of which no user has a handle.
  void let_go(ActorHandle& actor);
  /// Fails the calls of an actor, now and later.
  void lose_actor(ActorHandle& actor, const Error& why);

  /// Returns the job and node of the newest Caller in this process that has joined and not ended; nullopt if there is
  /// none.
  static std::optional<Home> home_of_newest();

  JobId job() const { return registered_.job; }
  NodeId node() const { return registered_.node; }
  const std::string& address() const { return registered_.address; }

  /// Fails all tasks, calls and actors with this error, and all later ones.
  void lose_everything(const Error& why);
  /// The same, because the Runtime ends.
  void close();
  /// Waits until its coroutines and callbacks have ended.
  void end();
  /// Called in a child of fork(), which has no part in this Caller any more.
  void abandon_after_fork();
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 private:
  Caller(std::shared_ptr<actors::Platform> platform, std::shared_ptr<actors::FlushQueue> flush_queue,
         actors::OutgoingCalls::Side side);

  void request_lease(actors::TaskPool& pool) override;
  void return_lease(WorkerId worker) override;
  void give_back(const wire::RecallLeases& recalled);
  void tend_soon() override;
  void worker_disconnected(WorkerId worker) override;
  actors::Lineage& lineage() override { return *lineage_; }

  /// A call whose arguments wait for other results.
  struct Incomplete;
  template <class Options>
  static ResultCell::Call new_call(const RegisteredFunction& function, const Options& options);
  void give_up_at(Deadline deadline, const CellHandle& cell);
  /// Returns true if the call has not begun, and then it never begins. Otherwise its worker is told.
  bool give_up(ResultCell& cell);
  /// Gives the cell its call and its arguments. Returns null if the arguments are complete, or if the cell has failed
  /// because an argument is an error.
  std::shared_ptr<Incomplete> prepare(const CellHandle& cell, ResultCell::Call call, const Arguments& arguments);
  /// Runs `then` on the strand once the arguments are complete; with an error if they never will be.
  void complete_later(const std::shared_ptr<Incomplete>& incomplete,
                      async::UniqueFunction<void(std::optional<Error>)> then);
  void complete(const std::shared_ptr<Incomplete>& incomplete);
  std::vector<std::shared_ptr<ActorHandle>> actors();
  std::vector<CellHandle> missing_arguments(const ResultCell& cell);
  void add_pending(const CellHandle& cell, std::int32_t argument_of, std::vector<wire::PendingResult>& to);
  static async::Async<void> ask_why(Caller* self, async::UniqueFunction<void(std::string)> then);

  /// Returns the pool of the tasks that ask for these resources and nodes; makes it if there is none.
  Result<actors::TaskPool*> pool_of(const TaskOptions& options);
  Result<actors::TaskPool*> pool_near(TaskOptions options, const std::vector<Placeholder>& placeholders);
  std::vector<actors::TaskPool*> pools();

  static async::Async<void> lease_worker(Caller* self, actors::TaskPool* pool);
  static async::Async<void> place_group(Caller* self, CellHandle cell, wire::PlaceGroup place);
  static async::Async<void> start_actor(Caller* self, std::shared_ptr<ActorHandle> actor, wire::StartActor start);
  static async::Async<void> connect_actor(Caller* self, std::shared_ptr<ActorHandle> actor, std::uint32_t seen);
  static async::Async<void> connect_actor_later(Caller* self, std::shared_ptr<ActorHandle> actor);
  void leave(const wire::IncarnationEnded& ended);
  Result<wire::ActorFound> ask_for_actor(wire::Message ask);
  static async::Async<Result<wire::ActorFound>> request_actor(Caller* self, wire::Message ask);
  void begin_to_tend();
  static async::Async<void> tend_tasks(Caller* self);
  static async::Async<void> give_up_on_worker(Caller* self, WorkerId worker);

  std::shared_ptr<actors::OutgoingCalls> open_calls(std::weak_ptr<actors::OutgoingCalls::Observer> observer);
  void connect_worker(actors::OutgoingCalls& calls, net::Parcel parcel, const std::string& whose);
  void take_answer(const std::shared_ptr<ActorHandle>& actor, Result<net::Parcel> answer);
  std::optional<Error> over();

  friend class ActorHandle;

  const std::shared_ptr<actors::Platform> platform_;  // shared: handles may keep this Caller longer than its Driver
  async::Executor& executor_;
  const std::shared_ptr<actors::FlushQueue> flush_queue_;
  const actors::OutgoingCalls::Side side_;
  const std::shared_ptr<actors::LargeValues> large_values_;
  const std::shared_ptr<actors::WaitingRoom> room_;
  const std::shared_ptr<actors::Lineage> lineage_;
  const actors::OutgoingCalls::Numbers numbers_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  actors::TaskPool tasks_;  // tasks with default options
  std::shared_ptr<net::Peer> node_;
  wire::JobRegistered registered_;
  std::atomic<bool> abandoned_ = false;

  std::mutex mutex_;
  std::unordered_map<ActorId, std::shared_ptr<ActorHandle>> actors_;
  std::map<actors::Shape, std::unique_ptr<actors::TaskPool>> other_tasks_;  // tasks with other options, by shape
  std::map<std::uint64_t, std::shared_ptr<Incomplete>> incomplete_;         // by number, oldest first
  std::uint64_t last_incomplete_ = 0;
  std::optional<Error> over_;  // why the node cannot be asked any more
  bool tends_tasks_ = false;   // used on the strand alone

  async::AsyncGroup background_;
};

/// Returns the Caller of the code that runs in this worker, inside and outside of calls. Null in a program.
std::shared_ptr<Caller> caller_of_worker();
/// Sets the Caller of this worker process, before it runs any call.
void set_caller_of_worker(std::shared_ptr<Caller> caller);

}  // namespace pharos::detail
