#pragma once

#include <pharos/base/failpoint.hpp>

/// The failpoints of this module. Each comment describes the state at the failpoint. "Can fail" names the failure that
/// FailpointOrder::Action::kFail simulates; kFail has no effect at the failpoints without it, and here none has it.
/// Those over TCP are reached on StreamBackend's thread, the others on the thread that uses the communicator.
namespace pharos::ml::failpoints {

// A rank and the other ranks.
inline constexpr Failpoint kRankHere{
    "rank_here"};  ///< the other ranks may look at this rank, but not all of them have come
inline constexpr Failpoint kMemoryOffered{
    "memory_offered"};  ///< this rank offers its memory to all ranks, but nobody has mapped it
inline constexpr Failpoint kMemoryMapped{
    "memory_mapped"};  ///< this rank has mapped the memory of all ranks, but they are not told
inline constexpr Failpoint kDataGiven{
    "data_given"};  ///< this rank's data is in shared memory, but the other ranks are not told
inline constexpr Failpoint kPartReduced{
    "part_reduced"};  ///< this rank has reduced its part, but the other ranks are not told
inline constexpr Failpoint kResultTaken{
    "result_taken"};  ///< this rank has its result, but the other ranks are not told
inline constexpr Failpoint kLetterWritten{
    "letter_written"};  ///< a piece of a message to another rank is in shared memory, but not posted
inline constexpr Failpoint kLetterRead{"letter_read"};  ///< a piece of a message is copied out, but not marked as taken
inline constexpr Failpoint kBeginTold{"begin_told"};    ///< one other rank is told over TCP that an operation has begun
inline constexpr Failpoint kPartSent{"part_sent"};      ///< a chunk is handed to a TCP stream
inline constexpr Failpoint kPartCame{"part_came"};      ///< a chunk has arrived over TCP, but is not processed
inline constexpr Failpoint kLaneBegins{
    "lane_begins"};  ///< the step within the machine is done, but the lanes (the steps between machines) are not begun
inline constexpr Failpoint kLaneEnded{
    "lane_ended"};  ///< the lanes have ended, but the machine's other ranks are not told

}  // namespace pharos::ml::failpoints
