#include "peers/peer_group.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/ml/nccl/failpoints.hpp>

#include "cuda_calls.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Kind = Operation::Kind;

constexpr std::size_t kBufferMin = std::size_t{2} << 20;
constexpr std::size_t kBufferMax = std::size_t{32} << 20;
constexpr std::size_t kBuffersInMemory = 256;  // a buffer takes at most such a part of a GPU's memory
constexpr std::size_t kAlignment = 64;
constexpr Duration kHostNoticesIn = 100ms;  // for the host to notice what a rank has noticed
constexpr Duration kTimeOfOthers = 100ms;   // for what other GPUs are at to end
constexpr Duration kShortPause = 50us;

std::uint64_t what_of(const Operation& operation) {
  return std::uint64_t{1} << 63 |  // not 0, which is nobody's operation
         static_cast<std::uint64_t>(operation.kind) << 48 | static_cast<std::uint64_t>(operation.dtype) << 40 |
         static_cast<std::uint64_t>(operation.reduction) << 32 | std::uint64_t{operation.root} << 16 | operation.to;
}

/// Whether the data of a rank has a piece for each rank.
bool is_divided(const Operation& operation) {
  return operation.kind == Kind::kReduceScatter || operation.kind == Kind::kAllToAll;
}

}  // namespace

