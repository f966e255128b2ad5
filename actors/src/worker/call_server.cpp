#include "worker/call_server.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "worker/construction.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
constexpr auto kBusyTime = 100ms;      // for a call that still runs when the grace is over
constexpr auto kGiveBackTime = 200ms;  // to return calls that are under way to an actor that moves
constexpr auto kReturnTime = 90s;    // for a remote caller to connect again; a node that is cut off is given up before
constexpr auto kHandOverTime = 10s;  // to take over what came with a reply, if the connection ends right after it

}  // namespace

void CallServer::on_node_message(const std::shared_ptr<net::Peer>& node, net::Parcel parcel) {
  if (const auto* const caller = std::get_if<wire::ServeCaller>(&parcel.message)) {
    serve(*caller, std::move(parcel.descriptors.front()));
  } else if (const auto* const registered = std::get_if<wire::JobRegistered>(&parcel.message)) {
    workplace_.join(node, *registered);
  } else if (auto* const actor = std::get_if<wire::ConstructActor>(&parcel.message)) {
    workplace_.executor().post([this, node, actor = std::move(*actor)] {
      wire::ActorConstructed made{actor.actor, actor.incarnation, construct_actor(workplace_, actor)};
      // The maker then lets go of the handles in the arguments.
      workplace_.caller()->actors().wait_until_held();
      node->send(std::move(made));
    });
  } else {
    workplace_.caller()->on_node_message(parcel.message);
  }
}

bool CallServer::stop(Duration grace) {
  async::Executor& executor = workplace_.platform().executor();
  if (!workplace_.stopping()) workplace_.begin_stop();
  if (grace != Duration{}) workplace_.strand().wait_until_idle(executor, async::Deadline::after(grace, executor));
  // During this time calls that arrive are returned to their callers, which then send nothing more.
  if (workplace_.moves()) std::this_thread::sleep_for(kGiveBackTime);
  return workplace_.strand().stop(executor, async::Deadline::after(kBusyTime, executor), [this] { destroy_actor(); });
}

// On the thread that ends the worker, where no call has run.
void CallServer::destroy_actor() {
  Instance& instance = workplace_.instance();
  if (ComputeThreads* const threads = workplace_.compute_threads()) threads->begin_of_actor(instance.compute_threads);
  instance.destroy();
}

void CallServer::serve(wire::ServeCaller caller, Fd socket) {
  std::shared_ptr<IncomingCalls> incoming;
  {
    const std::lock_guard lock{mutex_};
    std::shared_ptr<RemoteCaller> remote;
    if (caller.remote && caller.actor) {
      auto& there = remote_callers_[caller.caller];
      if (there == nullptr) {
        const auto forgotten = forgotten_callers_.extract(caller.caller);
        there = std::make_shared<RemoteCaller>(caller.caller, forgotten.empty() ? 0 : forgotten.mapped());
      }
      remote = there;
    }
    incoming = std::make_shared<IncomingCalls>(workplace_, *this, caller, std::move(remote));
    connections_.push_back(incoming);
  }
  incoming->start(workplace_.platform().make_call_link(std::move(socket)));
}

void CallServer::forget(const IncomingCalls& incoming) {
  std::shared_ptr<IncomingCalls> forgotten;  // destroyed after the lock is released
  const std::lock_guard lock{mutex_};
  const auto found =
      std::find_if(connections_.begin(), connections_.end(), [&](const auto& each) { return each.get() == &incoming; });
  if (found == connections_.end()) return;
  forgotten = std::move(*found);
  connections_.erase(found);
  const auto& remote = incoming.remote();
  if (remote == nullptr) {
    forgotten->notes().cancel_suspended();
    if (!forgotten->keeps_for_caller()) return;
    return static_cast<void>(
        workplace_.platform().executor().run_at(workplace_.platform().now() + kHandOverTime, [forgotten] {}));
  }
  remote->last_here = workplace_.platform().now();
  workplace_.platform().executor().run_at(remote->last_here + kReturnTime, [this, remote] {
    workplace_.executor().post([this, remote] { forget_if_away(remote); });
  });
}

// On the strand, where the calls that this caller sent before have had their turn.
void CallServer::forget_if_away(const std::shared_ptr<RemoteCaller>& caller) {
  {
    const std::lock_guard lock{mutex_};
    const bool here = std::any_of(connections_.begin(), connections_.end(),
                                  [&](const auto& each) { return each->remote() == caller; });
    if (here || workplace_.platform().now() < caller->last_here + kReturnTime) return;
    if (remote_callers_.erase(caller->id) == 0) return;
    forgotten_callers_.emplace(caller->id, caller->replies.next());
  }
  caller->notes.cancel_suspended();
  caller->handed_over.let_go_of_all();
}

void CallServer::end_suspended() {
  {
    const std::lock_guard lock{mutex_};
    for (const auto& incoming : connections_) incoming->notes().cancel_suspended();
    for (const auto& [id, caller] : remote_callers_) caller->notes.cancel_suspended();
  }
  workplace_.strand().run_posted();
  workplace_.instance().destroy();  // the constructor may have run just now, in run_posted()
}

}  // namespace pharos::actors
