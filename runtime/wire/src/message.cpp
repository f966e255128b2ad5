#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <algorithm>
#include <cstring>

#include "message_codec.hpp"

namespace pharos::wire {
namespace {

template <class... Which>
bool is_any_of(const Message& message) {
  return (std::holds_alternative<Which>(message) || ...);
}

}  // namespace

std::string_view name_of(const Message& message) {
  static constexpr std::string_view kNames[] = {"Failure",
                                                "RegisterJob",
                                                "JobRegistered",
                                                "LeaseWorker",
                                                "ReturnLease",
                                                "StartActor",
                                                "KillActor",
                                                "WorkerReady",
                                                "WorkerEnded",
                                                "Output",
                                                "Stop",
                                                "Done",
                                                "ZygoteReady",
                                                "ForkWorker",
                                                "WorkerForked",
                                                "WorkerReaped",
                                                "ServeCaller",
                                                "EndWorker",
                                                "WorkerBlocked",
                                                "ConnectActor",
                                                "FindActor",
                                                "ActorFound",
                                                "HoldActor",
                                                "ConstructActor",
                                                "ActorConstructed",
                                                "AddJob",
                                                "EndJob",
                                                "EndCaller",
                                                "StartIncarnation",
                                                "EndIncarnation",
                                                "IncarnationEnded",
                                                "ActorAlive",
                                                "Refused",
                                                "WorkerCrashed",
                                                "Inspect",
                                                "Inspected",
                                                "JoinCluster",
                                                "ClusterJoined",
                                                "LeaseGranted",
                                                "OpenStore",
                                                "StoreOpened",
                                                "LeaseSlab",
                                                "SlabLeased",
                                                "ReturnSlab",
                                                "TrimStore",
                                                "BringObject",
                                                "StopJob",
                                                "JobStopped",
                                                "PromiseActor",
                                                "BreakPromise",
                                                "ImportObject",
                                                "ObjectImported",
                                                "ClaimObject",
                                                "ObjectClaimed",
                                                "ReleaseObject",
                                                "FindNode",
                                                "NodeFound",
                                                "PlaceGroup",
                                                "GroupReady",
                                                "RemoveGroup",
                                                "HoldBundle",
                                                "BundleHeld",
                                                "ReleaseBundle",
                                                "NodeLoad",
                                                "ListRows",
                                                "Rows",
                                                "Beat",
                                                "Confirmed",
                                                "Report",
                                                "ActorLife",
                                                "GroupPlaces",
                                                "EndNode",
                                                "DrainNode",
                                                "ReadLog",
                                                "LogPart",
                                                "Explain",
                                                "Explained",
                                                "ReadStacks",
                                                "Stacks",
                                                "RecallLeases"};
  static_assert(std::size(kNames) == std::variant_size_v<Message>);
  return kNames[message.index()];
}

std::size_t descriptors_of(const Message& message) {
  if (is_any_of<ForkWorker, StoreOpened>(message)) return 3;
  return is_any_of<RegisterJob, WorkerReady, WorkerForked, ServeCaller>(message) ? 1 : 0;
}

std::vector<std::byte> encode(const Message& message) {
  capnp::MallocMessageBuilder builder;
  write_message(builder.initRoot<schema::Message>(), message);
  const auto words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.begin());
  return {begin, begin + bytes.size()};
}

Result<Message> decode(std::span<const std::byte> bytes) {
  const auto corrupt = [](std::string why) {
    return Error{ErrorCode::kCorrupt, "received a control message that makes no sense: " + std::move(why)};
  };
  if (bytes.size() % sizeof(capnp::word) != 0) return corrupt("its length is no multiple of 8");
  // Cap'n Proto needs aligned words, but a payload in a receive buffer may have any alignment.
  std::vector<capnp::word> words(bytes.size() / sizeof(capnp::word));
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  try {
    // The number of words that a reader visits is limited, because a small malicious message could refer to the same
    // words again and again.
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = std::max<std::uint64_t>(words.size() * 4, 1024);
    limits.nestingLimit = 16;
    capnp::FlatArrayMessageReader reader{kj::arrayPtr(words.data(), words.size()), limits};
    if (auto message = read_message(reader.getRoot<schema::Message>())) return std::move(*message);
    return corrupt("a field has a value that no version of it allows");
  } catch (const kj::Exception& e) {
    return corrupt(e.getDescription().cStr());
  }
}

}  // namespace pharos::wire
