#include "nccl_backend.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/collective/core.hpp>
#include <pharos/ml/nccl.hpp>
#include <pharos/ml/nccl/failpoints.hpp>

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Kind = Operation::Kind;

constexpr Duration kPause = 20us;  // between looks at messages, and at NCCL while it starts
constexpr Duration kSpin = 50us;   // what ends within that time is not worth a call of the host
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

namespace {

/// A call that a GPU makes when it has done its work so far. The thread that waits and the GPU share it: the GPU's
/// driver calls on a thread of its own, perhaps when nobody waits any more.
class Call {
 public:
  /// Asks for the call after all work that the stream has.
  static Result<std::shared_ptr<Call>> after(cudaStream_t stream) {
    auto call = std::make_shared<Call>();
    auto own = std::make_unique<std::shared_ptr<Call>>(call);
    PHAROS_TRY_VOID(done(::cudaLaunchHostFunc(stream, &make, own.get()), "asking the GPU for a call"));
    static_cast<void>(own.release());  // make() destroys it
    return call;
  }
  /// Returns whether the GPU has called by then.
  bool wait_until(TimePoint until) {
    std::unique_lock lock{mutex_};
    return made_.wait_until(lock, until, [this] { return is_made_; });
  }

 private:
  static void CUDART_CB make(void* data) {
    const std::unique_ptr<std::shared_ptr<Call>> own{static_cast<std::shared_ptr<Call>*>(data)};
    Call& call = **own;
    {
      const std::lock_guard lock{call.mutex_};
      call.is_made_ = true;
    }
    call.made_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable made_;
  bool is_made_ = false;
};

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
  std::optional<Pending> on_ranks{};  // the agreement with the other ranks; of a message: the message itself
  cudaEvent_t given = nullptr;        // after the work that was there when this was begun
  cudaEvent_t event = nullptr;        // after what the GPU has to do; nothing once that is done
  std::shared_ptr<Call> call{};       // after the event, if somebody waits for that
  bool is_launched = false;           // not for messages
  bool ended = false;

