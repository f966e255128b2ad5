#include "parallel/reducing.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "module/torch_dtype.hpp"

namespace pharos::ml {
namespace {

constexpr const char* kWhat = "reducing the gradients of";
constexpr std::size_t kSharedRooms = 2;  // one is filled while the other is reduced

}  // namespace

Reducing::Reducing(const Communicator& ranks, std::vector<ShardedUnit>& units, std::span<const NamedTensor> parameters,
                   std::vector<ShardSlice>& slices, bool whole)
    : ranks_{ranks},
      units_{units},
      slices_{slices},
      whole_{whole},
      gradients_(parameters.size()),
      progress_(units.size()),
      had_gradient_(slices.size()) {
  std::size_t shared_bytes = 0;
  std::size_t sharing = 0;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].gradient_bytes == 0) continue;
    for (const Shard& shard : units_[i].shards) {
      if (!shard.flat.is_trained) continue;
      const std::size_t element = c10::elementSize(shard.sent);
      const std::int64_t piece = shard.flat.piece * ranks_.rank();
      for (const Flat::Member& each : shard.flat.members) {
        const std::int64_t own = std::clamp(piece, each.begin, each.begin + each.size);
        const std::int64_t own_end = std::clamp(piece + shard.flat.piece, own, each.begin + each.size);
        gradients_[each.parameter] = {.unit = i,
                                      .parameter = parameters[each.parameter].tensor,
                                      .sent = shard.sent,
                                      .place = shard.gradient_place + static_cast<std::size_t>(each.begin) * element,
                                      .size = each.size,
                                      .own_begin = static_cast<std::size_t>(own - each.begin) * element,
                                      .own_bytes = static_cast<std::size_t>(own_end - own) * element,
                                      .piece_begin = static_cast<std::size_t>(own - piece) * element};
      }
    }
    if (whole_ || units_[i].is_rest) {
      progress_[i].room = &rooms_.emplace_back(Room{ranks_.allocate<std::byte>(units_[i].gradient_bytes), kNobody});
    } else {
      ++sharing;
      shared_bytes = std::max(shared_bytes, units_[i].gradient_bytes);
    }
  }
  while (shared_rooms_.size() < std::min(sharing, kSharedRooms)) {
    shared_rooms_.push_back(&rooms_.emplace_back(Room{ranks_.allocate<std::byte>(shared_bytes), kNobody}));
  }
  // Until the first backward has shown the order, units are reduced in the reverse of the order in which they are
  // listed.
  std::vector<std::size_t> order(units_.size());
  std::iota(order.rbegin(), order.rend(), 0);
  set_order(order);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    for (Shard& shard : units_[i].shards) {
      if (!shard.flat.is_trained) continue;
      // If each unit has a room of its own, this rank's piece of the result stays in that room.
      const bool stays = whole_ && shard.sent == shard.own.scalar_type();
      shard.gradient = stays ? result_of(shard, *progress_[i].room) : at::empty_like(shard.own);
    }
  }
}

void Reducing::set_order(std::span<const std::size_t> units) {
  order_.clear();
  std::size_t sharing = 0;
  for (const std::size_t each : units) {
    if (units_[each].gradient_bytes == 0) continue;
    progress_[each].turn = order_.size();
    order_.push_back(each);
    if (!whole_ && !units_[each].is_rest) progress_[each].room = shared_rooms_[sharing++ % shared_rooms_.size()];
  }
  begin();
}

// ---- A backward

void Reducing::begin() {
  // Reductions that are left from a backward that threw must end first, so that the ranks stay in step. Their results
  // are dropped.
  for (UnderWay& each : under_way_) {
    for (Pending& pending : each.pending) pending.wait();
  }
  under_way_.clear();
  for (Room& each : rooms_) each.holder = kNobody;
  for (Progress& each : progress_) each = {.room = each.room, .turn = each.turn};
  for (Gradient& each : gradients_) {
    each.has = kNone;
    each.is_copied = false;
    each.kept.reset();
    if (each.unit != kNobody) ++progress_[each.unit].missing;
  }
  next_ = 0;
  reductions_ = 0;
  waited_ = {};
}

void Reducing::forget() {
  for (Gradient& each : gradients_) {
    if (each.unit != kNobody) each.parameter.mutable_grad().reset();
  }
}

void Reducing::arrive(std::size_t parameter, double factor) {
  Gradient& gradient = gradients_[parameter];
  Progress& unit = progress_[gradient.unit];
  if (unit.is_begun) {
    gradient.has = kLate;
    return;
  }
  if (gradient.has == kNone) --unit.missing;
  gradient.has = kSome;
  if (take_room(gradient.unit)) copy(gradient, factor);
  while (next_ < order_.size() && progress_[order_[next_]].missing == 0) reduce(order_[next_++], factor);
  advance();
}

