#include "nccl_backend.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/collective/core.hpp>
#include <pharos/ml/nccl.hpp>

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Kind = Operation::Kind;

constexpr Duration kPause = 20us;  // between looks at the GPU
constexpr std::size_t kHostBufferMin = 64 << 10;
constexpr Duration kLookTime = 100ms;  // between checks that all ranks are alive; also how long NCCL may take to end

Result<void> done(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return {};
  const bool has_none = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
                        status == cudaErrorInvalidDevice || status == cudaErrorStubLibrary;
  if (status == cudaErrorMemoryAllocation) {
    return Error{ErrorCode::kExhausted, what + ": " + ::cudaGetErrorString(status),
                 "Train with smaller batches, or with smaller DdpOptions::bucket_bytes."};
  }
  return Error{has_none ? ErrorCode::kFailedPrecondition : ErrorCode::kUnavailable,
               what + ": " + ::cudaGetErrorString(status),
               has_none ? "Run the program on a machine with a GPU and its driver." : "Check the GPU with nvidia-smi."};
}
Result<void> done(ncclResult_t status, const std::string& what) {
  if (status == ncclSuccess || status == ncclInProgress) return {};
  return Error{ErrorCode::kUnavailable, what + ": " + ::ncclGetErrorString(status),
               "Set NCCL_DEBUG=INFO to see NCCL's log."};
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

/// Makes `device` the calling thread's GPU as long as this object lives. Errors are not checked here: the calls that
/// follow fail, too.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    ::cudaGetDevice(&before_);
    ::cudaSetDevice(device);
  }
  OnDevice(OnDevice&&) = delete;
  ~OnDevice() { ::cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

/// Calls `f`, and returns the exception that it throws as an error.
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
    for (const cudaEvent_t each : {given, event}) {
      if (each != nullptr) ::cudaEventDestroy(each);
    }
  }

  const Operation operation;
  const detail::Places places;
  std::array<std::uint8_t, sizeof(Operation)> own{};
  std::vector<std::uint8_t> all{};  // the operation that each rank has begun
  HostBuffer message{};
  std::optional<Pending> agreement{};  // of a message: the message itself, on the host
  cudaEvent_t given = nullptr;         // after the work that the default stream had when this was begun
  cudaEvent_t event = nullptr;         // after the operation on the GPU; of a message to send: after its copy
  bool ended = false;

  std::size_t bytes() const { return operation.count * size_of(operation.dtype); }
  std::span<std::byte> on_host() const { return {message.memory.get(), bytes()}; }
};

// ---- Making

Result<std::unique_ptr<NcclBackend>> NcclBackend::make(Communicator host, int device, Duration time) {
  std::unique_ptr<NcclBackend> backend{new NcclBackend{host, device, time}};
  int before = 0;
  ::cudaGetDevice(&before);
  const auto here = done(::cudaSetDevice(device), "taking GPU " + std::to_string(device));
  ::cudaSetDevice(before);
  // All ranks tell each other whether they have a GPU, so that no rank waits in NCCL for a rank without one.
  std::int32_t lacks = here ? 0 : 1;
  PHAROS_TRY_VOID(tried([&] { host.all_reduce(std::span{&lacks, 1}, Reduction::kMax); }));
  if (!here) return here.error();
  if (lacks != 0)
    return Error{ErrorCode::kFailedPrecondition, "another rank has no GPU", "The error of that rank says why."};
  if (const auto started = backend->start(); !started) return backend->give_up(started.error());
  return backend;
}

/// NCCL refuses two ranks of one machine that have the same GPU. So each of them gets a machine name of its own here:
/// NCCL takes them for ranks of different machines, and sends their data over sockets.
Result<void> NcclBackend::name_machine() {
  cudaDeviceProp own{};
  PHAROS_TRY_VOID(done(::cudaGetDeviceProperties(&own, device_), "reading the UUID of GPU " + std::to_string(device_)));
  constexpr std::size_t kSize = sizeof own.uuid;
  std::vector<std::byte> all(kSize * ranks());
  const auto uuid = std::as_bytes(std::span{&own.uuid, 1});
  PHAROS_TRY_VOID(tried([&] { host_.all_gather(uuid, std::span{all}); }));
  for (std::uint32_t other = 0; other < ranks(); ++other) {
    const auto its = std::span{all}.subspan(other * kSize, kSize);
    if (other == rank() || !std::ranges::equal(its, uuid)) continue;
    const std::string name = "pharos-rank-" + std::to_string(rank());
    ::setenv("NCCL_HOSTID", name.c_str(), /*overwrite=*/0);
    return {};
  }
  return {};
}

