#include "simulator/world.hpp"

#include <algorithm>
#include <tuple>

#include <pharos/base/check.hpp>

namespace pharos::simulator {
namespace {
World* the_world = nullptr;
}  // namespace

World::World(std::uint64_t seed) : lots_{seed} {
  PHAROS_CHECK(the_world == nullptr);
  the_world = this;
}

World::~World() {
  the_world = nullptr;
}

World& World::of_this_program() {
  PHAROS_CHECK(the_world != nullptr);
  return *the_world;
}

bool World::Event::operator>(const Event& other) const {
  return std::tie(when, lot, number) > std::tie(other.when, other.lot, other.number);
}

void World::at(TimePoint when, async::Callback happen) {
  events_.push({std::max(when, now_), lots_.next(), ++last_number_, std::move(happen)});
}

bool World::step() {
  if (events_.empty()) return false;
  async::Callback happen = std::move(events_.top().happen);
  now_ = events_.top().when;
  events_.pop();
  ++steps_;
  happen();
  return true;
}

void World::run_for(Duration time) {
  const TimePoint end = now_ + time;
  while (!events_.empty() && events_.top().when <= end) step();
  now_ = end;
}

}  // namespace pharos::simulator
