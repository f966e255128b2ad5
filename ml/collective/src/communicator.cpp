#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/collective/core.hpp>
#include <pharos/ml/collective/gpu_addresses.hpp>
#include <pharos/ml/communicator.hpp>

#include "shared/meeting.hpp"
#include "shared/shared_backend.hpp"

namespace pharos::ml {

using Kind = Operation::Kind;

namespace detail {
namespace {

constexpr Duration kLookTime = std::chrono::milliseconds{100};

std::atomic<OnGpu> on_gpu_registered{nullptr};
std::atomic<StreamOfWork> stream_registered{nullptr};

}  // namespace

void register_on_gpu(OnGpu make) {
  on_gpu_registered = make;
}
OnGpu registered_on_gpu() {
  return on_gpu_registered;
}

void register_stream_of_work(StreamOfWork stream) {
  stream_registered = stream;
}
void* stream_of_work(int device) {
  const StreamOfWork stream = stream_registered;
  return stream == nullptr ? nullptr : stream(device);
}

Communicator over_gpu(Communicator& ranks, int device, OnGpu make) {
  // One rank may still use a copy when another one uses none any more.
  auto made = ranks.core_->over_gpu(device);
  std::uint8_t all_have_it = made == nullptr ? 0 : 1;
  ranks.all_reduce(std::span{&all_have_it, 1}, Reduction::kMin);
  if (all_have_it != 0) return Communicator{std::move(made)};
  Communicator gpus = make(ranks, device, ranks.core_->options());
  ranks.core_->set_over_gpu(device, gpus.core_);
  return gpus;
}

std::shared_ptr<Work> Core::begin(const Operation& operation, const Places& places) {
  if (recent_.size() == kRecent) recent_.pop_front();
  // This may throw, so it comes before the backend's begin(): an operation that has begun uses the caller's memory, and
  // the caller must get a Pending to wait for its end.
  recent_.push_back({last_ + 1, operation, std::chrono::steady_clock::now(), {}});
  std::shared_ptr<Work> work;
  try {
    work = backend_->begin(operation, places);
  } catch (...) {
    recent_.pop_back();
    throw;
  }
  work->number = ++last_;
  work->began = recent_.back().began;
  return work;
}

bool Core::advance(Work& work) {
  const auto done = backend_->advance(work);
  if (!done) throw_error(done.error());
  if (*done) {
    note_end(work);
  } else {
    look_after(work);
  }
  return *done;
}

/// Throws what a wait for the operation would throw at this moment: a failure, a dead rank, or the timeout.
void Core::look_after(Work& work) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLookTime;
  auto well = backend_->check();
  if (well && now - work.began >= options_.timeout) well = backend_->finish(work, Duration::zero());
  if (!well) throw_error(well.error());
}

void Core::finish(Work& work) {
  const auto done = backend_->finish(work, options_.timeout);
  if (!done) throw_error(done.error());
  note_end(work);
}

void Core::join(Work& work) {
  const auto joined = backend_->join(work, options_.timeout);
  if (!joined) throw_error(joined.error());
  note_end(work);
}

void Core::let_end(Work& work) {
  if (backend_->finish(work, options_.timeout)) note_end(work);
}

void Core::note_end(const Work& work) {
  const std::uint64_t first = recent_.front().number;
  if (work.number >= first) recent_[work.number - first].ended = std::chrono::steady_clock::now();
}

std::string Core::recent_operations() const {
  std::string text;
  for (const Noted& each : recent_) {
    char time[64] = "under way";
    if (each.ended != TimePoint{}) {
      const std::chrono::duration<double, std::micro> took = each.ended - each.began;
      std::snprintf(time, sizeof time, "%.1f us", took.count());
    }
    text += std::to_string(each.number) + ' ' + to_string(each.operation) + ' ' + time + '\n';
  }
  return text;
}

void free_shared(Core& core, void* memory) {
  core.backend().free(static_cast<std::byte*>(memory));
}

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw_error(Error{ErrorCode::kInvalidArgument, what, remedy});
}

}  // namespace
}  // namespace detail

// ---- Pending

