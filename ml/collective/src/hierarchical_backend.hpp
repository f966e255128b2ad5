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

#include "backend.hpp"
#include "room.hpp"
#include "shared_backend.hpp"
#include "stream_backend.hpp"

namespace pharos::ml {

/// Ranks of several machines, as many on each, those of one machine one behind the other. Those of a machine share
/// memory; those that have the same place on each are a lane, and reach each other by TCP.
///
/// An operation goes in steps: what a machine's ranks do together (near), what lanes do (far), and again what a
/// machine's do (later). So that each byte goes to a machine once, by one of its ranks, and all of them send at the
/// same time. all_to_all(), and messages between machines, go by TCP alone.
///
/// Sums are those of each machine, summed up: the same bits on every rank, and from run to run.
class HierarchicalBackend final : public detail::Backend {
 public:
  struct Layout {
    std::uint32_t rank = 0;
    std::uint32_t machines = 1;
    std::uint32_t on_each = 1;

    std::uint32_t machine_of(std::uint32_t which) const { return which / on_each; }
    std::uint32_t place_of(std::uint32_t which) const { return which % on_each; }  ///< on its machine
    std::uint32_t machine() const { return machine_of(rank); }
    std::uint32_t place() const { return place_of(rank); }
    std::vector<std::uint32_t> neighbours() const;  ///< of this rank's machine
    std::vector<std::uint32_t> lane() const;
  };

  using MakeFar = std::function<Result<std::unique_ptr<StreamBackend>>(const StreamSteps&)>;
  /// `near`: of the neighbours, who have not met, and are these processes, if somebody knows. First all ranks find each
  /// other, so that those of other machines hear why it has failed on one.
  static Result<std::unique_ptr<HierarchicalBackend>> make(const Layout& layout, std::unique_ptr<SharedBackend> near,
                                                           std::span<const std::int32_t> processes, Duration time,
                                                           const MakeFar& make_far);

  std::uint32_t rank() const override { return layout_.rank; }
  std::uint32_t ranks() const override { return layout_.machines * layout_.on_each; }
  bool shares_memory() const override { return false; }
  std::uint64_t bytes_sent() const override { return far_->bytes_sent(); }
  std::shared_ptr<detail::Work> begin(const Operation& operation, const detail::Places& places) override;
  Result<bool> advance(detail::Work& work) override;
  Result<void> finish(detail::Work& work, Duration time) override;
  Result<std::byte*> allocate(std::size_t bytes, Duration time) override;
  void free(std::byte* memory) override { near_->free(memory); }
  void fail(const Error& why) override;
  Result<void> check() override;

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
  Rooms rooms_;  // of operations, which all end before this does
  const std::unique_ptr<SharedBackend> near_;
  const std::unique_ptr<StreamBackend> far_;
  std::deque<std::shared_ptr<Running>> running_;  // in the order in which they were begun
  std::optional<Error> failed_;
};

}  // namespace pharos::ml
