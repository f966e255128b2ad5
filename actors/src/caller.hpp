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

#include "call_link.hpp"
#include "carried_actors.hpp"
#include "flush_queue.hpp"
#include "group_handle.hpp"
#include "large_values.hpp"
#include "platform.hpp"
#include "recipes.hpp"
#include "task_pool.hpp"
#include "waiting_room.hpp"

namespace pharos::detail {

/// One actor, as a caller knows it: kept by the caller until nobody here has a handle or the actor has ended.
/// Any thread.
class ActorHandle final : public actors::CallLink::Observer, public std::enable_shared_from_this<ActorHandle> {
 public:
  static std::shared_ptr<ActorHandle> make(const std::shared_ptr<Caller>& caller, ActorId id, std::string label);

  ActorId id() const { return id_; }
  const std::string& label() const { return label_; }
  const std::shared_ptr<actors::CallLink>& link() const { return link_; }
  /// Where the large arguments of its calls go; null when its caller is gone.
  std::shared_ptr<actors::LargeValues> large_values() const;
  /// What its constructor is called with: it may be called again.
  void keep_construction(CellHandle construction) { construction_ = std::move(construction); }
  /// Its resources are a part of that.
  void keep_group(std::shared_ptr<GroupHandle> group) { group_ = std::move(group); }
  /// Null: kRefuse, and its queue is full.
  CellHandle call(const CallOptions& options, const RegisteredFunction& function, const Arguments& arguments,
                  actors::CallLink::WhenFull when_full = actors::CallLink::WhenFull::kWait);
  /// `why`: what its calls fail with; none: that this program has killed it.
  void kill(const std::optional<Error>& why = std::nullopt);
  void stop(Duration grace);
  /// Ready when it is gone for good as far as this process knows, with why; before any call throws that.
  CellHandle loss();
  /// It is gone.
  Error note_loss(const Error& why);
  /// A user's share: when the last is gone, and every call is answered, the actor is let go.
  std::shared_ptr<ActorHandle> share();

  void on_replies(actors::CallLink& link, std::size_t replies, Duration execution, std::size_t in_flight) override;
  void on_returned(actors::CallLink& link, std::vector<CellHandle> cells, bool takes_more) override;
  void on_disconnected(actors::CallLink& link) override;

 private:
  ActorHandle(const std::shared_ptr<Caller>& caller, ActorId id, std::string label);
  void let_go_if_done();

  const std::weak_ptr<Caller> caller_;
  const ActorId id_;
  const std::string label_;
  std::atomic<std::int64_t> shares_ = 0;
  std::atomic<bool> ended_ = false;         // killed, or let go
  std::shared_ptr<actors::CallLink> link_;  // set once, by make()
  CellHandle construction_;
  std::shared_ptr<GroupHandle> group_;
  std::mutex mutex_;
  CellHandle loss_;  // once somebody has asked
  std::optional<Error> lost_;
};

/// To what a caller belongs.
struct Home {
  JobId job;
  NodeId node;
};

/// Who calls: a program, or a worker whose code calls from inside a call. Its tasks, its actors, its results; what it
/// asks of its node, and what it is told.
/// Made and composed by a Driver or a worker, which reads for it; shared by handles. Threads: the interface from any;
/// what nodes tell is handled on the executor.
/// End: close(), then end(); afterwards calls fail with kRuntimeStopped. A worker ends with its process.
class Caller final : public std::enable_shared_from_this<Caller>, public actors::TaskPool::Leases {
 public:
  static std::shared_ptr<Caller> make(std::shared_ptr<actors::Platform> platform,
                                      std::shared_ptr<actors::FlushQueue> flush_queue, actors::CallLink::Side side);
  ~Caller() override;

  /// The node has taken it in. Nothing can be called before.
  void join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered);
  /// What the node tells callers; false for a message that is none of those.
  bool on_node_message(const wire::Message& message);

  CellHandle submit(const TaskOptions& options, const RegisteredFunction& function, const Arguments& arguments);
  /// `label`: what it is called for people; empty: its name, or its type.
  std::shared_ptr<ActorHandle> spawn(const ActorOptions& options, const char* type_name,
                                     const RegisteredFunction& constructor, const Arguments& arguments,
                                     const std::string& label = {});
  std::shared_ptr<GroupHandle> reserve(const GroupOptions& options);
  /// The call of a pending result is wanted no more: Cancelled if it has not begun, else its worker is told.
  void cancel(ResultCell& cell);
  Result<std::shared_ptr<ActorHandle>> find_actor(const std::string& name, const std::string& name_space,
                                                  const char* type_name);
  /// A handle that came with a call, or by its name. The node counts `held` for it already.
  std::shared_ptr<ActorHandle> adopt(ActorId id, const std::string& label, bool held);
  /// The same for one that came in a result.
  std::shared_ptr<ActorHandle> receive(const actors::CarriedActor& carried) {
    return adopt(carried.id, carried.label, false);
  }
  CellHandle new_cell() const { return ResultCell::make(room_); }
  /// A value that is there. Throws when there is no room for a large one.
  CellHandle put(const Encoder& value);
  actors::LargeValues& large_values() { return *large_values_; }
  /// What get() waits for, in whichever thread. Any thread.
  std::vector<wire::PendingResult> pending_results();
  /// Why it does, in lines for people: asks the node, for no longer than a second. `then` runs on the strand.
  void explain_waits(async::UniqueFunction<void(std::string)> then);
  /// The same beside what this process runs.
  void explain(const wire::InspectedWorker& running, async::UniqueFunction<void(wire::Explained)> then);
  /// A task that waits for a worker that will not come soon is the thread's that waits for it.
  bool take_back(ResultCell& cell);