  bool is_message() const { return operation.kind == Kind::kMessage; }
  std::size_t bytes() const { return operation.count * size_of(operation.dtype); }
  std::span<std::byte> on_host() const { return {message.memory.get(), bytes()}; }
  void forget_event() {
    ::cudaEventDestroy(std::exchange(event, nullptr));
    call.reset();
  }
};

namespace {

Result<void> record(cudaEvent_t& event, cudaStream_t stream) {
  PHAROS_TRY_VOID(done(::cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
  return done(::cudaEventRecord(event, stream), "recording an event");
}

}  // namespace

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
  for (cudaStream_t* const each : {&stream_, &messages_, &calls_}) {
    PHAROS_TRY_VOID(done(::cudaStreamCreateWithFlags(each, cudaStreamNonBlocking), "making a stream"));
  }
  ncclUniqueId id{};
  if (rank() == 0) PHAROS_TRY_VOID(done(::ncclGetUniqueId(&id), "asking NCCL for an id of the group"));
  PHAROS_TRY_VOID(tried([&] { host_.broadcast(std::as_writable_bytes(std::span{&id, 1}), 0); }));
  failpoint(failpoints::kGpuGroupBegun);
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
  for (const cudaStream_t each : {stream_, messages_, calls_}) {
    if (each != nullptr) ::cudaStreamDestroy(each);
  }
}

/// Waits until NCCL has done what it was asked for last. The first operation connects the ranks, so NCCL waits for
/// ranks that may wait for a message of this one, or that have begun something else.
Result<void> NcclBackend::settle(Deadline deadline) {
  for (;;) {
    PHAROS_TRY(const bool is_over, is_settled());
    if (is_over) return {};
    PHAROS_TRY_VOID(advance_all());
    PHAROS_TRY_VOID(host_check());
    if (deadline.expired(std::chrono::steady_clock::now())) {
      return Error{ErrorCode::kDeadlineExceeded, "NCCL did not finish in time",
                   "Set NCCL_DEBUG=INFO to see NCCL's log."};
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// Returns false as long as NCCL still does what it was asked for.
Result<bool> NcclBackend::is_settled() {
  ncclResult_t state = ncclInProgress;
  PHAROS_TRY_VOID(done(::ncclCommGetAsyncError(comm_, &state), "asking NCCL for its state"));
  const auto well = done(state, "NCCL");
  if (well) return state != ncclInProgress;
  // NCCL may have noticed a death before the host, which knows the rank.
  for (const Deadline soon = Deadline::in(kLookTime); !soon.expired(std::chrono::steady_clock::now());) {
    PHAROS_TRY_VOID(host_check());
    std::this_thread::sleep_for(kPause);
  }
  return well.error();
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
    if (const auto begun = begin_running(*running); !begun) give_up(begun.error());
  }
  static_cast<void>(advance_all());
  return running;
}

/// Rule 1 of the class. A message is between two ranks only: they need no agreement, since the host's message checks
/// it.
Result<void> NcclBackend::begin_running(Running& running) {
  auto* const work = static_cast<cudaStream_t>(detail::stream_of_work(device_));
  PHAROS_TRY_VOID(record(running.given, work == nullptr ? cudaStreamLegacy : work));
  if (running.is_message()) return begin_message(running);
  std::memcpy(running.own.data(), &running.operation, sizeof running.operation);
  running.all.resize(sizeof running.operation * ranks());
  PHAROS_TRY_VOID(tried([&] {
    running.on_ranks.emplace(
        host_.begin_all_gather(std::span<const std::uint8_t>{running.own}, std::span{running.all}));
  }));
  failpoint(failpoints::kGpuOperationBegun);
  PHAROS_TRY_VOID(launch(running));
  failpoint(failpoints::kGpuOperationGiven);
  return {};
}

Result<void> NcclBackend::begin_message(Running& running) {
  const Operation& operation = running.operation;
  PHAROS_TRY(running.message, take_host_buffer(running.bytes()));
  if (operation.root != rank()) {
    return tried(
        [&] { running.on_ranks.emplace(host_.begin_receive(operation.dtype, running.on_host(), operation.root)); });
  }
  PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(messages_, running.given), "waiting for a message's data"));
  PHAROS_TRY_VOID(done(::cudaMemcpyAsync(running.on_host().data(), running.places.from, running.bytes(),
                                         cudaMemcpyDeviceToHost, messages_),
                       "copying a message from the GPU"));
  return record(running.event, messages_);
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
  failpoint(failpoints::kGpuMessageCopied);
  return tried([&] {
    running.on_ranks.emplace(host_.begin_send(running.operation.dtype, running.on_host(), running.operation.to));
  });
}

/// Called when the message has come from the other rank.
Result<void> NcclBackend::take_message(Running& running) {
  failpoint(failpoints::kGpuMessageCame);
  PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(messages_, running.given), "waiting for a message's place"));
  PHAROS_TRY_VOID(done(::cudaMemcpyAsync(running.places.to, running.on_host().data(), running.bytes(),
                                         cudaMemcpyHostToDevice, messages_),
                       "copying a message to the GPU"));
  return record(running.event, messages_);
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
  if (operation.count != 0 && operation.kind != Kind::kBarrier && operation.kind != Kind::kAllocate) {
    PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(stream_, running.given), "waiting for an operation's data"));
    PHAROS_TRY_VOID(call(operation, running.places));
    PHAROS_TRY_VOID(settle(Deadline::in(time_)));
    PHAROS_TRY_VOID(record(running.event, stream_));
  }
  running.is_launched = true;
  return {};
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
  bool is_next = true;
  for (const auto& each : running_) {
    const auto went = each->is_message() ? advance_message(*each) : advance_one(*each, is_next);
    if (!went) return give_up(went.error());
    if (each->is_message() && each->ended) host_buffers_.push_back(std::move(each->message));
  }
  std::erase_if(running_, [](const auto& each) { return each->ended; });
  return {};
}

/// `is_next`: whether the ranks have agreed on all earlier operations. The first disagreement is the one to tell.
Result<void> NcclBackend::advance_one(Running& running, bool& is_next) {
  if (running.on_ranks && is_next) {
    PHAROS_TRY_VOID(tried([&] { is_next = running.on_ranks->done(); }));
    if (is_next) {
      running.on_ranks.reset();
      PHAROS_TRY_VOID(check_agreement(running));
    }
  }
  PHAROS_TRY_VOID(look_at_event(running));
  running.ended = running.is_launched && !running.on_ranks && running.event == nullptr;
  return {};
}

