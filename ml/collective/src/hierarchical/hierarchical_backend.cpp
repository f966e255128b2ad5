#include "hierarchical/hierarchical_backend.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <pharos/ml/collective/failpoints.hpp>

#include "reduce/kernels.hpp"

namespace pharos::ml {
namespace {

using Kind = Operation::Kind;

// Up to this many bytes all ranks of a machine send the same data to their lanes, which needs fewer waits.
constexpr std::size_t kLittle = 16 << 10;
constexpr std::size_t kTogether = 64;  // A share is a multiple of this many elements: no two ranks write to one line.
// At an operation's deadline the far backend is asked to name the rank that holds the others up. It has this long to
// make the operation fail, and is asked again once. Then the operation fails without a name.
constexpr Duration kSilenceMax = std::chrono::seconds{2};
constexpr int kAskedMax = 2;

bool is_half(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

/// The operation by which the ranks of a machine, and then those of a lane, reduce their part of `of`. For a mean they
/// compute sums, which are divided once at the end. Half-precision numbers are the exception: their sums may be too
/// large for the type, so both steps compute means.
Operation reducing(const Operation& of, Kind kind, std::size_t count) {
  const bool divides_later = of.reduction == Reduction::kMean && !is_half(of.dtype);
  return {.kind = kind, .dtype = of.dtype, .reduction = divides_later ? Reduction::kSum : of.reduction, .count = count};
}

}  // namespace

std::vector<std::uint32_t> HierarchicalBackend::Layout::neighbours() const {
  std::vector<std::uint32_t> all;
  for (std::uint32_t place = 0; place < on_each; ++place) all.push_back(machine() * on_each + place);
  return all;
}

std::vector<std::uint32_t> HierarchicalBackend::Layout::lane() const {
  std::vector<std::uint32_t> all;
  for (std::uint32_t machine = 0; machine < machines; ++machine) all.push_back(machine * on_each + place());
  return all;
}

class HierarchicalBackend::Running final : public detail::Work {
 public:
  Running(const Operation& operation_given, ScratchBuffers& buffers) : operation{operation_given}, buffers_{buffers} {}
  Running(Running&&) = delete;
  ~Running() override { buffers_.give_back(std::move(buffer_)); }

  std::byte* take_buffer(std::size_t bytes) {
    buffer_ = buffers_.take(bytes);
    return buffer_.data();
  }

  /// A step of the ranks of the lane, or of all ranks, which begins once the near steps have ended.
  struct Far {
    Among among;
    Operation operation;
    detail::Places places;
  };
  /// Data that is a sum, and becomes a mean if the operation is one.
  struct Summed {
    std::byte* data;
    std::size_t elements;
  };

  const Operation operation;
  std::vector<std::shared_ptr<Work>> near{};
  std::vector<Far> far_planned{};
  std::vector<std::shared_ptr<Work>> far{};
  std::vector<Summed> summed{};
  std::vector<std::shared_ptr<Work>> later{};
  enum class Stage : std::uint8_t { kNear, kFar, kLater, kEnded } stage = Stage::kNear;

