#pragma once

#include <pharos/base/failpoint.hpp>

/// The failpoints of this module. Each comment describes the state at the failpoint. "Can fail" names the failure that
/// FailpointOrder::Action::kFail simulates; kFail has no effect at the failpoints without it. The thread that calls
/// Checkpoints::save() passes kStateCopied, and the thread that writes passes the others. Only rank 0 passes the last
/// three, and Checkpoints::load() may pass kOldRemoved, too.
namespace pharos::ml::failpoints {

// The save of a checkpoint.
inline constexpr Failpoint kStateCopied{
    "state_copied"};  ///< the state is copied, but not given to the thread that writes
inline constexpr Failpoint kSaveBegun{
    "save_begun"};  ///< the file of this rank's part has its head; can fail: the disk is full
inline constexpr Failpoint kSaveWritten{"save_written"};  ///< the file of this rank's part is complete, but not synced
inline constexpr Failpoint kSaveSaid{
    "save_said"};  ///< the description of this rank's part is written; can fail: the disk has an error
inline constexpr Failpoint kSavesThere{"saves_there"};  ///< the parts of all ranks are written, but no manifest
inline constexpr Failpoint kManifestWritten{
    "manifest_written"};  ///< the checkpoint is complete, but checkpoints of later steps are not set aside
inline constexpr Failpoint kOldRemoved{"old_removed"};  ///< a checkpoint that nobody wants is about to be removed

}  // namespace pharos::ml::failpoints