Pending::~Pending() {
  if (work_ == nullptr) return;
  // The caller may free the operation's memory next, while other ranks still write to it. An error can be dropped here,
  // because the communicator's next operation throws it.
  core_->let_end(*work_);
}

bool Pending::done() {
  if (work_ != nullptr && core_->advance(*work_)) work_.reset();
  return work_ == nullptr;
}

void Pending::wait() {
  if (const auto work = std::exchange(work_, nullptr)) core_->finish(*work);
}

void Pending::join() {
  if (const auto work = std::exchange(work_, nullptr)) core_->join(*work);
}

// ---- Ranks that are threads

Communicator::Threads::Threads(std::uint32_t ranks, const CommunicatorOptions& options)
    : options_{options}, ranks_{ranks} {
  if (ranks == 0 || ranks > Meeting::kRanksMax) {
    detail::refuse("a group cannot have " + std::to_string(ranks) + " ranks",
                   "Give between 1 and " + std::to_string(Meeting::kRanksMax) + '.');
  }
  auto meeting = Mapping::of(-1, Meeting::bytes_for(ranks));
  if (!meeting) throw_error(std::move(meeting).error());
  memory_ = std::make_shared<ThreadMemory>(*std::move(meeting));
}

Communicator::Threads::~Threads() = default;

Communicator Communicator::Threads::join(std::uint32_t rank) {
  if (rank >= ranks_) detail::refuse("there is no rank " + std::to_string(rank), "Ranks begin with 0.");
  auto backend = SharedBackend::make(memory_, rank, ranks_, options_.timeout);
  if (!backend) throw_error(std::move(backend).error());
  return Communicator{std::make_shared<detail::Core>(*std::move(backend), options_)};
}

Communicator Communicator::alone() {
  return Threads{1}.join(0);
}

// ---- Communicator

std::uint32_t Communicator::rank() const {
  return core_->backend().rank();
}
std::uint32_t Communicator::size() const {
  return core_->backend().ranks();
}
bool Communicator::shares_memory() const {
  return core_->backend().shares_memory();
}
Duration Communicator::timeout() const {
  return core_->timeout();
}
bool Communicator::is_on_gpu() const {
  return core_->backend().is_on_gpu();
}
std::optional<Error> Communicator::failure() const {
  return core_->backend().failure();
}
std::uint64_t Communicator::bytes_sent() const {
  return core_->backend().bytes_sent();
}

namespace {

std::size_t elements_in(DType dtype, std::span<const std::byte> data) {
  if (data.size() % size_of(dtype) != 0) {
    detail::refuse(
        std::to_string(data.size()) + " bytes are not a whole number of elements of " + std::string{to_string(dtype)},
        "Give a multiple of " + std::to_string(size_of(dtype)) + '.');
  }
  return data.size() / size_of(dtype);
}

void check_reduction(DType dtype, Reduction reduction) {
  if (reduction != Reduction::kMean || is_real(dtype)) return;
  detail::refuse("Reduction::kMean is not defined for elements of type " + std::string{to_string(dtype)},
                 "Reduce floats, or reduce with Reduction::kSum and divide the sum.");
}

/// `name` is that of an argument, such as "`from` of all_gather()".
void check_memory(const detail::Core& core, std::span<const std::byte> data, const char* name) {
  const bool is_on_gpu = core.backend().is_on_gpu();
  if (data.empty() || detail::is_of_gpu(data.data()) == is_on_gpu) return;
  std::array<char, 20> address{};
  std::snprintf(address.data(), address.size(), "%p", static_cast<const void*>(data.data()));
  const std::string what =
      std::string{name} + ", " + std::to_string(data.size()) + " bytes at " + address.data() + ", is in the memory of ";
  if (is_on_gpu) {
    detail::refuse(what + "the host, and the data of these ranks is in the memory of GPUs",
                   "Pass memory of the GPU, such as that of a tensor there or of allocate(); or use the communicator "
                   "from which this one was made.");
  }
  detail::refuse(
      what + "a GPU, and the data of these ranks is in the memory of the host",
      "Use the communicator that on_gpu() or communicator_on() returns, or copy the data to the host first.");
}

void check_pieces(std::size_t from, std::size_t to, std::uint32_t ranks) {
  if (from == to * ranks) return;
  detail::refuse("reduce_scatter() cannot go from " + std::to_string(from) + " elements to " + std::to_string(to) +
                     " with " + std::to_string(ranks) + " ranks",
                 "`from` must have size() times as many elements as `to`.");
}

}  // namespace

