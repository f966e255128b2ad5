#pragma once

#include <array>
#include <type_traits>
#include <variant>

#include <pharos/wire/frame.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::simulator {

/// How the runtime survives a fault of one control message: the message is lost, its reply is lost, one of the two ends
/// dies while the message is on its way, or the message arrives twice. A link loses nothing unless it ends, so a loss
/// is always the end of a connection.
struct Row {
  const char* lost;
  const char* reply_lost;
  const char* in_flight;
  const char* twice;
  const char* tested;   ///< the tests; "Rows" is rows_test.cpp, which injects each of these faults
  bool asked = false;   ///< the message is sent only when people ask, so Rows lets a program ask
  bool drains = false;  ///< the message is sent only when a node drains, so Rows drains one
};

inline constexpr const char* kTakenOnce = "the peer takes each number once";
inline constexpr Row kOfCaller{
    "to the node the caller is gone, and to the caller its node: calls fail with RuntimeStopped, the job's workers end",
    "the same", "the same, for the end that lives", kTakenOnce, "Rows"};
inline constexpr Row kOfWorker{
    "to the node the worker is gone, and it ends: calls fail or are retried, the actor restarts", "the same",
    "the same; a node that dies takes its workers along", kTakenOnce, "Rows"};
inline constexpr Row kWithDescriptor{"as for every message on that connection", "the same",
                                     "the same: the descriptor is closed, and so is what it led to",
                                     "cannot be: a descriptor travels once; a copy without it ends the connection",
                                     "Rows"};
inline constexpr Row kOfZygote{
    "the zygote is started again, and with it the worker that was asked for; those that it has forked live on",
    "the same", "the same; a node that dies takes its zygotes along", kTakenOnce,
    "Rows; real zygotes in tests/cluster/deaths_test.cpp"};
inline constexpr Row kOfHead{
    "in the head's own node it cannot be; another node whose connection ends is gone: its actors restart elsewhere",
    "the same", "the same, for the end that lives", kTakenOnce, "Rows"};
inline constexpr Row kOfStore{
    "to the node the process still uses the store until it closes the pipe that it was given, or dies: then its leases "
    "are taken back; the process gets no more memory, and its puts fail",
    "the same", "the same; a node that dies takes its workers along, and a driver's calls fail with RuntimeStopped",
    kTakenOnce,
    "Rows; real processes and memory in tests/object_store/kill_test.cpp, tests/actors/large_values_test.cpp"};
inline constexpr Row kOfStores{
    "who asked connects again, and what was claimed is kept until it does; whoever waits for an object is told that it "
    "is "
    "lost, with its node",
    "the same", "the same: a node that does not come back has claimed nothing, and of one that is gone nothing comes",
    kTakenOnce, "Rows; real nodes in tests/cluster/nodes_test.cpp"};
inline constexpr Row kInspection{
    "of a worker that does not answer in time the answer says so; a question whose node is gone ends with less in it",
    "the same", "the same", kTakenOnce, "Rows"};

inline constexpr Row kOfPeople{"who asks is told that the node is gone",
                               "the same",
                               "the same; nothing waits for it",
                               kTakenOnce,
                               "Rows; real nodes in tests/cluster/listing_test.cpp, tests/cluster/logs_test.cpp",
                               true};

inline constexpr Row kOfGoing{
    "between driver and node as for every message on that connection; another node whose connection to the head ends "
    "is "
    "gone, or says again what it was asked; the head knows from its records who is to go",
    "the same", "the same, for the end that lives", kTakenOnce, "Rows; real nodes in tests/cluster/nodes_test.cpp"};

inline constexpr Row kOfDrains{
    "as for every message on that connection: what was to move is tried again, or stays until the time limit of the "
    "drain; a node that is empty says so again",
    "the same",
    "the same: what a node has taken is lost with it, as what it has made itself",
    kTakenOnce,
    "Rows; real nodes in tests/cluster/nodes_test.cpp",
    false,
    true};
inline constexpr Row kOfTokens{
    "between user and node as for every message on that connection; a node whose connection to the head ends hears of "
    "all new tokens when it is back",
    "the same",
    "the same, for the end that lives",
    kTakenOnce,
    "Rows; tests/cluster/token_rotation_test.cpp",
    true};