/// Makes the unit the holder of its room. Returns false if another unit holds the room, or if the room is shared and
/// units that are reduced earlier still need it.
bool Reducing::take_room(std::size_t number) {
  const Progress& unit = progress_[number];
  if (unit.room->holder == number) return true;
  const bool has_own = whole_ || units_[number].is_rest;
  if (unit.room->holder != kNobody || (!has_own && unit.turn >= next_ + shared_rooms_.size())) return false;
  set_aside(number);
  unit.room->holder = number;
  return true;
}

/// Copies gradients of slices out of the unit's room before the room is used again, because the next result is added to
/// them.
void Reducing::set_aside(std::size_t number) {
  if (!whole_) return;
  for (const Shard& shard : units_[number].shards) {
    for (const Shard::Part& part : shard.parts) {
      at::Tensor& gradient = slices_[part.slice].values.mutable_grad();
      if (gradient.defined()) gradient = gradient.clone();
    }
  }
}

void Reducing::copy(Gradient& gradient, double factor) {
  at::Tensor& from = gradient.parameter.mutable_grad();
  const at::Tensor to = tensor_on(memory_of(gradient), gradient.parameter.device(), gradient.sent, gradient.size);
  copy_own(gradient);
  if (from.defined()) {
    if (from.layout() != at::kStrided) from = from.to_dense();
    const at::Tensor flat = from.reshape({gradient.size});
    if (gradient.is_copied) {
      to.add_(flat, factor);
    } else if (factor == 1 && flat.scalar_type() == gradient.sent && flat.is_cpu()) {
      copy_for_others(gradient, flat);
    } else if (factor == 1) {
      to.copy_(flat);
    } else {
      to.copy_(flat).mul_(factor);
    }
    from.reset();
  } else if (!gradient.is_copied) {
    to.zero_();
  }
  gradient.is_copied = true;
}

std::byte* Reducing::memory_of(const Gradient& gradient) const {
  return progress_[gradient.unit].room->memory.data() + gradient.place;
}

void Reducing::copy_for_others(Gradient& gradient, const at::Tensor& flat) {
  const std::span<const std::byte> from = bytes_of(flat);
  const std::size_t own_end = gradient.own_begin + gradient.own_bytes;
  std::ranges::copy(from.first(gradient.own_begin), memory_of(gradient));
  std::ranges::copy(from.subspan(own_end), memory_of(gradient) + own_end);
  if (gradient.own_bytes != 0) gradient.kept = flat;
}

/// Copies this rank's part of the gradient into the room, too, because more will be added to it there.
void Reducing::copy_own(Gradient& gradient) {
  if (!gradient.kept.defined()) return;
  std::ranges::copy(own_bytes_of(gradient), memory_of(gradient) + gradient.own_begin);
  gradient.kept.reset();
}

std::span<const std::byte> Reducing::own_bytes_of(const Gradient& gradient) {
  return std::span<const std::byte>{bytes_of(gradient.kept)}.subspan(gradient.own_begin, gradient.own_bytes);
}

std::vector<Elsewhere> Reducing::own_of(const Shard& shard) const {
  std::vector<Elsewhere> own;
  for (const Flat::Member& each : shard.flat.members) {
    const Gradient& gradient = gradients_[each.parameter];
    if (gradient.kept.defined()) own.push_back({gradient.piece_begin, own_bytes_of(gradient)});
  }
  return own;
}

void Reducing::reduce(std::size_t number, double factor) {
  Progress& unit = progress_[number];
  const auto began = std::chrono::steady_clock::now();
  while (unit.room->holder != kNobody && unit.room->holder != number) settle_front(Until::kOrdered);
  waited_ += std::chrono::steady_clock::now() - began;
  if (unit.room->holder == kNobody) set_aside(number);
  unit.room->holder = number;
  UnderWay& reduction = under_way_.emplace_back(UnderWay{.unit = number});
  for (Shard& shard : units_[number].shards) {
    if (!shard.flat.is_trained) {
      reduction.results.emplace_back();
      continue;
    }
    for (const Flat::Member& each : shard.flat.members) {
      Gradient& gradient = gradients_[each.parameter];
      if (!gradient.is_copied || gradient.parameter.grad().defined()) copy(gradient, factor);
    }
    const at::Tensor& result = reduction.results.emplace_back(result_of(shard, *unit.room));
    const std::span<std::byte> from{unit.room->memory.data() + shard.gradient_place,
                                    shard.gradient_bytes(ranks_.size())};
    const auto& own = reduction.own.emplace_back(own_of(shard));
    between_ranks(kWhat, units_[number], [&] {
      reduction.pending.push_back(
          ranks_.begin_reduce_scatter(*dtype_of(shard.sent), from, own, bytes_of(result), Reduction::kMean));
    });
  }
  unit.is_begun = true;
  ++reductions_;
}

