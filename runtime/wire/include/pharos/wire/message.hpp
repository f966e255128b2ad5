#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/messages/actors.hpp>
#include <pharos/wire/messages/groups.hpp>
#include <pharos/wire/messages/inspection.hpp>
#include <pharos/wire/messages/jobs.hpp>
#include <pharos/wire/messages/leases.hpp>
#include <pharos/wire/messages/nodes.hpp>
#include <pharos/wire/messages/objects.hpp>
#include <pharos/wire/messages/parts.hpp>
#include <pharos/wire/messages/records.hpp>
#include <pharos/wire/messages/values.hpp>
#include <pharos/wire/messages/workers.hpp>

namespace pharos::wire {

/// Control messages: everything between processes that is not a call. A message is described by its struct alone:
/// Codec<T> writes and reads its fields, and its name is that of the struct (docs/decisions/0031). The comment of each
/// says which process sends it to which, and how it is answered. File descriptors that travel with a message are sent
/// beside it, in the order in which its comment names them; kDescriptors says how many. An id of 0 means "none" unless
/// the comment says something else.
/// Messages are plain values: whoever makes or receives one owns it. A request that cannot be met is answered by
/// Failure, or by Refused between head and nodes, except JoinCluster. A receiver ignores a message that its sender may
/// not send; a node refuses a request of that kind (node/src/node/senders.hpp). What happens to requests when the other
/// process dies is said in net/peer.hpp.

using MessageKinds =
    std::variant<Failure, RegisterJob, JobRegistered, LeaseWorker, ReturnLease, StartActor, KillActor, WorkerReady,
                 WorkerEnded, Output, Stop, Done, ZygoteReady, ForkWorker, WorkerForked, WorkerReaped, ServeCaller,
                 EndWorker, WorkerBlocked, ConnectActor, FindActor, ActorFound, HoldActor, ConstructActor,
                 ActorConstructed, AddJob, EndJob, EndCaller, StartIncarnation, EndIncarnation, IncarnationEnded,
                 ActorAlive, Refused, WorkerCrashed, Inspect, Inspected, JoinCluster, ClusterJoined, LeaseGranted,
                 OpenStore, StoreOpened, LeaseSlab, SlabLeased, ReturnSlab, TrimStore, BringObject, StopJob, JobStopped,
                 PromiseActor, BreakPromise, ImportObject, ObjectImported, ClaimObject, ObjectClaimed, ReleaseObject,
                 FindNode, NodeFound, PlaceGroup, GroupReady, RemoveGroup, HoldBundle, BundleHeld, ReleaseBundle,
                 NodeLoad, ListRows, Rows, Beat, Confirmed, Report, ActorLife, GroupPlaces, EndNode, DrainNode, ReadLog,
                 LogPart, Explain, Explained, ReadStacks, Stacks, RecallLeases, ActorHeld, ListNodes, NodesListed,
                 ReadValue, ValueRead, WriteValue, ValueWritten, ListKeys, KeysListed, StoredValue, WriteOutcome,
                 TakeObject, ObjectMoved, NodeEmpty, RotateToken>;

template <class T, class Variant>
inline constexpr bool kIsKindOf = false;
template <class T, class... Kinds>
inline constexpr bool kIsKindOf<T, std::variant<Kinds...>> = (std::same_as<T, Kinds> || ...);
template <class T>
concept MessageKind = kIsKindOf<T, MessageKinds>;

/// One message of any kind. It is used like the variant that it is: by std::get_if, std::visit and so on. But what
/// makes, copies, moves and destroys it is compiled once, in message.cpp. For a variant of so many kinds that takes the
/// compiler seconds, and each file that only passes messages on would pay for it.
class Message : public MessageKinds {
 public:
  template <MessageKind Kind>
  Message(Kind kind);
  explicit Message(MessageKinds kinds);
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();
};

/// The name of the message's type, for logs and errors. A static text. Any thread, as the functions below.
std::string_view name_of(const Message& message);

/// The number of file descriptors that travel with the message.
std::size_t descriptors_of(const Message& message);

/// Encodes a message. Never fails, except that EncodedTooLarge is thrown above kEncodedBytesMax; net::Peer checks the
/// size of a message that is sent.
std::vector<std::byte> encode(const Message& message);

/// Decodes a message. Returns kCorrupt if the bytes are no message, and kUnsupported if another version of Pharos wrote
/// them.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace pharos::wire