Result<void> NcclBackend::advance_message(Running& running) {
  const bool is_sent = running.operation.root == rank();
  if (running.on_ranks) {
    bool is_over = false;
    PHAROS_TRY_VOID(tried([&] { is_over = running.on_ranks->done(); }));
    if (!is_over) return {};
    running.on_ranks.reset();
    running.ended = is_sent;
    return is_sent ? Result<void>{} : take_message(running);
  }
  PHAROS_TRY_VOID(look_at_event(running));
  if (running.event != nullptr) return {};
  running.ended = !is_sent;
  return is_sent ? send_message(running) : Result<void>{};
}

/// Forgets the event if the GPU has come that far.
Result<void> NcclBackend::look_at_event(Running& running) {
  if (running.event == nullptr) return {};
  const cudaError_t state = ::cudaEventQuery(running.event);
  if (state == cudaErrorNotReady) return {};
  PHAROS_TRY_VOID(done(state, to_string(running.operation)));
  running.forget_event();
  return {};
}

Result<bool> NcclBackend::advance(detail::Work& work) {
  const auto& running = static_cast<const Running&>(work);
  if (running.ended) return true;
  PHAROS_TRY_VOID(advance_all());
  return running.ended;
}

Result<void> NcclBackend::finish(detail::Work& work, Duration time) {
  const OnDevice on_device{device_};
  auto& running = static_cast<Running&>(work);
  const Deadline deadline = Deadline::in(time);
  for (;;) {
    PHAROS_TRY_VOID(advance_all());
    if (running.ended) return {};
    if (const auto well = wait_for_more(running, deadline); !well) return give_up(well.error());
  }
}

/// Waits for a part of what the operation still needs.
Result<void> NcclBackend::wait_for_more(Running& running, Deadline deadline) {
  const TimePoint now = std::chrono::steady_clock::now();
  const auto is_message = [](const auto& each) { return each->is_message(); };
  const bool is_polled = std::ranges::any_of(running_, is_message);
  const bool is_late = deadline.expired(now);
  // If a rank does not begin the operation in time, the wait of the host's operation fails, and names that rank.
  if (running.on_ranks && (is_late || !is_polled)) return wait_for_ranks(running);
  if (is_late) {
    return Error{ErrorCode::kDeadlineExceeded, to_string(running.operation) + " did not end on the GPU",
                 "Set NCCL_DEBUG=INFO to see NCCL's log, or raise CommunicatorOptions::timeout."};
  }
  if (now >= next_look_) {
    next_look_ = now + kLookTime;
    PHAROS_TRY_VOID(look());
  }
  if (!is_polled) return wait_for_gpu(running, std::min(next_look_, deadline.when()));
  std::this_thread::sleep_for(kPause);
  return {};
}

/// Waits until all ranks have begun the first operation about which this rank does not know that.
Result<void> NcclBackend::wait_for_ranks(Running& running) {
  const auto is_asked = [](const auto& each) { return each->on_ranks && !each->is_message(); };
  Running& asked = running.is_message() ? running : **std::ranges::find_if(running_, is_asked);
  auto all = tried([&] { asked.on_ranks->wait(); });
  if (all) return {};
  return std::move(all).error().with(to_string(asked.operation) + " on GPUs");
}

/// Waits until the GPU has done the operation.
Result<void> NcclBackend::wait_for_gpu(Running& running, TimePoint until) {
  if (running.call == nullptr) {
    const TimePoint enough = std::chrono::steady_clock::now() + kSpin;
    do {
      if (::cudaEventQuery(running.event) != cudaErrorNotReady) return {};
    } while (std::chrono::steady_clock::now() < enough);
    PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(calls_, running.event), "waiting for an operation"));
    PHAROS_TRY(running.call, Call::after(calls_));
  }
  if (running.call->wait_until(until)) running.forget_event();
  return {};
}

/// Finds out whether ranks have died, or NCCL has failed.
Result<void> NcclBackend::look() {
  PHAROS_TRY_VOID(host_check());
  PHAROS_TRY_VOID(is_settled());
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
    // Nothing on the GPU waits for other ranks any more. When operations and the copies of messages have ended, their
    // memory may be freed.
    for (const cudaStream_t each : {stream_, messages_}) {
      if (each != nullptr) ::cudaStreamSynchronize(each);
    }
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
