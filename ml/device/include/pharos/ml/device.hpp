#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string_view>

#include <pharos/base/error.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// The GPU with this index, as libtorch counts them: from 0, among those that CUDA_VISIBLE_DEVICES names.
///
/// The first call loads libtorch's CUDA library from the folder that libtorch itself lies in. A process that never
/// calls this loads no library of CUDA. Call it before other functions that ask libtorch for CUDA, such as
/// torch::manual_seed() or torch::cuda::is_available(), and before the first backward: libtorch remembers which devices
/// there were. Throws FailedPrecondition where the library or the GPU is missing. Any thread.
///
/// If the program has registered a kind of device of its own with libtorch (PrivateUse1), this is its device with that
/// index, and CUDA is not loaded.
PHAROS_API at::Device gpu(int index = 0);

/// The first GPU that this actor or task has reserved, or the CPU if it has reserved none. Throws what gpu() throws.
PHAROS_API at::Device own_device();

/// The bytes of memory that this GPU has, in use or not. Throws libtorch's exception if the device is not a GPU. Any
/// thread.
PHAROS_API std::uint64_t memory_of(at::Device gpu);

/// The error kExhausted for a tensor that this GPU had no room for. It says how many bytes this process and others have
/// in use there. `said` is what libtorch has said of it. Any thread.
PHAROS_API Error no_room_on(at::Device gpu, std::string_view said);

/// Returns a communicator of the same ranks for tensors on `device`: a copy of `ranks` if that is the CPU, or the
/// result of on_gpu(), with the options of `ranks`. As long as all ranks use copies of that, later calls for the same
/// ranks and device return further copies. Like all communicators it is used by one thread at a time. For GPUs this
/// loads libpharos_nccl.so, which lies beside libpharos_ml.so. All ranks call this together. Throws FailedPrecondition
/// if the library is missing, and what on_gpu() throws.
PHAROS_API Communicator communicator_on(at::Device device, Communicator& ranks);

}  // namespace pharos::ml