Result<void> NcclBackend::start() {
  const OnDevice on_device{device_};
  PHAROS_TRY_VOID(name_machine());
  for (cudaStream_t* const each : {&stream_, &messages_}) {
    PHAROS_TRY_VOID(done(::cudaStreamCreateWithFlags(each, cudaStreamNonBlocking), "making a stream"));
  }
  ncclUniqueId id{};
  if (rank() == 0) PHAROS_TRY_VOID(done(::ncclGetUniqueId(&id), "asking NCCL for an id of the group"));
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
  for (const cudaStream_t each : {stream_, messages_}) {
    if (each != nullptr) ::cudaStreamDestroy(each);
  }
}

/// Waits until NCCL has done what it was asked for last.
Result<void> NcclBackend::settle(Deadline deadline) {
  for (;;) {
    ncclResult_t state = ncclInProgress;
    PHAROS_TRY_VOID(done(::ncclCommGetAsyncError(comm_, &state), "asking NCCL for its state"));
    if (state != ncclInProgress) return done(state, "NCCL");
    PHAROS_TRY_VOID(host_check());
    if (deadline.expired(std::chrono::steady_clock::now())) {
      return Error{ErrorCode::kDeadlineExceeded, "NCCL did not finish in time",
                   "Set NCCL_DEBUG=INFO to see NCCL's log."};
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<void> NcclBackend::host_check() {
  return tried([&] { host_.check(); });
}

// ---- Operations

std::shared_ptr<detail::Work> NcclBackend::begin(const Operation& operation, const detail::Places& places) {
  const OnDevice on_device{device_};
  auto running = std::make_shared<Running>(operation, places);
  if (!failed_) {
    running_.push_back(running);
    auto begun = mark_begin(*running);
    if (begun) begun = begin_agreement(*running);
    if (!begun) give_up(begun.error());
  }
  static_cast<void>(advance_all());
  return running;
}

Result<void> NcclBackend::mark_begin(Running& running) {
  PHAROS_TRY_VOID(done(::cudaEventCreateWithFlags(&running.given, cudaEventDisableTiming), "making an event"));
  return done(::cudaEventRecord(running.given, cudaStreamLegacy), "recording an event");
}

/// Rule 1 of the class. A message is between two ranks only: they need no agreement, since the host's message checks
/// it.
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
  return begin_message(running);
}

Result<void> NcclBackend::begin_message(Running& running) {
  const Operation& operation = running.operation;
  PHAROS_TRY(running.message, take_host_buffer(running.bytes()));
  if (operation.root != rank()) {
    return tried(
        [&] { running.agreement.emplace(host_.begin_receive(operation.dtype, running.on_host(), operation.root)); });
  }
  PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(messages_, running.given), "waiting for a message's data"));
  PHAROS_TRY_VOID(done(::cudaMemcpyAsync(running.on_host().data(), running.places.from, running.bytes(),
                                         cudaMemcpyDeviceToHost, messages_),
                       "copying a message from the GPU"));
  PHAROS_TRY_VOID(done(::cudaEventCreateWithFlags(&running.event, cudaEventDisableTiming), "making an event"));
  return done(::cudaEventRecord(running.event, messages_), "recording an event");
}

// Pinned memory is kept and used again: to free it would wait for what runs on the GPU, which may wait for a rank that
// has died.
Result<NcclBackend::HostBuffer> NcclBackend::take_host_buffer(std::size_t bytes) {
  const auto found = std::find_if(host_buffers_.begin(), host_buffers_.end(),
                                  [&](const HostBuffer& each) { return each.bytes >= bytes; });
  if (found != host_buffers_.end()) {
    HostBuffer buffer = std::move(*found);
    host_buffers_.erase(found);
    return buffer;
  }
  void* memory = nullptr;
  const std::size_t taken = std::bit_ceil(std::max(bytes, kHostBufferMin));
  PHAROS_TRY_VOID(done(::cudaMallocHost(&memory, taken), "taking " + std::to_string(taken) + " bytes for a message"));
  return HostBuffer{HostMemory{static_cast<std::byte*>(memory)}, taken};
}

/// Called when the message has been copied from the GPU.
Result<void> NcclBackend::send_message(Running& running) {
  ::cudaEventDestroy(std::exchange(running.event, nullptr));
  return tried([&] {
    running.agreement.emplace(host_.begin_send(running.operation.dtype, running.on_host(), running.operation.to));
  });
}

Result<void> NcclBackend::check_agreement(const Running& running) const {
  for (std::uint32_t other = 0; other < ranks(); ++other) {
    Operation theirs;
    std::memcpy(&theirs, running.all.data() + other * sizeof theirs, sizeof theirs);
    if (theirs == running.operation) continue;
    return disagreement(rank(), running.operation, other, theirs, "as operation " + std::to_string(running.number));
  }
  return {};
}

