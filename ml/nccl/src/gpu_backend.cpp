#include "gpu_backend.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/collective/core.hpp>
#include <pharos/ml/collective/gpu_addresses.hpp>
#include <pharos/ml/nccl.hpp>
#include <pharos/ml/nccl/failpoints.hpp>

#include "cuda_calls.hpp"
#include "gpu_call.hpp"
#include "make_group.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Kind = Operation::Kind;

constexpr Duration kPause = 20us;      // between looks at NCCL while it connects
constexpr Duration kSpin = 50us;       // what ends within that time is not worth a call of the host
constexpr Duration kLookTime = 100ms;  // between checks that all ranks are alive; also how long NCCL may take to end

}  // namespace

class GpuBackend::Running final : public detail::Work {
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
  TimePoint ready = std::chrono::steady_clock::now();  // since then its data may be there
  std::array<std::uint8_t, sizeof(Operation)> own{};
  std::vector<std::uint8_t> all{};  // the operation that each rank has begun
  PinnedBuffer message{};
  std::optional<Pending> on_ranks{};  // the agreement with the other ranks; of a message: the message itself
  cudaEvent_t given = nullptr;        // after the work that was there when this was begun
  cudaEvent_t event = nullptr;        // after what the GPU has to do; nothing once that is done
  std::shared_ptr<GpuCall> call{};    // after the event, if somebody waits for that
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

cudaStream_t stream_of_work(int device) {
  auto* const stream = static_cast<cudaStream_t>(detail::stream_of_work(device));
  return stream == nullptr ? cudaStreamLegacy : stream;
}

Error overdue(const Operation& operation) {
  return {ErrorCode::kDeadlineExceeded, to_string(operation) + " did not end on the GPU",
          "Raise CommunicatorOptions::timeout. With NCCL_DEBUG=INFO, NCCL writes a log."};
}

}  // namespace

// ---- Making

Result<std::unique_ptr<GpuBackend>> GpuBackend::make(Communicator host, int device,
                                                     const CommunicatorOptions& options) {
  std::unique_ptr<GpuBackend> backend{new GpuBackend{host, device, options.timeout}};
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
  if (const auto started = backend->start(options.gpu_path); !started) return backend->give_up(started.error());
  backend->watcher_ = std::thread{[&all = *backend] { all.watch(); }};
  return backend;
}

Result<void> GpuBackend::start(GpuPath path) {
  const OnDevice on_device{device_};
  for (cudaStream_t* const each : {&messages_, &calls_}) PHAROS_TRY_VOID(make_stream(*each));
  PHAROS_TRY(group_, make_group(host_, device_, path));
  return settle(Deadline::in(time_));
}

GpuBackend::~GpuBackend() {
  if (watcher_.joinable()) {
    {
      const std::lock_guard lock{mutex_};
      ends_ = true;
    }
    more_.notify_one();
    watcher_.join();
  }
  const OnDevice on_device{device_};
  if (group_ != nullptr && !failed_ && group_->begin_end() && settle(Deadline::in(kLookTime))) group_->end();
  group_.reset();
  for (const cudaStream_t each : {messages_, calls_}) {
    if (each != nullptr) ::cudaStreamDestroy(each);
  }
}

