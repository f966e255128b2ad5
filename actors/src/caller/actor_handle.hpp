#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <pharos/actors/arguments.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/base/id.hpp>

#include "caller/node_line.hpp"
#include "caller/outgoing_calls.hpp"
#include "caller/pending_calls.hpp"
#include "groups/group_handle.hpp"

namespace pharos::detail {

/// One actor as this process knows it: its connection, and why it was lost. A user's handles are shares of it
/// (share()). The owner, which is the caller's KnownActors, keeps it until no user of this process has a handle and all
/// calls are answered, or the actor has ended. Any thread.
/// Failure: call() throws RuntimeStopped if the Caller is gone; what else goes wrong with a call is the error of its
/// cell. kill() and stop() then do nothing, nor do they after a kill(), or in a child of fork().
/// End: a handle of a user may outlive the owner. The calls are failed by the owner (lose_actor()), not by the
/// destructor.
class ActorHandle final : public actors::OutgoingCalls::Observer, public std::enable_shared_from_this<ActorHandle> {
 public:
  /// What the handle asks of the Caller that it belongs to. The handle has only a weak reference to it. Any thread.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual actors::PendingCalls& pending_calls() = 0;
    virtual actors::NodeLine& line() = 0;
    virtual std::shared_ptr<actors::OutgoingCalls> open_calls(const std::shared_ptr<ActorHandle>& actor) = 0;
    /// The connection to the actor has ended.
    virtual void actor_disconnected(std::shared_ptr<ActorHandle> actor) = 0;
    /// Gives up this process's hold of an actor of which no user has a handle.
    virtual void let_go(ActorHandle& actor) = 0;
    /// Fails the calls of an actor, now and later.
    virtual void lose_actor(ActorHandle& actor, const Error& why) = 0;
  };

  static std::shared_ptr<ActorHandle> make(const std::shared_ptr<Owner>& owner, ActorId id, std::string label);

  ActorId id() const { return id_; }
  const std::string& label() const { return label_; }
  const std::shared_ptr<actors::OutgoingCalls>& calls() const { return calls_; }
  /// Returns the store for the large arguments of its calls; null if the Caller is gone.
  std::shared_ptr<actors::LargeValues> large_values() const;
  /// Keeps the cell with the constructor's arguments, since the constructor may be called again at a restart.
  void keep_construction(CellHandle construction) { construction_ = std::move(construction); }
  /// Keeps the placement group of which the actor's resources are a part.
  void keep_group(std::shared_ptr<GroupHandle> group) { group_ = std::move(group); }
  /// Sends a call; waits as `when_full` says. Returns an empty handle only with kRefuse, if the call was not taken.
  CellHandle call(const CallOptions& options, const RegisteredFunction& function, const Arguments& arguments,
                  actors::OutgoingCalls::WhenFull when_full = actors::OutgoingCalls::WhenFull::kWait);
  /// Sends a call of a method of another build: `function` is its entry in this program's table, and `index` is its
  /// index in the table of the actor's program.
  CellHandle call_foreign(const CallOptions& options, const RegisteredFunction& function, std::uint32_t index,
                          const Arguments& arguments);
  /// Fails all calls at once. `why` is their error; without it they say that this program has killed the actor.
  void kill(const std::optional<Error>& why = std::nullopt);
  /// Sends a call whose result nobody wants. It is sent and kept like other calls, but ends without a word; if it
  /// fails, the log says so.
  void send(const CallOptions& options, const RegisteredFunction& function, const Arguments& arguments);
  void send_foreign(const CallOptions& options, const RegisteredFunction& function, std::uint32_t index,
                    const Arguments& arguments);
  /// Tells the node to stop the actor. A grace below 1 ms counts as 1 ms.
  void stop(Duration grace);
  /// Returns a cell that gets an error, the reason, when this process knows that the actor is gone for good. It is
  /// ready before any call throws that reason. The first call of loss() throws RuntimeStopped if the Caller is gone.
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
  ActorHandle(const std::shared_ptr<Owner>& owner, ActorId id, std::string label);
  struct Sending {
    actors::OutgoingCalls::WhenFull when_full = actors::OutgoingCalls::WhenFull::kWait;
    bool one_way = false;
    std::optional<std::uint32_t> index_there = {};  // of a method of another build
  };
  CellHandle start(const CallOptions& options, const RegisteredFunction& function, const Arguments& arguments,
                   const Sending& how);
  void let_go_if_done();

  const std::weak_ptr<Owner> owner_;
  const ActorId id_;
  const std::string label_;
  std::atomic<std::int64_t> shares_ = 0;          // sequentially consistent: see OutgoingCalls::in_flight_
  std::atomic<bool> ended_ = false;               // this process has killed the actor or let it go
  std::shared_ptr<actors::OutgoingCalls> calls_;  // set once, by make()
  CellHandle construction_;
  std::shared_ptr<GroupHandle> group_;
  std::mutex mutex_;
  CellHandle loss_;  // empty until loss() is called
  std::optional<Error> lost_;
};

}  // namespace pharos::detail
