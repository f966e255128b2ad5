#include "stream/stream_plan.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "reduce/kernels.hpp"

namespace pharos::ml {
namespace {

using Kind = Operation::Kind;

constexpr std::size_t kWholeMax = 16 << 10;  // bytes; larger data goes by parts
constexpr std::size_t kChunkBytes = 512 << 10;
constexpr std::uint32_t kResult = std::uint32_t{1} << 31;  // in a tag: the chunk is a result

}  // namespace

StreamPlan::StreamPlan(const Operation& operation, const detail::Places& places, std::uint32_t rank,
                       std::uint32_t ranks, ScratchBuffers& buffers)
    : operation_{operation},
      places_{places},
      rank_{rank},
      ranks_{ranks},
      buffers_{buffers},
      element_{size_of(operation.dtype)},
      bytes_{operation.count * element_},
      begun_(ranks),
      due_(ranks),
      unheard_(ranks),
      left_from_(ranks),
      begun_left_{operation.kind == Kind::kMessage ? 1 : ranks - 1} {
  begun_[rank_] = true;
  for (std::uint32_t each = 0; operation.kind == Kind::kMessage && each < ranks; ++each) {
    begun_[each] = each == rank_ || (each != operation.root && each != operation.to);
  }
  if (operation.count != 0) begin();
}

StreamPlan::~StreamPlan() {
  buffers_.give_back(std::move(buffer_));
}

void StreamPlan::begin() {
  switch (operation_.kind) {
    case Kind::kBarrier:
    case Kind::kAllocate:
    case Kind::kAllocateForAll: return;
    case Kind::kAllGather: return begin_whole();
    case Kind::kAllToAll: return begin_own();
    case Kind::kMessage: return begin_message();
    case Kind::kReduceScatter: return begin_parts();
    case Kind::kAllReduce:
    case Kind::kBroadcast: return bytes_ <= kWholeMax || ranks_ == 1 ? begin_whole() : begin_parts();
  }
}

bool StreamPlan::gives(std::uint32_t from, std::uint32_t to) const {
  return from != to && (operation_.kind != Kind::kBroadcast || from == operation_.root);
}
bool StreamPlan::reduces() const {
  return operation_.kind == Kind::kAllReduce || operation_.kind == Kind::kReduceScatter;
}
bool StreamPlan::passes_on() const {
  return way_ == Way::kParts && operation_.kind != Kind::kReduceScatter;
}
/// Returns whether this rank needs the result of `rank`. In a broadcast the root has all data already.
bool StreamPlan::takes_from(std::uint32_t rank) const {
  return rank != rank_ && (operation_.kind != Kind::kBroadcast || rank_ != operation_.root);
}

void StreamPlan::begin_whole() {
  way_ = Way::kWhole;
  if (reduces()) buffer_ = buffers_.take(bytes_ * ranks_);
  for (std::uint32_t other = 0; other < ranks_; ++other) {
    if (gives(rank_, other)) add({other, 0, places_.from, bytes_}, {});
    if (gives(other, rank_)) expect(other, 1);
  }
  finish_whole_if_all();
}

void StreamPlan::begin_own() {
  way_ = Way::kOwn;
  const std::size_t own = bytes_ / ranks_;
  std::memcpy(places_.to + rank_ * own, places_.from + rank_ * own, own);
  for (std::uint32_t other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    add({other, 0, places_.from + other * own, own}, {});
    expect(other, 1);
  }
}

void StreamPlan::begin_parts() {
  way_ = Way::kParts;
  if (reduces()) buffer_ = buffers_.take(part_of(rank_).size * ranks_);
  std::uint32_t givers = 0;
  for (std::uint32_t other = 0; other < ranks_; ++other) {
    for (std::uint32_t chunk = 0; gives(rank_, other) && chunk < chunks_of(other); ++chunk) {
      const Part part = chunk_of(other, chunk);
      add({other, chunk, places_.from + part.begin, part.size}, {});
    }
    if (gives(other, rank_)) {
      expect(other, chunks_of(rank_));
      ++givers;
    }
    if (passes_on() && takes_from(other)) expect_results(other, chunks_of(other));
  }
  chunk_left_.assign(chunks_of(rank_), givers);
  if (givers != 0) return;
  for (std::uint32_t chunk = 0; chunk < chunks_of(rank_); ++chunk) finish_chunk(chunk, {});
}

void StreamPlan::begin_message() {
  way_ = Way::kMessage;
  const auto chunks = static_cast<std::uint32_t>((bytes_ + kChunkBytes - 1) / kChunkBytes);
  if (operation_.root != rank_) return expect(operation_.root, chunks);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t begin = chunk * kChunkBytes;
    add({operation_.to, chunk, places_.from + begin, std::min(kChunkBytes, bytes_ - begin)}, {});
  }
}

// ---- Parts and chunks

Part StreamPlan::part_of(std::uint32_t rank) const {
  if (operation_.kind == Kind::kReduceScatter) return {rank * (bytes_ / ranks_), bytes_ / ranks_};
  return ml::part_of(bytes_, rank, ranks_);
}

std::uint32_t StreamPlan::chunks_of(std::uint32_t rank) const {
  return static_cast<std::uint32_t>((part_of(rank).size + kChunkBytes - 1) / kChunkBytes);
}

Part StreamPlan::chunk_of(std::uint32_t rank, std::uint32_t chunk) const {
  const Part part = part_of(rank);
  const std::size_t begin = chunk * kChunkBytes;
  return {part.begin + begin, std::min(kChunkBytes, part.size - begin)};
}

// ---- Sending

void StreamPlan::add(const Chunk& chunk, const Send& send) {
  if (chunk.size == 0) return;
  ++sends_left_;
  if (begun_[chunk.rank] && send) return send(chunk);
  due_[chunk.rank].push_back(chunk);
}

