#pragma once

#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// The same ranks, each with a GPU: a communicator whose data lies in memory of GPUs, by NCCL. All ranks
/// call this together. `device` is CUDA's number of this rank's in this process: 0 where an actor has reserved one.
///
///   Communicator& ranks = pharos::ml::communicator();
///   Communicator gpus = on_gpu(ranks, 0);
///   gpus.all_reduce(std::span{gradients, count}, Reduction::kMean);  // cudaMalloc'd, or a tensor's
///
/// Over `ranks` they agree on each operation and hear who is missing or has died, which ends what runs on the GPUs,
/// too. Both communicators may be used side by side: all ranks begin the operations of both in one order. Operations
/// come behind what CUDA's default stream has been given before they are begun, and what it is given after wait() comes
/// behind them. Two ranks of one machine may have the same GPU; their data goes over sockets then. Buffers are memory
/// of the GPU. Messages go through the memory of the host. Sums are the same bits on all ranks, in NCCL's order; halves
/// are rounded as NCCL does. Throws FailedPrecondition where there is no such GPU.
PHAROS_API Communicator on_gpu(Communicator& ranks, int device, const CommunicatorOptions& options = {});

}  // namespace pharos::ml
