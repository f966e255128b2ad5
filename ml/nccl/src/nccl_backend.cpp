#include "nccl_backend.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/nccl.hpp>

#include "core.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Kind = Operation::Kind;

constexpr Duration kPause = 20us;      // between looks at the GPU
constexpr Duration kLookTime = 100ms;  // between looks at whether all ranks live

Result<void> done(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return {};
  const bool has_none = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
                        status == cudaErrorInvalidDevice || status == cudaErrorStubLibrary;
  return Error{has_none ? ErrorCode::kFailedPrecondition : ErrorCode::kUnavailable,
               what + ": " + ::cudaGetErrorString(status),
               has_none ? "Run it where there is a GPU, with its driver." : "See what the GPU says, by nvidia-smi."};
}
Result<void> done(ncclResult_t status, const std::string& what) {
  if (status == ncclSuccess || status == ncclInProgress) return {};
  return Error{ErrorCode::kUnavailable, what + ": " + ::ncclGetErrorString(status),
               "NCCL_DEBUG=INFO has NCCL say more."};
}

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

/// What it throws, as a result.
template <class F>
Result<void> tried(const F& f) {
  try {
    f();
    return {};
  } catch (const Exception& e) {
    return e.error();
  }
}

}  // namespace

class NcclBackend::Running final : public detail::Work {
 public:
  Running(const Operation& operation_given, const detail::Places& places_given)
      : operation{operation_given}, places{places_given} {}
  ~Running() override {
    if (event != nullptr) ::cudaEventDestroy(event);
  }

  const Operation operation;
  const detail::Places places;
  std::array<std::uint8_t, sizeof(Operation)> own{};
  std::vector<std::uint8_t> all{};     // what each rank wants
  std::optional<Pending> agreement{};  // a message's: the message itself
  std::vector<std::byte> message{};    // on the host
  cudaEvent_t event = nullptr;         // of its end on the GPU
  bool ended = false;
};

// ---- Making

Result<std::unique_ptr<NcclBackend>> NcclBackend::make(Communicator& host, int device, Duration time) {
  std::unique_ptr<NcclBackend> backend{new NcclBackend{host, device, time}};
  const auto here = done(::cudaSetDevice(device), "taking GPU " + std::to_string(device));
  // All ranks say whether they have theirs: nobody waits in NCCL for one that has none.
  std::int32_t lacks = here ? 0 : 1;
  PHAROS_TRY_VOID(tried([&] { host.all_reduce(std::span{&lacks, 1}, Reduction::kMax); }));
  if (!here) return here.error();
  if (lacks != 0) return Error{ErrorCode::kFailedPrecondition, "another rank has no GPU", "See what that rank says."};
  PHAROS_TRY_VOID(backend->start());
  return backend;
}

Result<void> NcclBackend::start() {
  PHAROS_TRY_VOID(done(::cudaStreamCreate(&stream_), "making a stream"));
  ncclUniqueId id{};
  if (rank() == 0) PHAROS_TRY_VOID(done(::ncclGetUniqueId(&id), "asking NCCL for a name"));
  PHAROS_TRY_VOID(tried([&] { host_.broadcast(std::as_writable_bytes(std::span{&id, 1}), 0); }));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  PHAROS_TRY_VOID(
      done(::ncclCommInitRankConfig(&comm_, static_cast<int>(ranks()), id, static_cast<int>(rank()), &config),
           "starting NCCL"));
  return settle(Deadline::in(time_));
}

NcclBackend::~NcclBackend() {
  if (comm_ != nullptr) {
    if (!failed_ && done(::ncclCommFinalize(comm_), "") && settle(Deadline::in(kLookTime))) {
      ::ncclCommDestroy(comm_);
    } else {
      ::ncclCommAbort(comm_);
    }
  }
  if (stream_ != nullptr) ::cudaStreamDestroy(stream_);
}