  /// Tells the node, after all that it has been told before.
  void tell_node(wire::Message message);
  /// Waits until the node has been told what was to be told before. Not on the strand.
  void finish_telling_node();
  /// Runs it on the strand after so long, unless the Runtime has ended.
  void run_later(Duration time, async::Callback then) { executor_.run_at(executor_.now() + time, std::move(then)); }
  /// Runs it on the strand once the node has been told what was to be told before.
  void after_telling_node(async::Callback then) { executor_.post(std::move(then)); }
  void actor_disconnected(std::shared_ptr<ActorHandle> actor);
  /// Nobody here has a handle any more.
  void let_go(ActorHandle& actor);
  /// Its calls fail, now and later.
  void lose_actor(ActorHandle& actor, const Error& why);

  /// Of the newest in this process that has joined and not ended. Any thread.
  static std::optional<Home> home_of_newest();

  JobId job() const { return registered_.job; }
  NodeId node() const { return registered_.node; }
  const std::string& address() const { return registered_.address; }

  /// Everything under way fails with this, and so does everything later.
  void lose_everything(const Error& why);
  /// The same, because the Runtime ends.
  void close();
  /// Waits until nothing of it runs any more.
  void end();
  /// In a child of fork(): this process has no part in it any more.
  void abandon_after_fork();
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 private:
  Caller(std::shared_ptr<actors::Platform> platform, std::shared_ptr<actors::FlushQueue> flush_queue,
         actors::CallLink::Side side);

  void request_lease(actors::TaskPool& pool) override;
  void return_lease(WorkerId worker) override;
  void give_back(const wire::RecallLeases& recalled);
  void tend_soon() override;
  void worker_disconnected(WorkerId worker) override;
  actors::Recipes& recipes() override { return *recipes_; }

  /// A call whose arguments wait for other results.
  struct Incomplete;
  /// Gives the cell its call, and its arguments if they are there: then null. A result that is an error fails the cell.
  template <class Options>
  static ResultCell::Call new_call(const RegisteredFunction& function, const Options& options);
  void give_up_at(Deadline deadline, const CellHandle& cell);
  /// True: the call has not begun, and will not. Else its worker is told.
  bool give_up(ResultCell& cell);
  std::shared_ptr<Incomplete> prepare(const CellHandle& cell, ResultCell::Call call, const Arguments& arguments);
  /// Runs `then` on the strand once the arguments are complete, or with why they will never be.
  void complete_later(const std::shared_ptr<Incomplete>& incomplete,
                      async::UniqueFunction<void(std::optional<Error>)> then);
  void complete(const std::shared_ptr<Incomplete>& incomplete);
  std::vector<std::shared_ptr<ActorHandle>> actors();
  std::vector<CellHandle> missing_arguments(const ResultCell& cell);
  void add_pending(const CellHandle& cell, std::int32_t argument_of, std::vector<wire::PendingResult>& to);
  static async::Async<void> ask_why(Caller* self, async::UniqueFunction<void(std::string)> then);

  /// Of tasks that hold so much.
  Result<actors::TaskPool*> pool_of(const TaskOptions& options);
  Result<actors::TaskPool*> pool_near(TaskOptions options, const std::vector<Hole>& holes);
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

  std::shared_ptr<actors::CallLink> new_link(std::weak_ptr<actors::CallLink::Observer> observer);
  void connect_worker(actors::CallLink& link, net::Parcel parcel, const std::string& whose);
  void take_answer(const std::shared_ptr<ActorHandle>& actor, Result<net::Parcel> answer);
  std::optional<Error> over();

  friend class ActorHandle;

  const std::shared_ptr<actors::Platform> platform_;  // handles may keep this longer than its Driver lives
  async::Executor& executor_;
  const std::shared_ptr<actors::FlushQueue> flush_queue_;
  const actors::CallLink::Side side_;
  const std::shared_ptr<actors::LargeValues> large_values_;
  const std::shared_ptr<actors::WaitingRoom> room_;
  const std::shared_ptr<actors::Recipes> recipes_;
  const actors::CallLink::Numbers numbers_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  actors::TaskPool tasks_;  // of the usual shape
  std::shared_ptr<net::Peer> node_;
  wire::JobRegistered registered_;
  std::atomic<bool> abandoned_ = false;

  std::mutex mutex_;
  std::unordered_map<ActorId, std::shared_ptr<ActorHandle>> actors_;
  std::map<actors::Shape, std::unique_ptr<actors::TaskPool>> other_tasks_;  // of other shapes
  std::map<std::uint64_t, std::shared_ptr<Incomplete>> incomplete_;         // oldest first
  std::uint64_t last_incomplete_ = 0;
  std::optional<Error> over_;  // why nothing can be asked of the node any more
  bool tends_tasks_ = false;   // the strand's

  async::AsyncGroup background_;
};

/// Of the code that runs here: the worker's, inside and outside of calls. Null in a program.
std::shared_ptr<Caller> caller_of_worker();
/// This process is a worker, and this is what its code calls with.
void set_caller_of_worker(std::shared_ptr<Caller> caller);

}  // namespace pharos::detail
