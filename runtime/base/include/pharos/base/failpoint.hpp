#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>

/// Places in the code where a test can have the process killed or stopped, or the step fail: all of them are listed
/// here, and tests/cluster/store_deaths_test.cpp, far_objects_test.cpp, head_deaths_test.cpp, run_command_test.cpp,
/// tests/collective/failpoints_test.cpp for ranks, tests/checkpoint/interrupted_test.cpp and
/// tests/trainer for trainings, or tests/process/keeper_test.cpp kills or stops at each. Without an order one costs a
/// load and a branch.
namespace pharos {

enum class Failpoint : std::uint8_t {
  // A process and its objects.
  kSlabLeased,      ///< the node has lent it, nothing is mapped
  kSlotBegun,       ///< an object has a slot, and nothing else
  kSlotProvided,    ///< and memory; can fail: there is none
  kObjectWritten,   ///< it is not sealed
  kObjectSealed,    ///< nobody knows of it
  kResultSent,      ///< its heir knows of it, who is not told that it is handed over
  kObjectKept,      ///< pinned, and not in any list
  kObjectTaken,     ///< its holder is another now
  kObjectLetGo,     ///< it has not ended
  kObjectEnded,     ///< its slot is free, and in no list
  kSlabGivenUp,     ///< unmapped, and the node does not know
  kObjectAskedFor,  ///< it is out, pinned to be read, and the node will hear of it
  // A node and its store.
  kStoreOpened,     ///< a process has a table, and no answer
  kSlabLent,        ///< the process has not been told
  kProcessGone,     ///< what it had is cleared up, what others waited for is not
  kObjectSpilled,   ///< written to disk, in memory still; can fail: the disk is full
  kObjectOut,       ///< out, with its memory
  kMemoryGone,      ///< out, and the node does not know
  kObjectReturns,   ///< it has memory again; can fail: it is damaged
  kObjectReturned,  ///< read back, and nobody is told
  // A node and another one.
  kObjectClaimed,   ///< pinned for the other, which is not told
  kObjectImported,  ///< has a place here, and nobody is told
  kChunkSent,       ///< can fail: it is damaged on its way
  kChunkReceived,   ///< not seen by those that relay it; can fail: the stream has broken
  kProgramSent,     ///< a part of one; can fail: it is damaged on its way
  // The head and what it writes down.
  kRecordsOpened,   ///< and not read
  kRecordsRead,     ///< what they say is so again, and no node has come back
  kRecordsReady,    ///< changed, and not written; can fail: the disk is full
  kRecordsWritten,  ///< durable, and nobody is told
  kRecordsSaid,     ///< one of those that wait for it is told
  // A rank and the others.
  kRankHere,       ///< the others may look at it, and have not all come
  kMemoryOffered,  ///< its own for all ranks, which nobody has mapped
  kMemoryMapped,   ///< that of all, and nobody knows
  kDataGiven,      ///< it is there, and nobody knows
  kPartReduced,    ///< its own, and nobody knows
  kResultTaken,    ///< and nobody knows
  kLetterWritten,  ///< and not posted
  kLetterRead,     ///< and not taken
  kBeginTold,      ///< of an operation, over TCP
  kPartSent,       ///< a chunk is on its way
  kPartCame,       ///< a chunk has, and nothing was done with it
  kLaneBegins,     ///< a machine's ranks are done, and lanes are not begun
  kLaneEnded,      ///< and a machine's other ranks do not know
  // A keeper and its daemon.
  kDaemonForked,  ///< and its keeper does not know
  // A training and its checkpoints.
  kStateCopied,      ///< and not given to the thread that writes
  kSaveBegun,        ///< a rank's part has its head; can fail: the disk is full
  kSaveWritten,      ///< and all, which is not synced
  kSaveSaid,         ///< others can see it; can fail: the disk has an error
  kSavesThere,       ///< of all ranks, without a manifest
  kManifestWritten,  ///< and what is newest is not said
  kOldGoes,          ///< a checkpoint that is not wanted any more is about to be removed
  kStepCommitted,    ///< and nothing has followed it
  kStepTold,         ///< and saved, if it was to be
  kStateGiven,       ///< a part of it to who has come in a place, and the rest is not
  kStateTaken,       ///< from others, and it does not count yet
  kEnd,              ///< of this list
};

/// "slot_begun".
PHAROS_API std::string_view name_of(Failpoint at);

struct FailpointOrder {
  enum class Action : std::uint8_t { kKill, kStop, kFail, kFailOnce };

  Failpoint at = Failpoint::kEnd;
  Action action = Action::kKill;
  std::uint32_t passes = 0;  ///< so often the process passes there before
};
/// "slot_begun:kill:3"; kill, stop, fail or fail_once, and how often it is passed before.
PHAROS_API Result<FailpointOrder> parse_failpoint(std::string_view text);
/// From now on, in this process; one order at a time.
PHAROS_API void order_failpoint(const FailpointOrder& order);

namespace detail {
PHAROS_API extern std::atomic<Failpoint> ordered_failpoint;
PHAROS_API bool reach(Failpoint at);
}  // namespace detail

/// True: the step is to fail.
inline bool failpoint(Failpoint at) {
  return detail::ordered_failpoint.load(std::memory_order_relaxed) == at && detail::reach(at);
}

}  // namespace pharos
