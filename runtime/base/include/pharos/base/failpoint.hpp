#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>

/// A failpoint is a place in the code where a test can kill or stop the process, or make the step fail. This header
/// lists all of them. A failpoint that no order names costs a load and a branch.
///
/// Each process that acts at a failpoint adds its name to the file that the variable PHAROS_FAILPOINTS_REACHED names.
/// `./test` fails if no test has let a process act at one of them. The tests are store_deaths_test.cpp,
/// far_objects_test.cpp, head_deaths_test.cpp and run_command_test.cpp in tests/cluster,
/// tests/collective/failpoints_test.cpp for ranks, tests/checkpoint/interrupted_test.cpp and tests/trainer for
/// trainings, and tests/process/keeper_test.cpp.
namespace pharos {

/// Each comment describes the state at the failpoint. "Can fail" names the failure that kFail simulates; kFail has no
/// effect at the failpoints without it.
enum class Failpoint : std::uint8_t {
  // A process and its objects in the object store.
  kSlabLeased,      ///< the node has lent a slab to this process, which has not mapped it
  kSlotBegun,       ///< a new object has a slot, but may have no memory
  kSlotProvided,    ///< the new object has a slot and memory; can fail: no memory
  kObjectWritten,   ///< the object is written, but not sealed
  kObjectSealed,    ///< the object is sealed, but no other process knows of it
  kResultSent,      ///< the caller is told of a result in the store, but the worker has not noted the hand-over
  kObjectKept,      ///< the object is pinned, but in no list of this process
  kObjectTaken,     ///< this process holds an object of another maker, but has it in no list
  kObjectLetGo,     ///< this process has given up its hold on the object, but the object has not ended
  kObjectEnded,     ///< the object's slot is free, but in no list of free slots
  kSlabGivenUp,     ///< the slab is unmapped, but the node is not told
  kObjectAskedFor,  ///< the object is not in memory, is pinned for reading, and the node is about to be asked for it
  // A node and its store.
  kStoreOpened,     ///< a process has a table in the ledger, but no answer
  kSlabLent,        ///< a slab is lent, but the process is not told
  kProcessGone,     ///< the share of a dead process is cleared up, but the requests that wait are not served
  kObjectSpilled,   ///< the object is on disk and still in memory; can fail: the disk is full
  kObjectOut,       ///< the ledger says that the object is out of memory, but its memory is not released
  kMemoryGone,      ///< the object's memory is released, but the node's strand does not know
  kObjectReturns,   ///< the object has memory again, but no bytes; can fail: the copy on disk is damaged
  kObjectReturned,  ///< the object is back in memory, but nobody is told
  // A node and another node.
  kObjectClaimed,   ///< the object is pinned for the other node, which is not told
  kObjectImported,  ///< the object of the other node has a place in this store, but nobody is told
  kChunkSent,       ///< a chunk of an object is about to be sent; can fail: damaged on its way
  kChunkReceived,   ///< a chunk has arrived, but cannot be relayed yet; can fail: the stream breaks
  kProgramSent,     ///< a part of an executable is about to be sent; can fail: damaged on its way
  // The head and its stored records.
  kRecordsOpened,   ///< the store is open, but not read
  kRecordsRead,     ///< the head's state is restored, but no node has come back
  kRecordsReady,    ///< a change is about to be written; can fail: the disk is full
  kRecordsWritten,  ///< a change is durable, but nobody is told
  kRecordsSaid,     ///< one of the effects that waited for the write has run
  // A rank and the other ranks.
  kRankHere,       ///< the other ranks may look at this rank, but not all of them have come
  kMemoryOffered,  ///< this rank offers its memory to all ranks, but nobody has mapped it
  kMemoryMapped,   ///< this rank has mapped the memory of all ranks, but they are not told
  kDataGiven,      ///< this rank's data is in shared memory, but the other ranks are not told
  kPartReduced,    ///< this rank has reduced its part, but the other ranks are not told
  kResultTaken,    ///< this rank has its result, but the other ranks are not told
  kLetterWritten,  ///< a piece of a message to another rank is in shared memory, but not posted
  kLetterRead,     ///< a piece of a message is copied out, but not marked as taken
  kBeginTold,      ///< one other rank is told over TCP that an operation has begun
  kPartSent,       ///< a chunk is handed to a TCP stream
  kPartCame,       ///< a chunk has arrived over TCP, but is not processed
  kLaneBegins,     ///< the step within the machine is done, but the lanes (the steps between machines) are not begun
  kLaneEnded,      ///< the lanes have ended, but the machine's other ranks are not told
  // A keeper and its daemon.
  kDaemonForked,  ///< the daemon runs, but the keeper has not noted its process id
  // A training and its checkpoints.
  kStateCopied,      ///< the state is copied, but not given to the thread that writes
  kSaveBegun,        ///< the file of this rank's part has its head; can fail: the disk is full
  kSaveWritten,      ///< the file of this rank's part is complete, but not synced
  kSaveSaid,         ///< the description of this rank's part is written; can fail: the disk has an error
  kSavesThere,       ///< the parts of all ranks are written, but no manifest
  kManifestWritten,  ///< the checkpoint is complete, but checkpoints of later steps are not set aside
  kOldGoes,          ///< a checkpoint that nobody wants is about to be removed
  kStepCommitted,    ///< the step is counted, but neither reported nor saved
  kStepTold,         ///< the step is reported, and its save has begun if one was due
  kStateGiven,       ///< a part of the state is sent to ranks that lack it, but the rest is not
  kStateTaken,       ///< the state of another rank is loaded, but the step does not count yet
  kEnd,              ///< the number of failpoints
};

/// The name in orders: "slot_begun".
PHAROS_API std::string_view name_of(Failpoint at);

/// An order to do something at a failpoint. kStop sends SIGSTOP once; kFailOnce makes only one pass fail.
struct FailpointOrder {
  enum class Action : std::uint8_t { kKill, kStop, kFail, kFailOnce };

  Failpoint at = Failpoint::kEnd;
  Action action = Action::kKill;
  std::uint32_t passes = 0;  ///< how often the process passes the failpoint before the action
};
/// Parses NAME:ACTION or NAME:ACTION:PASSES, such as "slot_begun:kill:3"; the action is kill, stop, fail or fail_once.
/// Returns kInvalidArgument for any other text.
PHAROS_API Result<FailpointOrder> parse_failpoint(std::string_view text);
/// Gives this process an order, which replaces the order before. An order with Failpoint::kEnd cancels.
PHAROS_API void order_failpoint(const FailpointOrder& order);

namespace detail {
PHAROS_API extern std::atomic<Failpoint> ordered_failpoint;
PHAROS_API bool reach(Failpoint at);
}  // namespace detail

/// Marks a place in the code as this failpoint. Returns true if the step must fail. Any thread.
inline bool failpoint(Failpoint at) {
  return detail::ordered_failpoint.load(std::memory_order_relaxed) == at && detail::reach(at);
}

}  // namespace pharos