/// Waits until NCCL has done what it was asked for last. The first operation connects the ranks, so NCCL waits for
/// ranks that may wait for a message of this one, or that have begun something else.
Result<void> GpuBackend::settle(Deadline deadline) {
  for (;;) {
    PHAROS_TRY(const bool is_over, group_->is_settled());
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

Result<void> GpuBackend::host_check() {
  return tried([&] { host_.check(); });
}

// ---- Operations

std::shared_ptr<detail::Work> GpuBackend::begin(const Operation& operation, const detail::Places& places) {
  const std::lock_guard lock{mutex_};
  ++begun_;
  return begin_one(operation, places);
}

std::shared_ptr<GpuBackend::Running> GpuBackend::begin_one(const Operation& operation, const detail::Places& places) {
  const OnDevice on_device{device_};
  auto running = std::make_shared<Running>(operation, places);
  running->number = begun_;
  if (!failed_) {
    running_.push_back(running);
    if (running_.size() == 1) more_.notify_one();
    if (const auto begun = begin_running(*running); !begun) give_up(begun.error());
  }
  static_cast<void>(advance_all());
  return running;
}

/// Rule 1 of the class. A message is between two ranks only: they need no agreement, since the host's message checks
/// it.
Result<void> GpuBackend::begin_running(Running& running) {
  PHAROS_TRY_VOID(record(running.given, stream_of_work(device_)));
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

Result<void> GpuBackend::begin_message(Running& running) {
  const Operation& operation = running.operation;
  PHAROS_TRY(running.message, buffers_.take(running.bytes()));
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

/// Called when the message has been copied from the GPU.
Result<void> GpuBackend::send_message(Running& running) {
  failpoint(failpoints::kGpuMessageCopied);
  return tried([&] {
    running.on_ranks.emplace(host_.begin_send(running.operation.dtype, running.on_host(), running.operation.to));
  });
}

/// Called when the message has come from the other rank.
Result<void> GpuBackend::take_message(Running& running) {
  failpoint(failpoints::kGpuMessageCame);
  PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(messages_, running.given), "waiting for a message's place"));
  PHAROS_TRY_VOID(done(::cudaMemcpyAsync(running.places.to, running.on_host().data(), running.bytes(),
                                         cudaMemcpyHostToDevice, messages_),
                       "copying a message to the GPU"));
  return record(running.event, messages_);
}

Result<void> GpuBackend::check_agreement(const Running& running) const {
  for (std::uint32_t other = 0; other < ranks(); ++other) {
    Operation theirs;
    std::memcpy(&theirs, running.all.data() + other * sizeof theirs, sizeof theirs);
    if (theirs == running.operation) continue;
    return disagreement(rank(), running.operation, other, theirs, "as operation " + std::to_string(running.number));
  }
  return {};
}

Result<void> GpuBackend::launch(Running& running) {
  const Operation& operation = running.operation;
  if (operation.count != 0 && operation.kind != Kind::kBarrier && operation.kind != Kind::kAllocate) {
    PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(group_->stream(), running.given), "waiting for an operation's data"));
    PHAROS_TRY_VOID(group_->give(operation, running.places));
    PHAROS_TRY_VOID(settle(Deadline::in(time_)));
    PHAROS_TRY_VOID(record(running.event, group_->stream()));
  }
  running.is_launched = true;
  return {};
}

Result<void> GpuBackend::advance_all() {
  if (failed_) return give_up(*failed_);
  const OnDevice on_device{device_};
  auto went = hear_ranks();
  for (const auto& each : running_) {
    if (went) went = each->is_message() ? advance_message(*each) : look_at_event(*each);
    if (!went) return give_up(went.error());
    if (!each->is_message()) {
      each->ended = each->is_launched && !each->on_ranks && each->event == nullptr;
    } else if (each->ended) {
      buffers_.put_back(std::move(each->message));
    }
  }
  std::erase_if(running_, [](const auto& each) { return each->ended; });
  return {};
}

/// Hears what the other ranks have begun, in the order of the operations: the first difference is the one to tell.
Result<void> GpuBackend::hear_ranks() {
  for (const auto& each : running_) {
    if (each->is_message() || !each->on_ranks) continue;
    bool all_have = false;
    PHAROS_TRY_VOID(tried([&] { all_have = each->on_ranks->done(); }));
    if (!all_have) return {};
    each->on_ranks.reset();
    PHAROS_TRY_VOID(check_agreement(*each));
  }
  return {};
}

