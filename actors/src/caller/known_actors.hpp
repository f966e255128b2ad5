#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/actors/options.hpp>
#include <pharos/async/async.hpp>
#include <pharos/wire/message.hpp>

#include "caller/actor_handle.hpp"
#include "caller/connector.hpp"
#include "caller/node_line.hpp"
#include "caller/pending_calls.hpp"
#include "results/carried_actors.hpp"
#include "results/uncounted_holds.hpp"

namespace pharos::actors {

/// The actors that one caller knows: makes actors, finds them by name, receives their handles, and connects to them
/// again after their connections have ended. An actor is known from its first handle in this process until the last
/// one is gone, or the actor has ended.
/// Owned by the Caller. Any thread, unless a function says otherwise. Failure: what goes wrong with an actor is the
/// error of its calls; spawn() throws what is said there. End: lose_all() fails the calls of all actors and forgets the
/// actors. The coroutines use this object, so NodeLine::end() comes before the destructor.
class KnownActors final : public detail::ActorHandle::Owner,
                          public OutgoingCalls::Receiver,
                          public std::enable_shared_from_this<KnownActors> {
 public:
  KnownActors(std::shared_ptr<NodeLine> line, std::shared_ptr<Connector> connector,
              std::shared_ptr<PendingCalls> pending)
      : line_{std::move(line)}, connector_{std::move(connector)}, pending_{std::move(pending)} {}

  /// `label` is the actor's name in messages; if empty, its name in the options, or its type. Throws InvalidArgument if
  /// the names or resources make no sense, FunctionNotFound if the constructor is not in the table, and RuntimeStopped
  /// in a child of fork(). With get_if_exists it waits for the answer of the node, so it must not be called on the
  /// strand then; a refusal is the error of the actor's calls.
  std::shared_ptr<detail::ActorHandle> spawn(const ActorOptions& options, const char* type_name,
                                             const detail::RegisteredFunction& constructor,
                                             const detail::Arguments& arguments, const std::string& label = {});
  /// Waits for the answer of the node, without a limit. If `type_name` is empty, the actor may be of any type and any
  /// build. Not to be called on the strand. Fails with kNotFound,
  /// kInvalidArgument (another type, or a bad name), kFailedPrecondition (another build), kRuntimeStopped, or as
  /// NodeLine::request() does.
  Result<std::shared_ptr<detail::ActorHandle>> find(const std::string& name, const std::string& name_space,
                                                    const char* type_name);
  /// Returns a handle of an actor that this process has received with a call, or found by its name. `held` says whether
  /// the node has counted a hold for this handle already.
  std::shared_ptr<detail::ActorHandle> adopt(ActorId id, const std::string& label, bool held);
  std::vector<std::shared_ptr<detail::ActorHandle>> all();
  /// Gives up the call of an actor that brings this result. Returns true if it was not sent; else its worker is told.
  bool cancel(detail::ResultCell& cell);
  /// The head has lost the actor's node. This process may still reach the old incarnation, but another one will follow.
  void leave(const wire::IncarnationEnded& ended);
  void lose_all(const Error& why);

  PendingCalls& pending_calls() override { return *pending_; }
  NodeLine& line() override { return *line_; }
  std::shared_ptr<OutgoingCalls> open_calls(const std::shared_ptr<detail::ActorHandle>& actor) override {
    return connector_->open(actor);
  }
  void actor_disconnected(std::shared_ptr<detail::ActorHandle> actor) override;
  void let_go(detail::ActorHandle& actor) override;
  void lose_actor(detail::ActorHandle& actor, const Error& why) override;

  std::shared_ptr<detail::ActorHandle> receive(const CarriedActor& carried) override {
    return adopt(carried.id, carried.label, false);
  }
  void when_held(async::Callback then) override;
  /// Waits until the head has counted the holds that this process has taken, as long as that takes. Returns at once if
  /// it has. Not to be called on the strand.
  void wait_until_held() {
    if (!holds_.empty()) wait_for_holds();
  }

 private:
  Result<wire::ActorFound> ask_for_actor(wire::Message ask);
  std::string name_space_of(const std::string& given) const;
  void construct(const std::shared_ptr<detail::ActorHandle>& actor, const detail::CellHandle& construction,
                 wire::StartActor start, std::optional<Error> missing);
  void take_answer(const std::shared_ptr<detail::ActorHandle>& actor, Result<net::Parcel> answer);
  async::Async<Result<wire::ActorFound>> request_actor(wire::Message ask);
  async::Async<void> start_actor(std::shared_ptr<detail::ActorHandle> actor, wire::StartActor start);
  void wait_for_holds();
  async::Async<void> hold(ActorId actor, std::uint64_t number);
  async::Async<void> connect_actor(std::shared_ptr<detail::ActorHandle> actor, std::uint32_t seen);
  async::Async<void> connect_actor_later(std::shared_ptr<detail::ActorHandle> actor);

  const std::shared_ptr<NodeLine> line_;
  const std::shared_ptr<Connector> connector_;
  const std::shared_ptr<PendingCalls> pending_;
  UncountedHolds holds_;
  std::mutex mutex_;
  std::unordered_map<ActorId, std::shared_ptr<detail::ActorHandle>> actors_;
};

}  // namespace pharos::actors