Result<void> NcclBackend::launch(Running& running) {
  const Operation& operation = running.operation;
  if (operation.kind == Kind::kMessage) {
    running.ended = operation.root == rank();
    if (running.ended) return {};
    PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(messages_, running.given), "waiting for a message's place"));
    PHAROS_TRY_VOID(done(::cudaMemcpyAsync(running.places.to, running.on_host().data(), running.bytes(),
                                           cudaMemcpyHostToDevice, messages_),
                         "copying a message to the GPU"));
    PHAROS_TRY_VOID(done(::cudaEventCreateWithFlags(&running.event, cudaEventDisableTiming), "making an event"));
    return done(::cudaEventRecord(running.event, messages_), "recording an event");
  }
  PHAROS_TRY_VOID(check_agreement(running));
  running.ended = operation.count == 0 || operation.kind == Kind::kBarrier || operation.kind == Kind::kAllocate;
  if (running.ended) return {};
  PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(stream_, running.given), "waiting for an operation's data"));
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

Result<void> NcclBackend::advance_all() {
  if (failed_) return *failed_;
  const OnDevice on_device{device_};
  // Operations of all ranks go to the GPU in the order in which they were begun. Messages do not wait for them.
  bool is_next = true;
  for (const auto& each : running_) {
    const bool is_message = each->operation.kind == Kind::kMessage;
    if (!is_message && !is_next) continue;
    const auto went = advance_one(*each);
    if (!went) return give_up(went.error());
    if (!is_message && each->agreement) is_next = false;
    if (is_message && each->ended) host_buffers_.push_back(std::move(each->message));
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
  const bool is_to_be_sent = running.operation.kind == Kind::kMessage && running.operation.root == rank();
  if (is_to_be_sent) return send_message(running);
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
  // If a rank does not agree in time, the wait of the host's operation fails, and names that rank.
  while (!running.ended) {
    PHAROS_TRY_VOID(advance_all());
    if (running.ended) break;
    const TimePoint now = std::chrono::steady_clock::now();
    if (now >= look) {
      look = now + kLookTime;
      if (const auto all_live = host_check(); !all_live) return give_up(all_live.error());
    }
    if (deadline.expired(now) && running.agreement) {
      if (const auto agreed = tried([&] { running.agreement->wait(); }); !agreed) return give_up(agreed.error());
    } else if (deadline.expired(now)) {
      return give_up(Error{ErrorCode::kDeadlineExceeded, to_string(running.operation) + " did not end on the GPU",
                           "Set NCCL_DEBUG=INFO to see NCCL's log, or raise CommunicatorOptions::timeout."});
    }
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

// ---- Memory

Result<std::byte*> NcclBackend::allocate(std::size_t bytes, Duration time) {
  const OnDevice on_device{device_};
  const auto work = begin({.kind = Kind::kAllocate, .count = bytes}, {});
  PHAROS_TRY_VOID(finish(*work, time));
  void* memory = nullptr;
  auto made = done(::cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)),
                   "taking " + std::to_string(bytes) + " bytes of GPU " + std::to_string(device_));
  if (made) made = done(::cudaMemsetAsync(memory, 0, bytes, messages_), "clearing memory of the GPU");
  if (made) made = done(::cudaStreamSynchronize(messages_), "clearing memory of the GPU");
  if (!made) return give_up(made.error());
  auto* const begin = static_cast<std::byte*>(memory);
  memory_.emplace(begin, begin);
  return begin;
}

void NcclBackend::free(std::byte* memory) {
  memory_.erase(memory);
}

// ---- Failing

/// Rule 2 of the class. The other ranks are told on the host.
Error NcclBackend::give_up(const Error& why) {
  if (!failed_) {
    failed_ = why;
    host_.abort(why);
    if (comm_ != nullptr) ::ncclCommAbort(std::exchange(comm_, nullptr));
    // Nothing on the GPU waits for other ranks any more, so the copies of messages end, and then their memory may be
    // freed.
    if (messages_ != nullptr) ::cudaStreamSynchronize(messages_);
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

namespace {

[[maybe_unused]] const bool is_registered = (detail::register_on_gpu(&on_gpu), true);

}  // namespace

Communicator on_gpu(Communicator& ranks, int device, const CommunicatorOptions& options) {
  auto backend = NcclBackend::make(ranks, device, options.timeout);
  if (!backend) throw_error(backend.error());
  return Communicator{std::make_shared<detail::Core>(*std::move(backend), options)};
}

}  // namespace pharos::ml
