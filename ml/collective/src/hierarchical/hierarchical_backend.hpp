#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <pharos/ml/collective/backend.hpp>

#include "scratch_buffer.hpp"
#include "shared/shared_backend.hpp"
#include "stream/stream_backend.hpp"

namespace pharos::ml {

/// Ranks of several machines, where each machine has the same number of ranks, with consecutive numbers. The ranks of a
/// machine share memory. The ranks that have the same place on each machine are a lane, and reach each other by TCP.
/// Owned by Core. One thread at a time. A failure of the ranks of a machine becomes the failure of the lanes and the
/// other way round, when a function of this backend next runs. The destructor first leaves the ranks of the lane (see
/// StreamBackend), and then those of the machine.
///
/// An operation goes in up to three steps: the ranks of each machine work together (near), then the ranks of each lane
/// (far), and then again those of each machine (later). So each byte goes to a machine once, by one of its ranks, and
/// all ranks of a machine send at the same time. all_to_all(), and messages between machines, use TCP only.
///
/// Each machine sums its own data, and these sums are summed: the results are the same bits on every rank, and from run
/// to run.
class HierarchicalBackend final : public detail::Backend {
 public:
  struct Layout {
    std::uint32_t rank = 0;
    std::uint32_t machines = 1;
    std::uint32_t on_each = 1;

    std::uint32_t machine_of(std::uint32_t which) const { return which / on_each; }
    std::uint32_t place_of(std::uint32_t which) const { return which % on_each; }  ///< The rank's place on its machine.
    std::uint32_t machine() const { return machine_of(rank); }
    std::uint32_t place() const { return place_of(rank); }
    std::vector<std::uint32_t> neighbours() const;  ///< The ranks of this rank's machine, with this rank.
    std::vector<std::uint32_t> lane() const;        ///< The ranks of this rank's lane, with this rank.
  };

  using MakeFar = std::function<Result<std::unique_ptr<StreamBackend>>(const StreamSteps&)>;
  /// Returns when all ranks have come; each step waits at most for `time`. `near` connects the neighbours, and its
  /// meet() has not been called. `processes` has the process ids of the neighbours; empty if they are unknown. The
  /// ranks of all machines connect by TCP before the neighbours meet, so that a failure on one machine is told to the
  /// ranks of the others. Fails as `make_far` and SharedBackend::meet() do; the neighbours then fail, too.
  static Result<std::unique_ptr<HierarchicalBackend>> make(const Layout& layout, std::unique_ptr<SharedBackend> near,
                                                           std::span<const std::int32_t> processes, Duration time,
                                                           const MakeFar& make_far);

  std::uint32_t rank() const override { return layout_.rank; }
  std::uint32_t ranks() const override { return layout_.machines * layout_.on_each; }
  bool shares_memory() const override { return false; }
  std::uint64_t bytes_sent() const override { return far_->bytes_sent(); }
  std::shared_ptr<detail::Work> begin(const Operation& operation, const detail::Places& places) override;
  Result<bool> advance(detail::Work& work) override;
  /// When the time is over, the late rank is searched for, up to 4 seconds more. The operation fails with
  /// kDeadlineExceeded, which names that rank if the search has found one.
  Result<void> finish(detail::Work& work, Duration time) override;
  /// Finishes earlier operations of all ranks first, each within `time`.
  Result<std::byte*> allocate(std::size_t bytes, Duration time) override;
  void free(std::byte* memory) override { near_->free(memory); }
  void fail(const Error& why) override;
  Result<void> check() override;
  std::optional<Error> failure() override {
    auto why = near_->failure();
    return why ? std::move(why) : far_->failure();
  }

 private:
  class Running;

  HierarchicalBackend(const Layout& layout, std::unique_ptr<SharedBackend> near, std::unique_ptr<StreamBackend> far)
      : layout_{layout}, near_{std::move(near)}, far_{std::move(far)} {}

  template <class F>
  auto while_near(const F& f);
  void plan(Running& running, const detail::Places& places);
  void plan_message(Running& running, const detail::Places& places);
  void plan_all_reduce(Running& running, std::byte* data);
  void plan_reduce_scatter(Running& running, const detail::Places& places);
  void plan_all_gather(Running& running, const detail::Places& places);
  void plan_broadcast(Running& running, std::byte* data);
  std::size_t shared_elements(const Operation& operation) const;
  bool go_on(Running& running);
  std::optional<Error> advance_all();
  void say_what_is_awaited(const Running& running);

  const Layout layout_;
  ScratchBuffers buffers_;  // buffers of operations, and so destroyed after running_
  const std::unique_ptr<SharedBackend> near_;
  const std::unique_ptr<StreamBackend> far_;
  std::deque<std::shared_ptr<Running>> running_;  // in the order in which they were begun
  std::optional<Error> failed_;
};

}  // namespace pharos::ml