Pending Communicator::begin_all_reduce(DType dtype, std::span<std::byte> data, Reduction reduction) {
  check_reduction(dtype, reduction);
  check_memory(*core_, data, "`data` of all_reduce()");
  const std::size_t count = elements_in(dtype, data);
  const Operation operation{.kind = Kind::kAllReduce, .dtype = dtype, .reduction = reduction, .count = count};
  return {core_, core_->begin(operation, {data.data(), data.data()})};
}

Pending Communicator::begin_reduce_scatter(DType dtype, std::span<const std::byte> from, std::span<std::byte> to,
                                           Reduction reduction) {
  check_reduction(dtype, reduction);
  check_memory(*core_, from, "`from` of reduce_scatter()");
  check_memory(*core_, to, "`to` of reduce_scatter()");
  const std::size_t count = elements_in(dtype, from);
  check_pieces(count, elements_in(dtype, to), size());
  const Operation operation{.kind = Kind::kReduceScatter, .dtype = dtype, .reduction = reduction, .count = count};
  return {core_, core_->begin(operation, {from.data(), to.data()})};
}

Pending Communicator::begin_reduce_scatter(DType dtype, std::span<std::byte> from, std::span<const Elsewhere> own,
                                           std::span<std::byte> to, Reduction reduction) {
  check_reduction(dtype, reduction);
  check_memory(*core_, from, "`from` of reduce_scatter()");
  check_memory(*core_, to, "`to` of reduce_scatter()");
  const std::size_t count = elements_in(dtype, from);
  check_pieces(count, elements_in(dtype, to), size());
  std::size_t end = 0;
  for (const Elsewhere& each : own) {
    if (each.begin < end || each.begin > to.size() || each.bytes.size() > to.size() - each.begin) {
      detail::refuse("in a piece of " + std::to_string(to.size()) + " bytes, a part of " +
                         std::to_string(each.bytes.size()) + " bytes at offset " + std::to_string(each.begin) +
                         " lies outside of the piece or overlaps the part before",
                     "Give parts inside of the piece, in the order of their offsets, without overlaps.");
    }
    static_cast<void>(elements_in(dtype, to.first(each.begin)));
    static_cast<void>(elements_in(dtype, each.bytes));
    end = each.begin + each.bytes.size();
  }
  if (!core_->backend().works_on(from)) {
    std::byte* const piece = from.data() + rank() * to.size();
    for (const Elsewhere& each : own) std::ranges::copy(each.bytes, piece + each.begin);
    own = {};
  }
  const Operation operation{.kind = Kind::kReduceScatter, .dtype = dtype, .reduction = reduction, .count = count};
  return {core_, core_->begin(operation, {from.data(), to.data(), own})};
}

Pending Communicator::begin_all_gather(DType dtype, std::span<const std::byte> from, std::span<std::byte> to) {
  check_memory(*core_, from, "`from` of all_gather()");
  check_memory(*core_, to, "`to` of all_gather()");
  const std::size_t from_count = elements_in(dtype, from);
  const std::size_t to_count = elements_in(dtype, to);
  if (to_count != from_count * size()) {
    detail::refuse("all_gather() cannot go from " + std::to_string(from_count) + " elements to " +
                       std::to_string(to_count) + " with " + std::to_string(size()) + " ranks",
                   "`to` must have size() times as many elements as `from`.");
  }
  const Operation operation{.kind = Kind::kAllGather, .dtype = dtype, .count = from_count};
  return {core_, core_->begin(operation, {from.data(), to.data()})};
}

Pending Communicator::begin_broadcast(DType dtype, std::span<std::byte> data, std::uint32_t root) {
  if (root >= size()) detail::refuse("there is no rank " + std::to_string(root), "Ranks begin with 0.");
  check_memory(*core_, data, "`data` of broadcast()");
  const Operation operation{.kind = Kind::kBroadcast,
                            .dtype = dtype,
                            .root = static_cast<std::uint16_t>(root),
                            .count = elements_in(dtype, data)};
  return {core_, core_->begin(operation, {data.data(), data.data()})};
}

