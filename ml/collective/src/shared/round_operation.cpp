#include "shared/round_operation.hpp"

#include <cstring>
#include <vector>

#include "reduce/kernels.hpp"

namespace pharos::ml {
namespace {

using Kind = Operation::Kind;

/// The number of pieces in a rank's data.
std::size_t pieces_of(Kind kind, std::uint32_t ranks) {
  return kind == Kind::kReduceScatter || kind == Kind::kAllToAll ? ranks : 1;
}

std::vector<std::byte*> moved(std::span<std::byte* const> places, std::size_t by) {
  std::vector<std::byte*> all;
  for (std::byte* const place : places) all.push_back(place + by);
  return all;
}

}  // namespace

RoundOperation::RoundOperation(const detail::Step& step, const detail::Places& places, std::uint32_t rank,
                               std::uint32_t ranks)
    : operation_{step.operation},
      of_{step.of},
      places_{places},
      rank_{rank},
      ranks_{ranks},
      pieces_{pieces_of(operation_.kind, ranks)},
      unit_{operation_.count / pieces_} {
  if (operation_.kind == Kind::kAllReduce && operation_.count * element() > kOneShotMax) way_ = Way::kTwoShot;
  part_max_ = std::max<std::size_t>(kStagingBytes / (element() * pieces_), 1);
  rounds_ = std::max<std::size_t>((unit_ + part_max_ - 1) / part_max_, 1);
}

std::span<const std::byte> RoundOperation::may_be_in_place() const {
  const std::size_t bytes = operation_.count * element();
  if (bytes <= kOneShotMax) return {};
  if (operation_.kind == Kind::kAllReduce) return {places_.to, bytes};
  if (operation_.kind == Kind::kReduceScatter) return {places_.from, bytes};
  if (operation_.kind == Kind::kAllGather) return {places_.to, bytes * ranks_};
  return {};
}

void RoundOperation::go_in_place(std::uint32_t window, std::size_t offset) {
  way_ = Way::kInPlace;
  window_ = window;
  offset_ = offset;
  part_max_ = unit_;
  rounds_ = 1;
}

bool RoundOperation::is_small() const {
  return way_ == Way::kOneShot && operation_.kind == Kind::kAllReduce && unit_ != 0 && unit_ * element() <= kSmallBytes;
}

void RoundOperation::next_round() {
  phase.reset();
  ended = ++index_ == rounds_;
}

// ---- The data that a rank gives

Said RoundOperation::said() const {
  Said said{.operation = of_, .window = window_, .offset = offset_};
  if (is_small()) std::memcpy(said.small.data(), places_.from, unit_ * element());
  return said;
}

void RoundOperation::stage(std::byte* buffer) const {
  if (operation_.kind == Kind::kBroadcast && operation_.root != rank_) return;
  const std::size_t bytes = part_size() * element();
  for (std::size_t piece = 0; piece < pieces_; ++piece) {
    std::memcpy(buffer + piece * bytes, places_.from + (piece * unit_ + part_begin()) * element(), bytes);
  }
}

// ---- One shot

void RoundOperation::take_said(std::span<const Said> said) const {
  std::vector<const std::byte*> from;
  for (const Said& each : said) from.push_back(each.small.data());
  reduce(operation_.dtype, operation_.reduction, from, {&places_.to, 1}, unit_);
}

void RoundOperation::take_staged(std::span<std::byte* const> buffers) const {
  const std::size_t bytes = part_size() * element();
  std::byte* const to = places_.to + part_begin() * element();
  const auto sum = [&](std::size_t begin) {
    std::vector<const std::byte*> from;
    for (const std::byte* const each : buffers) from.push_back(each + begin);
    reduce(operation_.dtype, operation_.reduction, from, {&to, 1}, part_size());
  };
  switch (operation_.kind) {
    case Kind::kAllReduce: return sum(0);
    case Kind::kReduceScatter: return sum(rank_ * bytes);
    case Kind::kAllGather:
      for (std::size_t each = 0; each < ranks_; ++each)
        std::memcpy(to + each * unit_ * element(), buffers[each], bytes);
      return;
    case Kind::kAllToAll:
      for (std::size_t each = 0; each < ranks_; ++each) {
        std::memcpy(to + each * unit_ * element(), buffers[each] + rank_ * bytes, bytes);
      }
      return;
    case Kind::kBroadcast:
      if (operation_.root != rank_) std::memcpy(to, buffers[operation_.root], bytes);
      return;
    case Kind::kBarrier:
    case Kind::kMessage:
    case Kind::kAllocate:
    case Kind::kAllocateForAll: return;
  }
}

// ---- In place, and two shot

void RoundOperation::reduce_part(std::span<std::byte* const> pieces) const {
  const std::vector<std::byte*> data = moved(pieces, offset_);
  if (operation_.kind == Kind::kAllGather) {
    const std::size_t bytes = unit_ * element();
    std::vector<std::byte*> places = moved(data, rank_ * bytes);
    std::erase(places, places_.from);
    return spread(places_.from, places, bytes);
  }
  if (operation_.kind == Kind::kReduceScatter) return reduce_piece(moved(data, rank_ * unit_ * element()));
  const auto [begin, size] = part_of(part_size() * element(), rank_, ranks_);
  const auto part = moved(data, begin);
  const std::vector<const std::byte*> from(part.begin(), part.end());
  reduce(operation_.dtype, operation_.reduction, from, part, size / element());
}

/// Reduces this rank's piece of a reduce_scatter. `data` has the contribution of each rank; parts of this rank's own
/// contribution may lie elsewhere (Places::own).
void RoundOperation::reduce_piece(std::span<std::byte* const> data) const {
  const auto reduce_run = [&](std::size_t begin, std::size_t bytes, const std::byte* own) {
    if (bytes == 0) return;
    std::vector<const std::byte*> from;
    for (const std::byte* const each : data) from.push_back(each + begin);
    if (own != nullptr) from[rank_] = own;
    std::byte* const to = places_.to + begin;
    reduce(operation_.dtype, operation_.reduction, from, {&to, 1}, bytes / element());
  };
  std::size_t done = 0;
  for (const Elsewhere& each : places_.own) {
    reduce_run(done, each.begin - done, nullptr);
    reduce_run(each.begin, each.bytes.size(), each.bytes.data());
    done = each.begin + each.bytes.size();
  }
  reduce_run(done, unit_ * element() - done, nullptr);
}

void RoundOperation::take_reduced(const std::byte* buffer) const {
  std::memcpy(places_.to + part_begin() * element(), buffer, part_size() * element());
}

}  // namespace pharos::ml
