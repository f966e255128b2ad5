#pragma once

#include <array>

#include <pharos/base/failpoint.hpp>

/// The failpoints of this module. Each comment describes the state at the failpoint. "Can fail" names the failure that
/// FailpointOrder::Action::kFail simulates; kFail has no effect at the failpoints without it.
namespace pharos::object_store::failpoints {

// A process and its objects.
inline constexpr Failpoint kSlabLeased{
    "slab_leased"};  ///< the node has lent a slab to this process, which has not mapped it
inline constexpr Failpoint kSlotBegun{"slot_begun"};  ///< a new object has a slot, but may have no memory
inline constexpr Failpoint kSlotProvided{
    "slot_provided"};  ///< the new object has a slot and memory; can fail: no memory
inline constexpr Failpoint kObjectWritten{"object_written"};  ///< the object is written, but not sealed
inline constexpr Failpoint kObjectSealed{"object_sealed"};  ///< the object is sealed, but no other process knows of it
inline constexpr Failpoint kObjectKept{"object_kept"};      ///< the object is pinned, but in no list of this process
inline constexpr Failpoint kObjectTaken{
    "object_taken"};  ///< this process holds an object of another maker, but has it in no list
inline constexpr Failpoint kObjectLetGo{
    "object_let_go"};  ///< this process has given up its hold on the object, but the object has not ended
inline constexpr Failpoint kObjectEnded{"object_ended"};   ///< the object's slot is free, but in no list of free slots
inline constexpr Failpoint kSlabGivenUp{"slab_given_up"};  ///< the slab is unmapped, but the node is not told
inline constexpr Failpoint kObjectAskedFor{"object_asked_for"};  ///< the object is not in memory, is pinned for
                                                                 ///< reading, and the node is about to be asked for it

inline constexpr std::array kOfProcess{kSlabLeased,   kSlotBegun,   kSlotProvided,  kObjectWritten,
                                       kObjectSealed, kObjectKept,  kObjectTaken,   kObjectLetGo,
                                       kObjectEnded,  kSlabGivenUp, kObjectAskedFor};

// An object on its way between two nodes.
inline constexpr Failpoint kChunkSent{
    "chunk_sent"};  ///< a chunk of an object is about to be sent; can fail: damaged on its way
inline constexpr Failpoint kChunkReceived{
    "chunk_received"};  ///< a chunk has arrived, but cannot be relayed yet; can fail: the stream breaks

inline constexpr std::array kOfTransfer{kChunkSent, kChunkReceived};

}  // namespace pharos::object_store::failpoints