Pending Communicator::begin_all_to_all(DType dtype, std::span<const std::byte> from, std::span<std::byte> to) {
  check_memory(*core_, from, "`from` of all_to_all()");
  check_memory(*core_, to, "`to` of all_to_all()");
  const std::size_t from_count = elements_in(dtype, from);
  const std::size_t to_count = elements_in(dtype, to);
  if (to_count != from_count || from_count % size() != 0) {
    detail::refuse("all_to_all() cannot go from " + std::to_string(from_count) + " elements to " +
                       std::to_string(to_count) + " with " + std::to_string(size()) + " ranks",
                   "`from` and `to` must have the same number of elements, a multiple of size().");
  }
  const std::byte* const to_end = to.data() + to.size();
  if (std::less{}(from.data(), to_end) &&
      std::less{}(static_cast<const std::byte*>(to.data()), from.data() + from.size())) {
    detail::refuse("`from` and `to` of all_to_all() overlap", "Give separate memory for `to`.");
  }
  const Operation operation{.kind = Kind::kAllToAll, .dtype = dtype, .count = from_count};
  return {core_, core_->begin(operation, {from.data(), to.data()})};
}

namespace {

Operation message(DType dtype, std::uint32_t from, std::uint32_t to, std::size_t count) {
  return {.kind = Kind::kMessage,
          .dtype = dtype,
          .root = static_cast<std::uint16_t>(from),
          .to = static_cast<std::uint16_t>(to),
          .count = count};
}

void check_other(std::uint32_t other, std::uint32_t rank, std::uint32_t ranks) {
  if (other < ranks && other != rank) return;
  detail::refuse("rank " + std::to_string(rank) + " cannot exchange messages with rank " + std::to_string(other),
                 "Give another rank, below size().");
}

}  // namespace

Pending Communicator::begin_send(DType dtype, std::span<const std::byte> data, std::uint32_t to) {
  check_other(to, rank(), size());
  check_memory(*core_, data, "`data` of send()");
  return {core_, core_->begin(message(dtype, rank(), to, elements_in(dtype, data)), {.from = data.data()})};
}
Pending Communicator::begin_receive(DType dtype, std::span<std::byte> data, std::uint32_t from) {
  check_other(from, rank(), size());
  check_memory(*core_, data, "`data` of receive()");
  return {core_, core_->begin(message(dtype, from, rank(), elements_in(dtype, data)), {.to = data.data()})};
}

void Communicator::barrier() {
  Pending{core_, core_->begin({.kind = Kind::kBarrier}, {})}.wait();
}

namespace {

std::size_t bytes_for(std::size_t elements, std::size_t size) {
  // Backends add to the size, up to some pages, and their sums must not overflow.
  constexpr std::size_t kBytesMax = std::size_t{1} << 56;
  if (elements > kBytesMax / size) {
    throw_error(Error{ErrorCode::kExhausted, "cannot allocate " + std::to_string(elements) + " elements of " +
                                                 std::to_string(size) + " bytes: the limit is 2^56 bytes"});
  }
  return elements * size;
}

}  // namespace

void* Communicator::allocate_bytes(std::size_t elements, std::size_t size, Whose whose) {
  const std::size_t bytes = bytes_for(elements, size);
  detail::Backend& backend = core_->backend();
  const auto memory = whose == Whose::kOwn ? backend.allocate(bytes, core_->timeout())
                                           : backend.allocate_for_all(bytes, core_->timeout());
  if (!memory) throw_error(memory.error());
  return *memory;
}

void Communicator::check() {
  const auto all_well = core_->backend().check();
  if (!all_well) throw_error(all_well.error());
}

void Communicator::abort(const std::string& why) {
  core_->backend().fail(Error{ErrorCode::kCancelled, "rank " + std::to_string(rank()) + " has given up: " + why});
}

void Communicator::abort(const Error& why) {
  core_->backend().fail(why);
}

std::string Communicator::recent_operations() const {
  return core_->recent_operations();
}

}  // namespace pharos::ml