Result<void> GpuBackend::advance_message(Running& running) {
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
Result<void> GpuBackend::look_at_event(Running& running) {
  if (running.event == nullptr) return {};
  PHAROS_TRY(const bool has_come, has_passed(running.event, to_string(running.operation)));
  if (has_come) running.forget_event();
  return {};
}

/// When the operation takes too long. Its time begins when the work before it is done.
TimePoint GpuBackend::deadline_of(Running& running, Duration time) {
  const auto is_ready = has_passed(running.given, "");
  if (is_ready && !*is_ready) running.ready = std::chrono::steady_clock::now();
  return Deadline::after(time, running.ready).when();
}

Result<bool> GpuBackend::advance(detail::Work& work) {
  const std::lock_guard lock{mutex_};
  const auto& running = static_cast<const Running&>(work);
  if (running.ended) return true;
  PHAROS_TRY_VOID(advance_all());
  return running.ended;
}

Result<void> GpuBackend::finish(detail::Work& work, Duration time) {
  const std::lock_guard lock{mutex_};
  return finish_one(static_cast<Running&>(work), time);
}

Result<void> GpuBackend::finish_one(Running& running, Duration time) {
  const OnDevice on_device{device_};
  running.ready = std::chrono::steady_clock::now();
  while (!running.ended) {
    PHAROS_TRY_VOID(advance_all());
    if (running.ended) break;
    if (const auto well = wait_for_more(running, deadline_of(running, time)); !well) return give_up(well.error());
  }
  return {};
}

Result<void> GpuBackend::join(detail::Work& work, Duration time) {
  const std::lock_guard lock{mutex_};
  const OnDevice on_device{device_};
  auto& running = static_cast<Running&>(work);
  if (running.ended) return {};
  PHAROS_TRY_VOID(advance_all());
  if (running.is_message() || !running.is_launched) return finish_one(running, time);
  if (running.event == nullptr) return {};
  const auto joined = done(::cudaStreamWaitEvent(stream_of_work(device_), running.event), "waiting for an operation");
  return joined ? joined : give_up(joined.error());
}

/// Waits for a part of what the operation still needs.
Result<void> GpuBackend::wait_for_more(Running& running, TimePoint deadline) {
  const TimePoint now = std::chrono::steady_clock::now();
  const bool is_late = now >= deadline;
  if (!is_late && now >= next_look_) {
    next_look_ = now + kLookTime;
    PHAROS_TRY_VOID(host_check());
    PHAROS_TRY_VOID(group_->is_settled());
  }
  // Messages are sent as soon as they are copied: what this rank waits for may wait for them.
  const auto is_copied = [&](const auto& each) {
    return each->is_message() && !each->on_ranks && each->event != nullptr;
  };
  const auto copied = std::ranges::find_if(running_, is_copied);
  if (copied != running_.end() && !is_late) return wait_for_gpu(**copied, std::min(next_look_, deadline));
  // If a rank does not begin the operation in time, the wait of the host's operation fails, and names that rank.
  if (running.on_ranks) return wait_for_ranks(running);
  if (is_late) return overdue(running.operation);
  return wait_for_gpu(running, std::min(next_look_, deadline));
}

/// Waits until all ranks have begun the first operation about which this rank does not know that.
Result<void> GpuBackend::wait_for_ranks(Running& running) {
  const auto is_asked = [](const auto& each) { return each->on_ranks && !each->is_message(); };
  Running& asked = running.is_message() ? running : **std::ranges::find_if(running_, is_asked);
  auto all = tried([&] { asked.on_ranks->wait(); });
  if (all) return {};
  return std::move(all).error().with(to_string(asked.operation) + " on GPUs");
}

/// Waits until the GPU has done the operation.
Result<void> GpuBackend::wait_for_gpu(Running& running, TimePoint until) {
  if (running.call == nullptr) {
    const TimePoint enough = std::chrono::steady_clock::now() + kSpin;
    do {
      PHAROS_TRY_VOID(look_at_event(running));
      if (running.event == nullptr) return {};
    } while (std::chrono::steady_clock::now() < enough);
    PHAROS_TRY_VOID(done(::cudaStreamWaitEvent(calls_, running.event), "waiting for an operation"));
    PHAROS_TRY(running.call, GpuCall::after(calls_));
  }
  if (running.call->wait_until(until)) running.forget_event();
  return {};
}

// ---- Memory

Result<std::byte*> GpuBackend::allocate(std::size_t bytes, Duration time) {
  const std::lock_guard lock{mutex_};
  const OnDevice on_device{device_};
  const auto running = begin_one({.kind = Kind::kAllocate, .count = bytes}, {});
  PHAROS_TRY_VOID(finish_one(*running, time));
  auto memory = group_->allocate(bytes);
  if (!memory) return give_up(memory.error());
  auto cleared = done(::cudaMemsetAsync(*memory, 0, bytes, messages_), "clearing memory of the GPU");
  if (cleared) cleared = done(::cudaStreamSynchronize(messages_), "clearing memory of the GPU");
  if (!cleared) return give_up(cleared.error());
  return *memory;
}

void GpuBackend::free(std::byte* memory) {
  const OnDevice on_device{device_};
  // The memory may be used again at once. Without the lock: the watcher ends what would never end.
  ::cudaDeviceSynchronize();
  const std::lock_guard lock{mutex_};
  group_->free(memory);
}

// ---- Failing

/// Rule 2 of the class. The owner's thread. The other ranks are told first, so that they hear the reason before they
/// see that this rank's GPU does not go on.
Error GpuBackend::give_up(const Error& why) {
  const bool is_new = !failed_;
  if (is_new) {
    failed_ = why;
  } else if (!host_knows_) {
    // The watcher knows that the GPU waits in vain, but not why.
    if (const auto heard = hear_ranks(); !heard) failed_ = heard.error();
  }
  if (!std::exchange(host_knows_, true)) {
    host_.abort(*failed_);
    if (is_new) abort_group();
    running_.clear();
  }
  return *failed_;
}

void GpuBackend::abort_group() {
  if (group_ != nullptr) group_->abort();
  // Nothing on the GPU waits for other ranks any more. When operations and the copies of messages have ended, their
  // memory may be freed.
  for (const cudaStream_t each : {group_ == nullptr ? nullptr : group_->stream(), messages_}) {
    if (each != nullptr) ::cudaStreamSynchronize(each);
  }
}

void GpuBackend::fail(const Error& why) {
  const std::lock_guard lock{mutex_};
  give_up(why);
}

Result<void> GpuBackend::check() {
  const std::lock_guard lock{mutex_};
  if (failed_) return give_up(*failed_);
  return host_check();
}

std::optional<Error> GpuBackend::failure() {
  const std::lock_guard lock{mutex_};
  return failed_ ? failed_ : host_.failure();
}

// ---- Watching

/// Rule 3 of the class: what the backend's thread does. Between its looks the owner may call.
void GpuBackend::watch() {
  std::unique_lock lock{mutex_};
  const OnDevice on_device{device_};
  while (!ends_) {
    if (running_.empty() || failed_) {
      more_.wait(lock);
    } else if (more_.wait_for(lock, kLookTime) == std::cv_status::timeout && !ends_ && !failed_ && !running_.empty()) {
      failed_ = seen_from_aside();
      if (failed_) abort_group();
    }
  }
}

/// A failure that the owner would see, too, if it looked.
std::optional<Error> GpuBackend::seen_from_aside() {
  if (auto why = host_.failure()) return why;
  if (const auto settled = group_->is_settled(); !settled) return settled.error();
  const TimePoint now = std::chrono::steady_clock::now();
  for (const auto& each : running_) {
    if (each->is_message() || each->event == nullptr || now < deadline_of(*each, time_)) continue;
    const auto has_come = has_passed(each->event, to_string(each->operation));
    if (!has_come) return has_come.error();
    if (!*has_come) return overdue(each->operation);
  }
  return std::nullopt;
}

namespace {

Communicator untyped_on_gpu(Communicator& ranks, int device, const CommunicatorOptions& options) {
  auto backend = GpuBackend::make(ranks, device, options);
  if (!backend) throw_error(backend.error());
  return Communicator{std::make_shared<detail::Core>(*std::move(backend), options)};
}

/// Memory of the host that is pinned for the GPU is memory of the host, too.
bool is_of_gpu(const void* address) {
  cudaPointerAttributes attributes{};
  if (::cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    ::cudaGetLastError();  // CUDA would tell it again
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

[[maybe_unused]] const bool is_registered =
    (detail::register_on_gpu(&untyped_on_gpu), detail::register_is_of_gpu(&is_of_gpu), true);

}  // namespace

GpuCommunicator on_gpu(Communicator& ranks, int device, const CommunicatorOptions& options) {
  return GpuCommunicator{untyped_on_gpu(ranks, device, options)};
}

}  // namespace pharos::ml
