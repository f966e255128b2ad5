#pragma once

#include <pharos/base/failpoint.hpp>

/// The failpoints of this module. Each comment describes the state at the failpoint. All of them are reached on the
/// thread that uses the communicator. kFail has no effect here.
namespace pharos::ml::failpoints {

inline constexpr Failpoint kGpuGroupBegun{
    "gpu_group_begun"};  ///< this rank knows what it takes to reach the others' GPUs, but does not connect yet
inline constexpr Failpoint kGpuMemoryShared{
    "gpu_memory_shared"};  ///< all ranks may use memory of this rank's GPU, but do not know where it is
inline constexpr Failpoint kGpuOperationBegun{
    "gpu_operation_begun"};  ///< the other ranks are told of an operation, but the GPU does not have it
inline constexpr Failpoint kGpuOperationGiven{
    "gpu_operation_given"};  ///< the GPU has the operation, but this rank does not wait for it yet
inline constexpr Failpoint kGpuMessageCopied{
    "gpu_message_copied"};  ///< a message is in the host's memory, but is not sent
inline constexpr Failpoint kGpuMessageCame{
    "gpu_message_came"};  ///< a message has come from another rank, but is not on the GPU

}  // namespace pharos::ml::failpoints
