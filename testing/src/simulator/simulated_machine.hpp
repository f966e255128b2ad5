#pragma once

#include <pharos/base/machine.hpp>

#include "simulator/world.hpp"

namespace pharos::simulator {

/// The machine of the real process while it runs a simulated cluster: time and random numbers are those of the World,
/// and who sleeps parks a fibre.
class SimulatedMachine final : public detail::Machine {
 public:
  explicit SimulatedMachine(World& world) : world_{world} { replace(this); }
  SimulatedMachine(SimulatedMachine&&) = delete;
  ~SimulatedMachine() override { replace(nullptr); }

  TimePoint now() const override;
  /// For code of a simulated process. Throws RuntimeStopped if the process has ended, so that loops of it end.
  void sleep(Duration time) override;
  void fill_random(std::span<std::byte> bytes) override;

 private:
  World& world_;
};

}  // namespace pharos::simulator
