#include "nccl/nccl_group.hpp"

#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>

#include <pharos/async/deadline.hpp>
#include <pharos/ml/nccl/failpoints.hpp>

#include "cuda_calls.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Kind = Operation::Kind;

constexpr Duration kTimeOfHost = 100ms;  // for the host to notice what NCCL has noticed
constexpr Duration kBetweenLooks = 1ms;

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kU8: return ncclUint8;
    case DType::kI8: return ncclInt8;
    case DType::kI32: return ncclInt32;
    case DType::kI64: return ncclInt64;
    case DType::kF16: return ncclFloat16;
    case DType::kBF16: return ncclBfloat16;
    case DType::kF32: return ncclFloat32;
    case DType::kF64: return ncclFloat64;
  }
  return ncclUint8;
}
ncclRedOp_t reduction_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum: return ncclSum;
    case Reduction::kMean: return ncclAvg;
    case Reduction::kMax: return ncclMax;
    case Reduction::kMin: return ncclMin;
  }
  return ncclSum;
}

}  // namespace

NcclGroup::~NcclGroup() {
  abort();
  if (stream_ != nullptr) ::cudaStreamDestroy(stream_);
}

Result<void> NcclGroup::begin() {
  PHAROS_TRY_VOID(name_machine());
  PHAROS_TRY_VOID(make_stream(stream_));
  ncclUniqueId id{};
  if (rank() == 0) PHAROS_TRY_VOID(done(::ncclGetUniqueId(&id), "asking NCCL for an id of the group"));
  PHAROS_TRY_VOID(tried([&] { host_.broadcast(std::as_writable_bytes(std::span{&id, 1}), 0); }));
  failpoint(failpoints::kGpuGroupBegun);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return done(::ncclCommInitRankConfig(&comm_, static_cast<int>(ranks()), id, static_cast<int>(rank()), &config),
              "starting NCCL");
}

/// NCCL refuses two ranks of one machine that have the same GPU. So each of them gets a machine name of its own here:
/// NCCL takes them for ranks of different machines, and sends their data over sockets.
Result<void> NcclGroup::name_machine() {
  PHAROS_TRY(const bool shares, shares_gpu(host_, device_));
  if (!shares) return {};
  const std::string name = "pharos-rank-" + std::to_string(rank());
  ::setenv("NCCL_HOSTID", name.c_str(), /*overwrite=*/0);
  return {};
}

Result<void> NcclGroup::give(const Operation& operation, const detail::Places& places) {
  const auto type = type_of(operation.dtype);
  const auto reduction = reduction_of(operation.reduction);
  const std::size_t count = operation.count;
  const auto what = to_string(operation);
  switch (operation.kind) {
    case Kind::kAllReduce:
      return done(::ncclAllReduce(places.from, places.to, count, type, reduction, comm_, stream_), what);
    case Kind::kReduceScatter:
      return done(::ncclReduceScatter(places.from, places.to, count / ranks(), type, reduction, comm_, stream_), what);
    case Kind::kAllGather: return done(::ncclAllGather(places.from, places.to, count, type, comm_, stream_), what);
    case Kind::kBroadcast:
      return done(::ncclBroadcast(places.from, places.to, count, type, operation.root, comm_, stream_), what);
    case Kind::kAllToAll: {
      const std::size_t piece = count / ranks();
      const std::size_t bytes = piece * size_of(operation.dtype);
      PHAROS_TRY_VOID(done(::ncclGroupStart(), what));
      Result<void> all;
      for (std::uint32_t other = 0; all && other < ranks(); ++other) {
        const int peer = static_cast<int>(other);
        all = done(::ncclSend(places.from + other * bytes, piece, type, peer, comm_, stream_), what);
        if (all) all = done(::ncclRecv(places.to + other * bytes, piece, type, peer, comm_, stream_), what);
      }
      const auto end = done(::ncclGroupEnd(), what);
      return all ? end : all;
    }
    case Kind::kBarrier:
    case Kind::kMessage:
    case Kind::kAllocate:
    case Kind::kAllocateForAll: return {};
  }
  return {};
}

Result<bool> NcclGroup::is_settled() {
  ncclResult_t state = ncclInProgress;
  PHAROS_TRY_VOID(done(::ncclCommGetAsyncError(comm_, &state), "asking NCCL for its state"));
  const auto well = done(state, "NCCL");
  if (well) return state != ncclInProgress;
  // NCCL may have noticed a death before the host, which knows the rank.
  for (const Deadline soon = Deadline::in(kTimeOfHost); !soon.expired(std::chrono::steady_clock::now());) {
    if (const auto why = host_.failure()) return *why;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return well.error();
}

Result<void> NcclGroup::begin_end() {
  return done(::ncclCommFinalize(comm_), "ending NCCL");
}
void NcclGroup::end() {
  ::ncclCommDestroy(std::exchange(comm_, nullptr));
}
void NcclGroup::abort() {
  if (comm_ != nullptr) ::ncclCommAbort(std::exchange(comm_, nullptr));
}

}  // namespace pharos::ml