/// The memory into which this rank's piece is reduced. If each unit has a room of its own, that is the piece's place in
/// the room. Otherwise it is the memory of the slices' gradients, if no gradient is there to which the result is added,
/// and else a temporary tensor.
at::Tensor Reducing::result_of(Shard& shard, const Room& room) const {
  if (whole_) {
    const std::size_t begin = ranks_.rank() * shard.gradient_bytes(ranks_.size()) / ranks_.size();
    return tensor_on(room.memory.data() + shard.gradient_place + begin, shard.device, shard.sent, shard.flat.piece);
  }
  const bool is_added = std::any_of(shard.parts.begin(), shard.parts.end(), [&](const Shard::Part& each) {
    return slices_[each.slice].values.grad().defined();
  });
  if (!is_added && shard.sent == shard.own.scalar_type()) return shard.gradient;
  return at::empty({shard.flat.piece}, at::TensorOptions{}.dtype(shard.sent).device(shard.device));
}

void Reducing::advance() {
  while (!under_way_.empty()) {
    UnderWay& front = under_way_.front();
    bool is_done = true;
    between_ranks(kWhat, units_[front.unit], [&] {
      for (Pending& each : front.pending) is_done = is_done && each.done();
    });
    if (!is_done) return;
    settle_front(Until::kEnded);
  }
}

void Reducing::settle_front(Until until) {
  UnderWay& front = under_way_.front();
  between_ranks(kWhat, units_[front.unit], [&] {
    for (Pending& each : front.pending) {
      if (until == Until::kEnded) {
        each.wait();
      } else {
        each.join();
      }
    }
  });
  const std::vector<Shard>& shards = units_[front.unit].shards;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    put_down(shards[i], front.results[i]);
    for (const Flat::Member& each : shards[i].flat.members) gradients_[each.parameter].kept.reset();
  }
  progress_[front.unit].room->holder = kNobody;
  under_way_.pop_front();
}

void Reducing::put_down(const Shard& shard, const at::Tensor& result) {
  for (const Shard::Part& part : shard.parts) {
    if (!shard.flat.is_trained) continue;
    const at::Tensor& values = slices_[part.slice].values;
    const at::Tensor own = result.narrow(0, part.begin, values.numel());
    at::Tensor& gradient = values.mutable_grad();
    had_gradient_[part.slice] = gradient.defined();
    if (gradient.defined()) {
      gradient.add_(own);
      continue;
    }
    gradient = shard.gradient.narrow(0, part.begin, values.numel());
    if (gradient.data_ptr() != own.data_ptr()) gradient.copy_(own);
  }
}

// ---- Its end

std::vector<std::uint8_t> Reducing::state() const {
  std::vector<std::uint8_t> state;
  for (const Gradient& each : gradients_) state.push_back(each.has);
  return state;
}

void Reducing::finish(double factor) {
  for (Gradient& each : gradients_) {
    if (each.unit == kNobody || each.has != kNone || !each.parameter.grad().defined()) continue;
    each.has = kSome;
  }
  while (next_ < order_.size()) reduce(order_[next_++], factor);
}

void Reducing::end(std::span<const std::uint8_t> all, double factor) {
  const auto began = std::chrono::steady_clock::now();
  while (!under_way_.empty()) settle_front(under_way_.size() > 1 ? Until::kOrdered : Until::kEnded);
  let_go_of_unused(all);
  for (const std::size_t unit : order_) {
    const auto is_late = [&](const Gradient& each) {
      return each.unit == unit && all[static_cast<std::size_t>(&each - gradients_.data())] == kLate;
    };
    if (std::none_of(gradients_.begin(), gradients_.end(), is_late)) continue;
    for (Gradient& each : gradients_) each.is_copied = each.is_copied && each.unit != unit;
    reduce(unit, factor);
    settle_front(Until::kEnded);
  }
  waited_ += std::chrono::steady_clock::now() - began;
}

/// Removes the gradients of parameters that no rank has used in this backward, unless they had a gradient before.
void Reducing::let_go_of_unused(std::span<const std::uint8_t> all) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!progress_[i].is_begun) continue;
    for (const Shard& shard : units_[i].shards) {
      for (const Shard::Part& part : shard.parts) {
        if (!shard.flat.is_trained || all[part.parameter] != kNone || had_gradient_[part.slice]) continue;
        slices_[part.slice].values.mutable_grad().reset();
      }
    }
  }
}

}  // namespace pharos::ml
