#pragma once

#include <array>

#include <pharos/base/failpoint.hpp>

/// The failpoints of this module: constants, which any thread of a daemon passes. Each comment describes the state at
/// the failpoint. "Can fail" names the failure that FailpointOrder::Action::kFail simulates; kFail has no effect at the
/// failpoints without it. A daemon takes one order from PHAROS_FAILPOINT, and returns 1 at once if the order makes no
/// sense.
namespace pharos::node::failpoints {

// A node and its object store.
inline constexpr Failpoint kStoreOpened{"store_opened"};  ///< a process has a table in the ledger, but no answer
inline constexpr Failpoint kSlabLent{"slab_lent"};        ///< a slab is lent, but the process is not told
inline constexpr Failpoint kProcessGone{
    "process_gone"};  ///< the share of a dead process is cleared up, but the requests that wait are not served
inline constexpr Failpoint kObjectSpilled{
    "object_spilled"};  ///< the object is on disk and still in memory; can fail: the disk is full
inline constexpr Failpoint kObjectOut{
    "object_out"};  ///< the ledger says that the object is out of memory, but its memory is not released
inline constexpr Failpoint kMemoryGone{
    "memory_gone"};  ///< the object's memory is released, but the node's strand does not know
inline constexpr Failpoint kObjectReturns{
    "object_returns"};  ///< the object has memory again, but no bytes; can fail: the copy on disk is damaged
inline constexpr Failpoint kObjectReturned{"object_returned"};  ///< the object is back in memory, but nobody is told

inline constexpr std::array kOfStore{kStoreOpened, kSlabLent,   kProcessGone,   kObjectSpilled,
                                     kObjectOut,   kMemoryGone, kObjectReturns, kObjectReturned};

// A node and another node.
inline constexpr Failpoint kObjectClaimed{
    "object_claimed"};  ///< the object is pinned for the other node, which is not told
inline constexpr Failpoint kObjectImported{
    "object_imported"};  ///< the object of the other node has a place in this store, but nobody is told
inline constexpr Failpoint kObjectHere{
    "object_here"};  ///< an object of a node that drains is here for good, but that node does not know
inline constexpr Failpoint kProgramSent{
    "program_sent"};  ///< a part of an executable is about to be sent; can fail: damaged on its way

inline constexpr std::array kOfTransfer{kObjectClaimed, kObjectImported, kObjectHere, kProgramSent};

// The head and its stored records.
inline constexpr Failpoint kRecordsOpened{"records_opened"};  ///< the store is open, but not read
inline constexpr Failpoint kRecordsRead{"records_read"};  ///< the head's state is restored, but no node has come back
inline constexpr Failpoint kRecordsReady{
    "records_ready"};  ///< a change is about to be written; can fail: the disk is full
/// a change is durable, or its write has failed, but nobody is told
inline constexpr Failpoint kRecordsWritten{"records_written"};
inline constexpr Failpoint kRecordsSaid{"records_said"};  ///< one of the effects that waited for the write has run

inline constexpr std::array kOfRecords{kRecordsOpened, kRecordsRead, kRecordsReady, kRecordsWritten, kRecordsSaid};

}  // namespace pharos::node::failpoints