inline constexpr Row kOfProcesses{"what the process would have said is missing, and the answer says so",
                                  "the same",
                                  "the same; whoever waits for it does so for 3 s",
                                  kTakenOnce,
                                  "Rows; real processes in tests/cluster/stack_test.cpp",
                                  true};

inline constexpr Row kOfHeadAgain{"the connection has ended: the node comes to the head once more, and says all of it",
                                  "the same", "the same; a head that dies starts again, a node that dies is lost",
                                  "what is there is there once", "Rows"};
inline constexpr Row kOfRecords{"it is never sent", "the same", "the same", "the same",
                                "Seeds: what is on disk is what the head knows; tests/cluster/head_deaths_test.cpp"};

/// Maps a message to its row. A message without a row does not compile.
template <class Message>
struct RowOf {
  static_assert(sizeof(Message) == 0, "this control message has no row: say how it is survived, in tests/simulator");
};

// clang-format off
template <> struct RowOf<wire::Failure> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::RegisterJob> { static constexpr Row kRow = kWithDescriptor; };
template <> struct RowOf<wire::JobRegistered> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::LeaseWorker> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ReturnLease> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::StartActor> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::KillActor> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::WorkerReady> { static constexpr Row kRow = kWithDescriptor; };
template <> struct RowOf<wire::WorkerEnded> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::Output> { static constexpr Row kRow{
    "the driver is gone: there is nobody to print it", "of Done: the driver is gone", "lines of a worker that dies are read to their end",
    kTakenOnce, "Rows, of crashes; tests/actors/output_test.cpp"}; };
