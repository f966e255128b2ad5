#pragma once

#include <concepts>
#include <type_traits>
#include <variant>

#include <pharos/wire/message.hpp>

namespace pharos::node {

/// A list of types of messages.
template <class... Ms>
struct Messages {
  template <class M>
  static constexpr bool kHas = (std::same_as<M, Ms> || ...);
};

// Who sends which control messages to a node, for Node. If a caller, or a process that has no job, sends a request that
// is in none of its lists, the node refuses the request: with kUnsupported, or with kFailedPrecondition if there is no
// job. The node ignores other messages that are in no list of their sender.
// A new message has to be added to a list here; then the node does not compile until it handles the message.

using FromHead =
    Messages<wire::ActorAlive, wire::ActorFound, wire::ActorHeld, wire::AddJob, wire::ClusterJoined, wire::Confirmed,
             wire::DrainNode, wire::EndCaller, wire::EndIncarnation, wire::EndJob, wire::GroupReady, wire::HoldBundle,
             wire::IncarnationEnded, wire::Inspected, wire::JobStopped, wire::LeaseGranted, wire::LeaseWorker,
             wire::NodeFound, wire::NodesListed, wire::Output, wire::RecallLeases, wire::Refused, wire::ReleaseBundle,
             wire::RotateToken, wire::ReturnLease, wire::Rows, wire::StartIncarnation, wire::StopJob, wire::WorkerEnded,
             wire::ValueRead, wire::ValueWritten, wire::KeysListed>;
/// A caller is a driver or a worker.
using FromCaller = Messages<wire::Inspect, wire::LeaseWorker, wire::ReturnLease>;
/// Each of these has an asker, and is passed on to the head.
using FromCallerToHead =
    Messages<wire::BreakPromise, wire::ConnectActor, wire::FindActor, wire::HoldActor, wire::KillActor, wire::ListKeys,
             wire::ListNodes, wire::PlaceGroup, wire::PromiseActor, wire::ReadValue, wire::RemoveGroup,
             wire::StartActor, wire::WriteValue>;
/// StoreService takes these before anything else.
using FromCallerToStore =
    Messages<wire::BringObject, wire::ImportObject, wire::LeaseSlab, wire::OpenStore, wire::ReturnSlab>;
using FromDriver = Messages<wire::Done, wire::Stop>;
using FromWorker = Messages<wire::ActorConstructed, wire::WorkerBlocked, wire::WorkerForked>;
using FromZygote = Messages<wire::WorkerCrashed, wire::WorkerForked, wire::WorkerReaped, wire::ZygoteReady>;
/// A process that has no job: a driver that registers one, a user, or another node that passes on what a user asks.
using FromOthers =
    Messages<wire::DrainNode, wire::EndNode, wire::ListRows, wire::ReadLog, wire::RegisterJob, wire::RotateToken>;
/// Node never sees these: Membership, the object store's connections between nodes, and net::Peer, for answers to
/// requests, take what comes of them.
using NotForNode =
    Messages<wire::ActorLife, wire::Beat, wire::BundleHeld, wire::ClaimObject, wire::ConstructActor, wire::EndWorker,
             wire::Explain, wire::Explained, wire::Failure, wire::FindNode, wire::ForkWorker, wire::GroupPlaces,
             wire::JobRegistered, wire::JoinCluster, wire::LogPart, wire::NodeEmpty, wire::NodeLoad,
             wire::ObjectClaimed, wire::ObjectImported, wire::ObjectMoved, wire::ReadStacks, wire::ReleaseObject,
             wire::Report, wire::ServeCaller, wire::SlabLeased, wire::Stacks, wire::StoreOpened, wire::StoredValue,
             wire::TakeObject, wire::TrimStore, wire::WorkerReady, wire::WriteOutcome>;

namespace detail {
template <class Variant, class... Lists>
inline constexpr bool kEachIsListed = false;
template <class... Ms, class... Lists>
inline constexpr bool kEachIsListed<std::variant<Ms...>, Lists...> = ([]<class M> {
  return (Lists::template kHas<M> || ...);
}.template operator()<Ms>() && ...);
}  // namespace detail
static_assert(detail::kEachIsListed<wire::MessageKinds, FromHead, FromCaller, FromCallerToHead, FromCallerToStore,
                                    FromDriver, FromWorker, FromZygote, FromOthers, NotForNode>,
              "say who sends the new message to a node, or that nobody does");

/// Passes the message to `handle`, inside this call, if the list has it, and returns whether it has. `handle` must take
/// each message of the list.
template <class List, class Handle>
bool dispatch(wire::Message& message, const Handle& handle) {
  return std::visit(
      [&handle]<class M>(M& each) {
        if constexpr (List::template kHas<M>) handle(each);
        return List::template kHas<M>;
      },
      message);
}

}  // namespace pharos::node