/// A part of an operation that is one round: bytes from `begin` of each piece of the data.
struct PeerGroup::Part {
  const Operation& operation;
  const detail::Places& places;
  const std::optional<PeerMemory::Addresses>& seen;  // where the ranks see places.from
  std::size_t pieces = 1;
  std::size_t piece = 0;  // bytes
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

PeerGroup::~PeerGroup() {
  if (stream_ == nullptr) return;
  if (!ends_ || !is_idle()) abort();
  ::cudaStreamDestroy(stream_);
}

// ---- Making

Result<bool> PeerGroup::all_can(const Result<void>& this_one) {
  std::int32_t lacks = this_one ? 0 : 1;
  PHAROS_TRY_VOID(tried([&] { host_.all_reduce(std::span{&lacks, 1}, Reduction::kMax); }));
  return lacks == 0;
}

Result<PeerGroup::Reach> PeerGroup::begin() {
  PHAROS_TRY_VOID(make_stream(stream_));
  if (ranks() == 1) return Reach::kDirect;
  failpoint(failpoints::kGpuGroupBegun);
  auto lines = PeerLines::make(host_);
  Result<void> well = lines ? can_wait_for_numbers() : lines.error();
  PHAROS_TRY(const bool can, all_can(well));
  if (!can) return Reach::kNone;
  lines_.emplace(*std::move(lines));
  PHAROS_TRY_VOID(choose_buffer_size());
  return begin_buffers();
}

Result<void> PeerGroup::choose_buffer_size() {
  std::size_t free = 0;
  std::size_t all = 0;
  PHAROS_TRY_VOID(done(::cudaMemGetInfo(&free, &all), "asking for the GPU's memory"));
  auto bytes = static_cast<std::int64_t>(std::clamp(all / kBuffersInMemory, kBufferMin, kBufferMax));
  PHAROS_TRY_VOID(tried([&] { host_.all_reduce(std::span{&bytes, 1}, Reduction::kMin); }));
  buffer_bytes_ = static_cast<std::size_t>(bytes);
  return {};
}

Result<PeerGroup::Reach> PeerGroup::begin_buffers() {
  PHAROS_TRY(const std::byte* const buffer, shared_.try_allocate(buffer_bytes_));
  if (buffer == nullptr) return begin_buffers_on_host();
  buffer_ = *shared_.find(buffer, buffer_bytes_);
  shares_ = true;
  return Reach::kDirect;
}

Result<PeerGroup::Reach> PeerGroup::begin_buffers_on_host() {
  auto pages = HostPages::make(host_, buffer_bytes_ * ranks());
  PHAROS_TRY(const bool can, all_can(pages ? Result<void>{} : pages.error()));
  if (!can) return Reach::kNone;
  pages_.emplace(*std::move(pages));
  const auto own = reinterpret_cast<std::int64_t>(pages_->for_gpu());
  std::vector<std::int64_t> all(ranks());
  PHAROS_TRY_VOID(tried([&] { host_.all_gather(std::span{&own, 1}, std::span{all}); }));
  for (const std::int64_t each : all) buffer_.push_back(reinterpret_cast<std::byte*>(each) + buffer_bytes_ * rank());
  return Reach::kHost;
}

// ---- Operations

Result<void> PeerGroup::give(const Operation& operation, const detail::Places& places) {
  const std::size_t pieces = is_divided(operation) ? ranks() : 1;
  const std::size_t bytes = operation.count * size_of(operation.dtype);
  if (ranks() == 1) {
    if (places.from == places.to) return {};
    return done(::cudaMemcpyAsync(places.to, places.from, bytes, cudaMemcpyDeviceToDevice, stream_),
                to_string(operation));
  }
  // Each rank makes the same parts, also one whose own data needs no buffer.
  const std::size_t step = buffer_bytes_ / pieces / kAlignment * kAlignment;
  const auto seen = shared_.find(places.from, bytes);
  Part part{.operation = operation, .places = places, .seen = seen, .pieces = pieces, .piece = bytes / pieces};
  for (; part.begin < part.piece; part.begin += step) {
    part.bytes = std::min(step, part.piece - part.begin);
    PHAROS_TRY_VOID(give_part(part));
  }
  return {};
}

Result<void> PeerGroup::give_part(const Part& part) {
  ++round_;
  const PeerRound round{.lines = lines_->for_gpu(),
                        .ended = lines_->ended_for_gpu(),
                        .rank = rank(),
                        .ranks = ranks(),
                        .number = round_,
                        .what = what_of(part.operation),
                        .elements = part.operation.count};
  PHAROS_TRY(const PeerPlace place, place_of(part));
  const std::string what = to_string(part.operation);
  PHAROS_TRY_VOID(done(tell_here(round, place, stream_), what));
  PHAROS_TRY_VOID(wait_for_all(&PeerLines::here_for_gpu));
  PHAROS_TRY_VOID(work_on(part, round));
  PHAROS_TRY_VOID(done(tell_done(round, stream_), what));
  PHAROS_TRY_VOID(wait_for_all(&PeerLines::done_for_gpu));
  if (part.operation.kind != Kind::kAllReduce || part.seen) return {};
  return done(::cudaMemcpyAsync(part.places.to + part.begin, buffer_[rank()], part.bytes, cudaMemcpyDefault, stream_),
              what);
}

/// Where the other ranks find this rank's data: if they do not see it where it is, it is copied to the buffer.
Result<PeerPlace> PeerGroup::place_of(const Part& part) {
  PeerPlace place{};
  if (part.operation.kind == Kind::kBroadcast && part.operation.root != rank()) return place;
  place.stride = part.seen ? part.piece : part.bytes;
  for (std::uint32_t reader = 0; reader < ranks(); ++reader) {
    place.at[reader] = reinterpret_cast<std::uint64_t>(part.seen ? (*part.seen)[reader] + part.begin : buffer_[reader]);
  }
  if (part.seen) return place;
  for (std::size_t k = 0; k < part.pieces; ++k) {
    PHAROS_TRY_VOID(
        done(::cudaMemcpyAsync(buffer_[rank()] + k * part.bytes, part.places.from + k * part.piece + part.begin,
                               part.bytes, cudaMemcpyDefault, stream_),
             to_string(part.operation)));
  }
  return place;
}

/// This rank's share of the work on all ranks' data.
Result<void> PeerGroup::work_on(const Part& part, const PeerRound& round) {
  const Operation& operation = part.operation;
  const std::size_t size = size_of(operation.dtype);
  std::byte* const to = part.places.to + part.begin;
  PeerReduction reduction{.dtype = operation.dtype, .reduction = operation.reduction};
  PeerCopy copy{.first = 0, .last = ranks(), .bytes = part.bytes, .to = to, .to_stride = part.piece};
  switch (operation.kind) {
    case Kind::kAllReduce: {
      const ml::Part share = part_of(part.bytes, rank(), ranks());
      reduction.offset = share.begin;
      reduction.elements = share.size / size;
      break;
    }
    case Kind::kReduceScatter:
      reduction.piece = rank();
      reduction.elements = part.bytes / size;
      reduction.to = to;
      break;
    case Kind::kAllGather: break;
    case Kind::kAllToAll: copy.piece = rank(); break;
    case Kind::kBroadcast:
      if (operation.root == rank()) return {};
      copy.first = operation.root;
      copy.last = copy.first + 1;
      break;
    case Kind::kBarrier:
    case Kind::kMessage:
    case Kind::kAllocate:
    case Kind::kAllocateForAll: return {};
  }
  const bool reduces = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduceScatter;
  if (reduces && reduction.elements == 0) return {};
  return done(reduces ? reduce_peers(round, reduction, stream_) : copy_peers(round, copy, stream_),
              to_string(operation));
}

Result<void> PeerGroup::wait_for_all(const std::uint32_t* (PeerLines::*number)(std::uint32_t writer) const) {
  for (std::uint32_t other = 0; other < ranks(); ++other) {
    if (other != rank()) PHAROS_TRY_VOID(wait_for_number(stream_, ((*lines_).*number)(other), round_));
  }
  return {};
}

Result<bool> PeerGroup::is_settled() {
  const cudaError_t state = ::cudaStreamQuery(stream_);
  if (state != cudaErrorNotReady) PHAROS_TRY_VOID(done(state, "operations on the GPU"));
  if (!lines_) return !ends_ || is_idle();
  if (const auto other = lines_->other_that_ended()) {
    for (const Deadline soon = Deadline::in(kHostNoticesIn); !soon.expired(std::chrono::steady_clock::now());) {
      if (const auto why = host_.failure()) return *why;
      std::this_thread::sleep_for(kShortPause);
    }
    return Error{ErrorCode::kUnavailable, "rank " + std::to_string(*other) + " has given up",
                 "The error of that rank says why."};
  }
  if (!ends_) return true;
  if (!is_idle()) return false;
  shared_.forget_others();
  lines_->leave();
  return lines_->have_all_left();
}

// ---- Ending

Result<void> PeerGroup::begin_end() {
  ends_ = true;
  return {};
}

void PeerGroup::end() {}

void PeerGroup::abort() {
  if (std::exchange(has_ended_, true) || !lines_) return;
  for (lines_->end(round_); !is_idle(); lines_->end(round_)) std::this_thread::sleep_for(kShortPause);
  lines_->withdraw();
  // A GPU that is at work on this rank's data has it for a moment; one whose rank was killed never says that it is
  // done.
  const Deadline enough = Deadline::in(kTimeOfOthers);
  for (std::uint32_t other = 0; other < ranks(); ++other) {
    while (other != rank() && lines_->is_at_work(other) && !enough.expired(std::chrono::steady_clock::now())) {
      std::this_thread::sleep_for(kShortPause);
    }
  }
}

}  // namespace pharos::ml
