#include "simulator/simulated_machine.hpp"

#include <algorithm>
#include <cstring>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/check.hpp>

#include "simulator/process.hpp"

namespace pharos::simulator {

TimePoint SimulatedMachine::now() const {
  const Process* const process = Process::current();
  return process != nullptr ? process->now() : world_.now();
}

void SimulatedMachine::sleep(Duration time) {
  Process* const process = Process::current();
  PHAROS_CHECK(process != nullptr, "sleep() outside of the simulated processes would last for ever; use run_for()");
  process->sleep(time);
  if (process->alive()) return;
  throw_error(Error{ErrorCode::kRuntimeStopped, "the simulated process " + process->name() + " has ended"});
}

void SimulatedMachine::fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t drawn = world_.lots().next();
    const std::size_t count = std::min(bytes.size(), sizeof drawn);
    std::memcpy(bytes.data(), &drawn, count);
    bytes = bytes.subspan(count);
  }
}

}  // namespace pharos::simulator
