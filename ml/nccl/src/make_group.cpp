#include "make_group.hpp"

#include <cstdint>
#include <span>
#include <utility>

#include "cuda_calls.hpp"
#include "nccl/nccl_group.hpp"
#include "peers/peer_group.hpp"

namespace pharos::ml {
namespace {

/// Whether memory of the host is better than NCCL: it is where two ranks share a GPU, since NCCL would use sockets.
Result<bool> prefers_host(Communicator& host, int device) {
  PHAROS_TRY(const bool shares, shares_gpu(host, device));
  std::int32_t any = shares ? 1 : 0;
  PHAROS_TRY_VOID(tried([&] { host.all_reduce(std::span{&any, 1}, Reduction::kMax); }));
  return any != 0;
}

/// nullptr if the ranks are to use NCCL.
Result<std::unique_ptr<GpuGroup>> make_peers(Communicator host, int device, GpuPath path) {
  auto peers = std::make_unique<PeerGroup>(host, device);
  PHAROS_TRY(const PeerGroup::Reach reach, peers->begin());
  switch (reach) {
    case PeerGroup::Reach::kNone: return nullptr;
    case PeerGroup::Reach::kHost: {
      PHAROS_TRY(const bool prefers, path == GpuPath::kBest ? prefers_host(host, device) : true);
      if (!prefers) return nullptr;
      break;
    }
    case PeerGroup::Reach::kDirect: break;
  }
  return peers;
}

}  // namespace

Result<std::unique_ptr<GpuGroup>> make_group(Communicator host, int device, GpuPath path) {
  if (path != GpuPath::kNccl && host.shares_memory()) {
    PHAROS_TRY(auto peers, make_peers(host, device, path));
    if (peers != nullptr) return peers;
  }
  if (path == GpuPath::kPeers) {
    return Error{ErrorCode::kFailedPrecondition, "the GPUs of the ranks cannot use each other's memory",
                 "Leave CommunicatorOptions::gpu_path at kBest."};
  }
  auto nccl = std::make_unique<NcclGroup>(std::move(host), device);
  PHAROS_TRY_VOID(nccl->begin());
  return nccl;
}

}  // namespace pharos::ml