template <> struct RowOf<wire::Stop> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::Done> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ZygoteReady> { static constexpr Row kRow = kOfZygote; };
template <> struct RowOf<wire::ForkWorker> { static constexpr Row kRow = kWithDescriptor; };
template <> struct RowOf<wire::WorkerForked> { static constexpr Row kRow = kWithDescriptor; };
template <> struct RowOf<wire::WorkerReaped> { static constexpr Row kRow = kOfZygote; };
template <> struct RowOf<wire::ServeCaller> { static constexpr Row kRow = kWithDescriptor; };
template <> struct RowOf<wire::EndWorker> { static constexpr Row kRow = kOfWorker; };
template <> struct RowOf<wire::WorkerBlocked> { static constexpr Row kRow = kOfWorker; };
template <> struct RowOf<wire::ConnectActor> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::FindActor> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ActorFound> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ListNodes> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::NodesListed> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ReadValue> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ValueRead> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::WriteValue> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ValueWritten> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ListKeys> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::KeysListed> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::HoldActor> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ActorHeld> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::ConstructActor> { static constexpr Row kRow = kOfWorker; };
template <> struct RowOf<wire::ActorConstructed> { static constexpr Row kRow = kOfWorker; };
template <> struct RowOf<wire::AddJob> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::EndJob> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::StopJob> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::JobStopped> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::PromiseActor> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::BreakPromise> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::EndCaller> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::StartIncarnation> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::EndIncarnation> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::IncarnationEnded> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::ActorAlive> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::Refused> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::WorkerCrashed> { static constexpr Row kRow = kOfZygote; };
template <> struct RowOf<wire::Inspect> { static constexpr Row kRow = kInspection; };
template <> struct RowOf<wire::Inspected> { static constexpr Row kRow = kInspection; };
template <> struct RowOf<wire::JoinCluster> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::ClusterJoined> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::LeaseGranted> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::OpenStore> { static constexpr Row kRow = kOfStore; };
template <> struct RowOf<wire::StoreOpened> { static constexpr Row kRow = kOfStore; };
template <> struct RowOf<wire::LeaseSlab> { static constexpr Row kRow = kOfStore; };
template <> struct RowOf<wire::SlabLeased> { static constexpr Row kRow = kOfStore; };
template <> struct RowOf<wire::ReturnSlab> { static constexpr Row kRow = kOfStore; };
template <> struct RowOf<wire::TrimStore> { static constexpr Row kRow = kOfStore; };
template <> struct RowOf<wire::BringObject> { static constexpr Row kRow = kOfStore; };
template <> struct RowOf<wire::ImportObject> { static constexpr Row kRow = kOfStore; };
template <> struct RowOf<wire::ObjectImported> { static constexpr Row kRow = kOfStore; };
template <> struct RowOf<wire::ClaimObject> { static constexpr Row kRow = kOfStores; };
template <> struct RowOf<wire::ObjectClaimed> { static constexpr Row kRow = kOfStores; };
template <> struct RowOf<wire::ReleaseObject> { static constexpr Row kRow = kOfStores; };
template <> struct RowOf<wire::TakeObject> { static constexpr Row kRow = kOfDrains; };
template <> struct RowOf<wire::ObjectMoved> { static constexpr Row kRow = kOfDrains; };
template <> struct RowOf<wire::NodeEmpty> { static constexpr Row kRow = kOfDrains; };
template <> struct RowOf<wire::RotateToken> { static constexpr Row kRow = kOfTokens; };
template <> struct RowOf<wire::FindNode> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::NodeFound> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::PlaceGroup> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::GroupReady> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::RemoveGroup> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::HoldBundle> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::BundleHeld> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::ReleaseBundle> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::NodeLoad> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::ListRows> { static constexpr Row kRow = kOfPeople; };
template <> struct RowOf<wire::Rows> { static constexpr Row kRow = kOfGoing; };
template <> struct RowOf<wire::Beat> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::Confirmed> { static constexpr Row kRow = kOfHead; };
template <> struct RowOf<wire::Report> { static constexpr Row kRow = kOfHeadAgain; };
template <> struct RowOf<wire::ActorLife> { static constexpr Row kRow = kOfRecords; };
template <> struct RowOf<wire::EndNode> { static constexpr Row kRow = kOfGoing; };
template <> struct RowOf<wire::DrainNode> { static constexpr Row kRow = kOfGoing; };
template <> struct RowOf<wire::ReadLog> { static constexpr Row kRow = kOfPeople; };
template <> struct RowOf<wire::LogPart> { static constexpr Row kRow = kOfPeople; };
template <> struct RowOf<wire::Explain> { static constexpr Row kRow = kOfProcesses; };
template <> struct RowOf<wire::Explained> { static constexpr Row kRow = kOfProcesses; };
template <> struct RowOf<wire::ReadStacks> { static constexpr Row kRow = kOfProcesses; };
template <> struct RowOf<wire::Stacks> { static constexpr Row kRow = kOfProcesses; };
template <> struct RowOf<wire::RecallLeases> { static constexpr Row kRow = kOfCaller; };
template <> struct RowOf<wire::StoredValue> { static constexpr Row kRow = kOfRecords; };
template <> struct RowOf<wire::WriteOutcome> { static constexpr Row kRow = kOfRecords; };
template <> struct RowOf<wire::GroupPlaces> { static constexpr Row kRow = kOfRecords; };
// clang-format on

template <class... Messages>
constexpr std::array<Row, sizeof...(Messages)> rows_of(std::type_identity<std::variant<Messages...>>) {
  return {RowOf<Messages>::kRow...};
}
/// The rows, in the order of the variant.
inline constexpr auto kRows = rows_of(std::type_identity<wire::MessageKinds>{});

/// The same for the frames between callers and callees; a kind of frame without a row does not compile. Between
/// processes of one machine, no frame is lost or arrives twice unless one of the two processes dies.
constexpr const char* frame_row(wire::FrameKind kind) {
  switch (kind) {
    case wire::FrameKind::kCall:
      return "a remote actor takes each number once; else it may be sent again, or fails as unknown";
    case wire::FrameKind::kReply: return "a remote actor keeps it until it is acknowledged, and answers with it again";
    case wire::FrameKind::kCancel: return "it is sent again behind the call; what has ended does not heed it";
    case wire::FrameKind::kAcknowledge: return "each call acknowledges too; until then replies are kept";
    case wire::FrameKind::kRetry: return "it is sent again before the call";
    case wire::FrameKind::kReceived: return "handles that were handed over are let go of with their caller";
    case wire::FrameKind::kGiveBack: return "what waits behind a task that takes long goes on waiting; tests/actors";
    case wire::FrameKind::kControl:
    case wire::FrameKind::kRequest:
    case wire::FrameKind::kResponse: return "by its message, above";
  }
  return nullptr;
}

}  // namespace pharos::simulator