/// Until NCCL has done what it was last asked for.
Result<void> NcclBackend::settle(Deadline deadline) {
  for (;;) {
    ncclResult_t state = ncclInProgress;
    PHAROS_TRY_VOID(done(::ncclCommGetAsyncError(comm_, &state), "asking NCCL how it goes"));
    if (state != ncclInProgress) return done(state, "NCCL");
    PHAROS_TRY_VOID(host_check());
    if (deadline.expired(std::chrono::steady_clock::now())) {
      return Error{ErrorCode::kDeadlineExceeded, "NCCL did not come to an end", "NCCL_DEBUG=INFO has NCCL say more."};
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<void> NcclBackend::host_check() {
  return tried([&] { host_.check(); });
}

// ---- Operations

std::shared_ptr<detail::Work> NcclBackend::begin(const Operation& operation, const detail::Places& places) {
  auto running = std::make_shared<Running>(operation, places);
  running_.push_back(running);
  if (!failed_) {
    if (const auto begun = begin_agreement(*running); !begun) give_up(begun.error());
  }
  static_cast<void>(advance_all());
  return running;
}

/// Rule 1. A message is the two's alone, and goes through the host.
Result<void> NcclBackend::begin_agreement(Running& running) {
  const Operation& operation = running.operation;
  if (operation.kind != Kind::kMessage) {
    std::memcpy(running.own.data(), &operation, sizeof operation);
    running.all.resize(sizeof operation * ranks());
    return tried([&] {
      running.agreement.emplace(
          host_.begin_all_gather(std::span<const std::uint8_t>{running.own}, std::span{running.all}));
    });
  }
  const std::size_t bytes = operation.count * size_of(operation.dtype);
  running.message.resize(bytes);
  if (operation.root != rank()) {
    return tried([&] { running.agreement.emplace(host_.begin_receive(std::span{running.message}, operation.root)); });
  }
  PHAROS_TRY_VOID(done(::cudaMemcpy(running.message.data(), running.places.from, bytes, cudaMemcpyDeviceToHost),
                       "copying a message from the GPU"));
  return tried(
      [&] { running.agreement.emplace(host_.begin_send(std::span<const std::byte>{running.message}, operation.to)); });
}

Result<void> NcclBackend::check_agreement(const Running& running) const {
  for (std::uint32_t other = 0; other < ranks(); ++other) {
    Operation theirs;
    std::memcpy(&theirs, running.all.data() + other * sizeof theirs, sizeof theirs);
    if (theirs == running.operation) continue;
    return disagreement(rank(), running.operation, other, theirs, "operation " + std::to_string(running.number));
  }
  return {};
}

Result<void> NcclBackend::launch(Running& running) {
  const Operation& operation = running.operation;
  if (operation.kind == Kind::kMessage) {
    running.ended = true;
    if (operation.root == rank()) return {};
    return done(::cudaMemcpy(running.places.to, running.message.data(), running.message.size(), cudaMemcpyHostToDevice),
                "copying a message to the GPU");
  }
  PHAROS_TRY_VOID(check_agreement(running));
  running.ended = operation.count == 0 || operation.kind == Kind::kBarrier || operation.kind == Kind::kAllocate;
  if (running.ended) return {};
  PHAROS_TRY_VOID(call(operation, running.places));
  PHAROS_TRY_VOID(settle(Deadline::in(time_)));
  PHAROS_TRY_VOID(done(::cudaEventCreateWithFlags(&running.event, cudaEventDisableTiming), "making an event"));
  return done(::cudaEventRecord(running.event, stream_), "recording an event");
}

Result<void> NcclBackend::call(const Operation& operation, const detail::Places& places) {
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
      for (std::uint32_t other = 0; other < ranks(); ++other) {
        const int peer = static_cast<int>(other);
        PHAROS_TRY_VOID(done(::ncclSend(places.from + other * bytes, piece, type, peer, comm_, stream_), what));
        PHAROS_TRY_VOID(done(::ncclRecv(places.to + other * bytes, piece, type, peer, comm_, stream_), what));
      }
      return done(::ncclGroupEnd(), what);
    }
    case Kind::kBarrier:
    case Kind::kMessage:
    case Kind::kAllocate: return {};
  }
  return {};
}

Result<void> NcclBackend::advance_all() {
  if (failed_) return *failed_;
  for (const auto& each : running_) {
    const auto went = advance_one(*each);
    if (!went) return give_up(went.error());
    // Those behind it go to the GPU behind it; messages do not wait.
    if (each->agreement && each->operation.kind != Kind::kMessage) break;
  }
  std::erase_if(running_, [](const auto& each) { return each->ended; });
  return {};
}

Result<void> NcclBackend::advance_one(Running& running) {
  if (running.agreement) {
    bool agreed = false;
    PHAROS_TRY_VOID(tried([&] { agreed = running.agreement->done(); }));
    if (!agreed) return {};
    running.agreement.reset();
    PHAROS_TRY_VOID(launch(running));
  }
  if (running.ended || running.event == nullptr) return {};
  const cudaError_t state = ::cudaEventQuery(running.event);
  if (state == cudaErrorNotReady) return {};
  PHAROS_TRY_VOID(done(state, to_string(running.operation)));
  running.ended = true;
  return {};
}

Result<bool> NcclBackend::advance(detail::Work& work) {
  const auto& running = static_cast<const Running&>(work);
  if (running.ended) return true;
  PHAROS_TRY_VOID(advance_all());
  return running.ended;
}

Result<void> NcclBackend::finish(detail::Work& work, Duration time) {
  auto& running = static_cast<Running&>(work);
  const Deadline deadline = Deadline::in(time);
  TimePoint look = std::chrono::steady_clock::now() + kLookTime;
  while (!running.ended) {
    PHAROS_TRY_VOID(advance_all());
    if (running.ended) break;
    // Who has not agreed is waited for on the host, which knows whom it waits for.
    const auto first = running_.front();
    if (first->agreement) {
      if (const auto agreed = tried([&] { first->agreement->wait(); }); !agreed) return give_up(agreed.error());
      continue;
    }
    const TimePoint now = std::chrono::steady_clock::now();
    if (now >= look) {
      look = now + kLookTime;
      if (const auto all_live = host_check(); !all_live) return give_up(all_live.error());
    }
    if (deadline.expired(now)) {
      return give_up(Error{ErrorCode::kDeadlineExceeded, to_string(running.operation) + " did not end on the GPU",
                           "NCCL_DEBUG=INFO has NCCL say more; or give the operation more time."});
    }
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

// ---- Memory

Result<std::byte*> NcclBackend::allocate(std::size_t bytes, Duration time) {
  const auto work = begin({.kind = Kind::kAllocate, .count = bytes}, {});
  PHAROS_TRY_VOID(finish(*work, time));
  void* memory = nullptr;
  auto made = done(::cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)),
                   "taking " + std::to_string(bytes) + " bytes of GPU " + std::to_string(device_));
  if (made) made = done(::cudaMemset(memory, 0, bytes), "clearing memory of the GPU");
  if (!made) return give_up(made.error());
  auto* const begin = static_cast<std::byte*>(memory);
  memory_.emplace(begin, begin);
  return begin;
}

void NcclBackend::free(std::byte* memory) {
  memory_.erase(memory);
}

// ---- Failing

/// Rule 2. The others hear of it on the host.
Error NcclBackend::give_up(const Error& why) {
  if (!failed_) {
    failed_ = why;
    host_.abort(why.message());
    if (comm_ != nullptr) ::ncclCommAbort(std::exchange(comm_, nullptr));
    running_.clear();
  }
  return *failed_;
}

void NcclBackend::fail(const Error& why) {
  give_up(why);
}

Result<void> NcclBackend::check() {
  if (failed_) return *failed_;
  return host_check();
}

Communicator on_gpu(Communicator& ranks, int device, const CommunicatorOptions& options) {
  auto backend = NcclBackend::make(ranks, device, options.timeout);
  if (!backend) throw_error(backend.error());
  return Communicator{std::make_shared<detail::Core>(*std::move(backend), options)};
}

}  // namespace pharos::ml