 private:
  ScratchBuffers& buffers_;
  ScratchBuffer buffer_{};
};

/// Runs `f`, which waits in the near backend. Meanwhile ranks that ask get the rank that it waits for, and a failure is
/// told to the ranks of all machines.
template <class F>
auto HierarchicalBackend::while_near(const F& f) {
  far_->waits([this] { return near_->whom_it_sleeps_for(); });
  auto result = f();
  far_->waits_no_more();
  if (!result) fail(result.error());
  return result;
}

Result<std::unique_ptr<HierarchicalBackend>> HierarchicalBackend::make(const Layout& layout,
                                                                       std::unique_ptr<SharedBackend> near,
                                                                       std::span<const std::int32_t> processes,
                                                                       Duration time, const MakeFar& make_far) {
  auto far = make_far({.lane = layout.lane(), .heard = [&its = *near] { its.tell_news(); }});
  if (!far) {
    near->fail(far.error());  // the neighbours may have connected to all ranks, and wait for this one
    return far.error();
  }
  std::unique_ptr<HierarchicalBackend> backend{new HierarchicalBackend{layout, std::move(near), *std::move(far)}};
  PHAROS_TRY_VOID(backend->while_near([&] { return backend->near_->meet(time, processes); }));
  return backend;
}

// ---- The steps of an operation

std::shared_ptr<detail::Work> HierarchicalBackend::begin(const Operation& operation, const detail::Places& places) {
  auto running = std::make_shared<Running>(operation, buffers_);
  plan(*running, places);
  running_.push_back(running);
  advance_all();
  return running;
}

void HierarchicalBackend::plan(Running& running, const detail::Places& places) {
  const Operation& operation = running.operation;
  const Operation barrier{};
  switch (operation.kind) {
    case Kind::kAllReduce: return plan_all_reduce(running, places.to);
    case Kind::kReduceScatter: return plan_reduce_scatter(running, places);
    case Kind::kAllGather: return plan_all_gather(running, places);
    case Kind::kBroadcast: return plan_broadcast(running, places.to);
    case Kind::kAllToAll: running.far_planned.push_back({Among::kAll, operation, places}); [[fallthrough]];
    case Kind::kBarrier:
      running.near.push_back(near_->begin({barrier, operation}, {}));
      running.far_planned.push_back({Among::kLane, barrier, {}});
      return;
    case Kind::kAllocate:
      running.far_planned.push_back({Among::kLane, barrier, {}});
      running.later.push_back(near_->begin({barrier, operation}, {}, true));
      return;
    case Kind::kMessage: return plan_message(running, places);
    case Kind::kAllocateForAll: return;
  }
}

void HierarchicalBackend::plan_message(Running& running, const detail::Places& places) {
  const Operation& of = running.operation;
  if (layout_.machine_of(of.root) != layout_.machine_of(of.to)) {
    running.far.push_back(far_->begin(of, places));
    running.stage = Running::Stage::kFar;
    return;
  }
  Operation near = of;
  near.root = static_cast<std::uint16_t>(layout_.place_of(of.root));
  near.to = static_cast<std::uint16_t>(layout_.place_of(of.to));
  running.later.push_back(near_->begin({near, of}, places));
  running.stage = Running::Stage::kLater;
}

/// The number of elements in the share of each rank of a machine; 0 if there is too little data to divide. The elements
/// that are left over (fewer than 64 for each rank) are handled like little data.
std::size_t HierarchicalBackend::shared_elements(const Operation& operation) const {
  if (operation.count * size_of(operation.dtype) <= kLittle) return 0;
  return operation.count / layout_.on_each / kTogether * kTogether;
}

void HierarchicalBackend::plan_all_reduce(Running& running, std::byte* data) {
  const Operation& of = running.operation;
  const std::size_t element = size_of(of.dtype);
  const std::size_t share = shared_elements(of);
  const std::size_t shared = share * layout_.on_each;
  std::byte* const own = data + layout_.place() * share * element;
  std::byte* const rest = data + shared * element;
  if (share != 0) {
    running.near.push_back(near_->begin({reducing(of, Kind::kReduceScatter, shared), of}, {data, own}));
    running.far_planned.push_back({Among::kLane, reducing(of, Kind::kAllReduce, share), {own, own}});
    running.summed.push_back({own, share});
  }
  if (shared != of.count || of.count == 0) {
    const Operation little = reducing(of, Kind::kAllReduce, of.count - shared);
    running.near.push_back(near_->begin({little, of}, {rest, rest}));
    running.far_planned.push_back({Among::kLane, little, {rest, rest}});
    running.summed.push_back({rest, of.count - shared});
  }
  if (share == 0) return;
  const Operation spread{.kind = Kind::kAllGather, .dtype = of.dtype, .count = share};
  running.later.push_back(near_->begin({spread, of}, {own, data}, true));
}

void HierarchicalBackend::plan_reduce_scatter(Running& running, const detail::Places& places) {
  const Operation& of = running.operation;
  const std::size_t own = of.count / ranks();
  const std::size_t own_bytes = own * size_of(of.dtype);
  std::byte* const buffer = running.take_buffer(own_bytes * layout_.machines);
  for (std::uint32_t machine = 0; machine < layout_.machines; ++machine) {
    running.near.push_back(
        near_->begin({reducing(of, Kind::kReduceScatter, own * layout_.on_each), of},
                     {places.from + machine * layout_.on_each * own_bytes, buffer + machine * own_bytes}));
  }
  const Operation across = reducing(of, Kind::kReduceScatter, own * layout_.machines);
  running.far_planned.push_back({Among::kLane, across, {buffer, places.to}});
  running.summed.push_back({places.to, own});
}

void HierarchicalBackend::plan_all_gather(Running& running, const detail::Places& places) {
  const Operation& of = running.operation;
  const std::size_t own_bytes = of.count * size_of(of.dtype);
  std::byte* const buffer = running.take_buffer(own_bytes * layout_.machines);
  running.far_planned.push_back({Among::kLane, of, {places.from, buffer}});
  for (std::uint32_t machine = 0; machine < layout_.machines; ++machine) {
    running.later.push_back(near_->begin(
        {of, of}, {buffer + machine * own_bytes, places.to + machine * layout_.on_each * own_bytes}, true));
  }
}

void HierarchicalBackend::plan_broadcast(Running& running, std::byte* data) {
  const Operation& of = running.operation;
  const std::size_t element = size_of(of.dtype);
  const std::size_t share = shared_elements(of);
  const std::size_t shared = share * layout_.on_each;
  const std::uint32_t from = layout_.machine_of(of.root);
  const bool is_there = from == layout_.machine();
  const auto broadcast = [&](std::uint32_t root, std::size_t count) {
    return Operation{
        .kind = Kind::kBroadcast, .dtype = of.dtype, .root = static_cast<std::uint16_t>(root), .count = count};
  };
  // The ranks of every machine do a near step, so that they agree on the operation. On machines without the root it is
  // a barrier.
  const Operation near = is_there ? broadcast(layout_.place_of(of.root), of.count) : Operation{};
  running.near.push_back(near_->begin({near, of}, {data, data}));
  const auto add = [&](std::byte* begin, std::size_t count) {
    running.far_planned.push_back({Among::kLane, broadcast(from, count), {begin, begin}});
  };
  std::byte* const own = data + layout_.place() * share * element;
  if (share != 0) add(own, share);
  if (shared != of.count || of.count == 0) add(data + shared * element, of.count - shared);
  if (share == 0 || is_there) return;
  const Operation spread{.kind = Kind::kAllGather, .dtype = of.dtype, .count = share};
  running.later.push_back(near_->begin({spread, of}, {own, data}, true));
}

// ---- Going on

std::optional<Error> HierarchicalBackend::advance_all() {
  if (failed_) return failed_;
  failed_ = near_->advance_all();
  if (failed_) {
    far_->fail(*failed_);
  } else if ((failed_ = far_->failure())) {
    near_->fail(*failed_);
  }
  if (failed_) {
    running_.clear();
    return failed_;
  }
  // The ranks of a lane begin operations in one order, so an operation waits until all earlier ones have begun theirs.
  bool may_begin = true;
  bool has_released = false;
  for (const auto& each : running_) {
    if (each->stage == Running::Stage::kNear && !may_begin) continue;
    has_released = go_on(*each) || has_released;
    may_begin = may_begin && each->stage != Running::Stage::kNear;
  }
  std::erase_if(running_, [](const auto& each) { return each->stage == Running::Stage::kEnded; });
  // A step that has been released can continue at once, and may end an operation that this pass has already visited.
  return has_released ? advance_all() : failed_;
}

/// Returns true if it has released near steps that were held.
bool HierarchicalBackend::go_on(Running& running) {
  using Stage = Running::Stage;
  const auto is_near_done = [](const auto& work) { return SharedBackend::has_ended(*work); };
  if (running.stage == Stage::kNear) {
    if (!std::all_of(running.near.begin(), running.near.end(), is_near_done)) return false;
    failpoint(failpoints::kLaneBegins);
    for (const auto& [among, operation, places] : running.far_planned) {
      running.far.push_back(far_->begin(among, {operation, running.operation}, places));
    }
    running.stage = Stage::kFar;
  }
  if (running.stage == Stage::kFar) {
    for (const auto& each : running.far) {
      const auto done = far_->advance(*each);
      if (!done || !*done) return false;  // advance_all() sees the failure
    }
    if (running.operation.reduction == Reduction::kMean && !is_half(running.operation.dtype)) {
      for (const auto& [data, elements] : running.summed) divide(running.operation.dtype, data, elements, ranks());
    }
    failpoint(failpoints::kLaneEnded);
    for (const auto& each : running.later) near_->release(*each);
    running.stage = Stage::kLater;
    if (!running.later.empty()) return true;
  }
  if (running.stage == Stage::kLater && std::all_of(running.later.begin(), running.later.end(), is_near_done)) {
    running.stage = Stage::kEnded;
  }
  return false;
}

Result<bool> HierarchicalBackend::advance(detail::Work& work) {
  const auto& running = static_cast<const Running&>(work);
  if (running.stage == Running::Stage::kEnded) return true;
  const auto why = advance_all();
  if (running.stage == Running::Stage::kEnded) return true;
  if (why) return *why;
  return false;
}

Result<void> HierarchicalBackend::finish(detail::Work& work, Duration time) {
  const auto& running = static_cast<const Running&>(work);
  const TimePoint deadline = Deadline::in(time).when();
  TimePoint when = deadline;
  for (;;) {
    const std::uint64_t known_news = near_->news();
    const auto why = advance_all();
    const bool is_over = why || running.stage == Running::Stage::kEnded;
    if (is_over) far_->waits_no_more();
    if (running.stage == Running::Stage::kEnded) return {};
    if (why) return *why;
    say_what_is_awaited(running);
    const auto there = near_->wait_until(known_news, when);
    if (!there || *there) continue;
    if (when < deadline + kAskedMax * kSilenceMax) {
      far_->blame(to_string(running.operation) + ',');
      when += kSilenceMax;
      continue;
    }
    fail(Error{ErrorCode::kDeadlineExceeded,
               to_string(running.operation) + " waits for a rank that could not be identified",
               "Check the processes of all ranks, or raise CommunicatorOptions::timeout."});
  }
}

/// Tells the far backend which rank the operation waits for, so that other ranks can find the rank that holds them up.
void HierarchicalBackend::say_what_is_awaited(const Running& running) {
  for (const auto& each : running.far) {
    const auto done = far_->advance(*each);
    if (done && !*done) return far_->waits(*each);
  }
  for (const auto& each : running.stage == Running::Stage::kNear ? running.near : running.later) {
    if (!SharedBackend::has_ended(*each)) return far_->waits(near_->who_is_missing(*each));
  }
  // The ranks of a lane begin operations in one order, so this one waits for the first that has not begun its far step.
  const auto first = std::find_if(running_.begin(), running_.end(),
                                  [](const auto& each) { return each->stage == Running::Stage::kNear; });
  if (first != running_.end() && first->get() != &running) say_what_is_awaited(**first);
}

Result<std::byte*> HierarchicalBackend::allocate(std::size_t bytes, Duration time) {
  // When this operation has ended, all ranks have come. The neighbours then wait only for each other when they
  // allocate.
  begin({.kind = Kind::kAllocate, .count = bytes}, {});
  // Operations of all ranks are finished first. Messages are left out, since only two ranks do them.
  const auto is_of_all = [](const auto& each) { return each->operation.kind != Kind::kMessage; };
  for (;;) {
    const auto first = std::find_if(running_.begin(), running_.end(), is_of_all);
    if (first == running_.end()) break;
    const auto work = *first;
    PHAROS_TRY_VOID(finish(*work, time));
  }
  return while_near([&] { return near_->allocate(bytes, time); });
}

Result<void> HierarchicalBackend::check() {
  static_cast<void>(near_->check());
  if (auto why = advance_all()) return *std::move(why);
  return {};
}

void HierarchicalBackend::fail(const Error& why) {
  near_->fail(why);
  advance_all();
}

}  // namespace pharos::ml