void StreamPlan::begun_by(std::uint32_t rank, const Send& send) {
  begun_[rank] = true;
  --begun_left_;
  for (const Chunk& chunk : std::exchange(due_[rank], {})) send(chunk);
}

// ---- Receiving

void StreamPlan::expect(std::uint32_t from, std::uint64_t chunks) {
  unheard_[from].own += chunks;
  left_from_[from].own += chunks;
  expect_results(from, chunks);
}
void StreamPlan::expect_results(std::uint32_t from, std::uint64_t chunks) {
  unheard_[from].all += chunks;
  left_from_[from].all += chunks;
  receives_left_ += chunks;
}

bool StreamPlan::is_result(std::uint32_t tag) const {
  return way_ == Way::kParts && (tag & kResult) != 0;
}

// No more chunks than expected are accepted: when those have come, the caller may free the memory.
std::byte* StreamPlan::place(std::uint32_t from, std::uint32_t tag, std::size_t size) {
  Chunks& unheard = unheard_[from];
  const bool is_own = !is_result(tag);
  if (unheard.all == 0 || (is_own && unheard.own == 0)) return nullptr;
  std::byte* const place = place_of(from, tag, size);
  if (place == nullptr) return nullptr;
  --unheard.all;
  if (is_own) --unheard.own;
  return place;
}

std::byte* StreamPlan::place_of(std::uint32_t from, std::uint32_t tag, std::size_t size) const {
  if (way_ == Way::kWhole || way_ == Way::kOwn) {
    const std::size_t each = way_ == Way::kOwn ? bytes_ / ranks_ : bytes_;
    if (tag != 0 || size != each) return nullptr;
    if (operation_.kind == Kind::kBroadcast) return places_.to;
    return (reduces() ? buffer_.data() : places_.to) + from * each;
  }
  if (way_ == Way::kMessage) {
    const std::size_t begin = tag * kChunkBytes;
    const bool fits = begin < bytes_ && size == std::min(kChunkBytes, bytes_ - begin);
    return fits ? places_.to + begin : nullptr;
  }
  const std::uint32_t chunk = tag & ~kResult;
  const std::uint32_t whose = is_result(tag) ? from : rank_;
  if (chunk >= chunks_of(whose)) return nullptr;
  const Part part = chunk_of(whose, chunk);
  if (part.size != size) return nullptr;
  if (is_result(tag)) return passes_on() && takes_from(from) ? places_.to + part.begin : nullptr;
  if (!gives(from, rank_) || chunk_left_[chunk] == 0) return nullptr;
  if (!reduces()) return places_.to + part.begin;
  return buffer_.data() + from * part_of(rank_).size + chunk * kChunkBytes;
}

void StreamPlan::came(std::uint32_t from, std::uint32_t tag, const Send& send) {
  const bool is_own = !is_result(tag);
  if (is_own) --left_from_[from].own;
  --left_from_[from].all;
  --receives_left_;
  finish_whole_if_all();
  if (way_ == Way::kParts && is_own && --chunk_left_[tag] == 0) finish_chunk(tag, send);
}

void StreamPlan::sent() {
  --sends_left_;
  finish_whole_if_all();
}

/// Waits for all sends, too, because the result may overwrite the data that is being sent.
void StreamPlan::finish_whole_if_all() {
  if (way_ != Way::kWhole || receives_left_ != 0 || sends_left_ != 0) return;
  if (operation_.kind == Kind::kAllGather) {
    std::byte* const own = places_.to + rank_ * bytes_;
    if (own != places_.from) std::memcpy(own, places_.from, bytes_);
  }
  if (operation_.kind != Kind::kAllReduce) return;
  std::vector<const std::byte*> from;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    from.push_back(rank == rank_ ? places_.from : buffer_.data() + rank * bytes_);
  }
  reduce(operation_.dtype, operation_.reduction, from, {&places_.to, 1}, operation_.count);
}

/// Called when all ranks have sent their data for this chunk: reduces it, and sends the result to the ranks that need
/// it.
void StreamPlan::finish_chunk(std::uint32_t chunk, const Send& send) {
  const Part part = chunk_of(rank_, chunk);
  std::byte* const to = places_.to + (operation_.kind == Kind::kReduceScatter ? chunk * kChunkBytes : part.begin);
  if (reduces()) {
    std::vector<const std::byte*> from;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      from.push_back(rank == rank_ ? places_.from + part.begin
                                   : buffer_.data() + rank * part_of(rank_).size + chunk * kChunkBytes);
    }
    reduce(operation_.dtype, operation_.reduction, from, {&to, 1}, part.size / element_);
  }
  if (!passes_on()) return;
  for (std::uint32_t other = 0; other < ranks_; ++other) {
    const bool needs_it = other != rank_ && (operation_.kind != Kind::kBroadcast || other != operation_.root);
    if (needs_it) add({other, chunk | kResult, to, part.size}, send);
  }
}

// A rank that has begun sends its own data without waiting for others, so if such data is missing, that rank is named
// first. A rank that has not begun may still be in an earlier operation. A rank from which only results are missing may
// wait for data of others, and is named last.
std::optional<std::uint32_t> StreamPlan::missing() const {
  const auto first = [&](const auto& is_missing) -> std::optional<std::uint32_t> {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (is_missing(rank)) return rank;
    }
    return std::nullopt;
  };
  if (const auto rank = first([&](std::uint32_t each) { return begun_[each] && left_from_[each].own != 0; }))
    return rank;
  if (const auto rank = first([&](std::uint32_t each) { return !begun_[each]; })) return rank;
  return first([&](std::uint32_t each) { return left_from_[each].all != 0; });
}

}  // namespace pharos::ml
