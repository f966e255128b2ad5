#pragma once

#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/gpu_communicator.hpp>

namespace pharos::ml {

/// Makes a communicator of the same ranks whose data lies in the memory of GPUs: each rank has a GPU. GPUs of one
/// machine use each other's memory where they can; otherwise NCCL moves and reduces the data. All ranks call this
/// together. `device` is CUDA's number of this rank's GPU in this process: 0 where the actor has reserved one GPU. Of
/// `options` the timeout and the path count. Throws FailedPrecondition on all ranks if one of them has no such GPU;
/// `ranks` stays usable then. Throws FailedPrecondition if the GPUs cannot have the path that is asked for, Unavailable
/// or DeadlineExceeded if NCCL cannot start, and what fails between `ranks`; these are failures of all ranks.
///
///   Communicator& ranks = pharos::ml::communicator();
///   GpuCommunicator gpus = on_gpu(ranks, 0);
///   gpus.all_reduce(GpuSpan{gradients, count}, Reduction::kMean);  // cudaMalloc'd, or a tensor's
///
/// The ranks use `ranks` to agree on each operation, and to learn which rank is missing or has died; a failure there
/// ends what runs on the GPUs, too, and a failure on the GPUs makes `ranks` fail. The new communicator, which the
/// caller owns, keeps `ranks` open. Both may be used side by side, by one thread at a time, if all ranks begin the
/// operations of both in the same order.
///
/// An operation runs on the GPU after all work that was given to a stream before the operation was begun: libtorch's
/// current stream of the calling thread, or CUDA's default stream in programs without libtorch. All work that is given
/// to the GPU after wait() runs after the operation. Buffers are in the memory of the GPU. Messages go through the
/// memory of the host. Two ranks of one machine may use the same GPU. Sums are the same bits on all ranks. NCCL
/// determines their order and the rounding of half-precision numbers; otherwise both are as on the host.
PHAROS_API GpuCommunicator on_gpu(Communicator& ranks, int device, const CommunicatorOptions& options = {});

}  // namespace pharos::ml
