// Measures the placement decisions of the head alone: on which nodes actors and groups go, in clusters that are larger
// than this machine.

#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/scheduler/placement.hpp>

#include "figures.hpp"

namespace bench {
namespace {

using pharos::ActorId;
using pharos::GroupId;
using pharos::NodeId;
using pharos::Strategy;
using namespace pharos::scheduler;

constexpr std::uint64_t kPending = 100'000;
constexpr double kPlacingSeconds = 1;

/// A full cluster, and the actors that wait for a place in it.
class Crowd {
 public:
  Crowd(std::uint64_t nodes, std::size_t shapes) {
    for (std::uint64_t node = 1; node <= nodes; ++node) {
      const std::int64_t gpus = node % 4 == 0 ? 8 : 0;
      placement_.add_node(NodeId{node}, Resources{{{"cpu", 64 * Resources::kWhole},
                                                   {"gpu", gpus * Resources::kWhole},
                                                   {"memory", 256 * Resources::kWhole}}});
    }
    for (std::size_t shape = 0; shape < shapes; ++shape) shapes_.push_back(some_shape());
    while (placement_.waiting() < kPending) place_one();
  }

  /// Returns the number of placements in a second, while one actor after the other ends.
  double placements_per_s() {
    std::uint64_t placements = 0;
    const auto start = Clock::now();
    while (seconds_since(start) < kPlacingSeconds) {
      for (int i = 0; i < 100; ++i) {
        std::swap(placed_[random_() % placed_.size()], placed_.back());
        const ActorId ended = placed_.back();
        placed_.pop_back();
        placements += take(placement_.give_back(ended));
        while (placement_.waiting() < kPending) placements += place_one();
      }
    }
    return static_cast<double>(placements) / seconds_since(start);
  }

 private:
  Resources some_shape() {
    const auto some = [&](std::int64_t most) { return static_cast<std::int64_t>(1 + random_() % 1000) * most * 10; };
    Resources::Amounts amounts{{"cpu", some(16)}, {"memory", some(64)}};
    if (shapes_.size() % 3 == 0) amounts["gpu"] = Resources::kWhole;
    return Resources{std::move(amounts)};
  }
  std::uint64_t place_one() {
    const Demand demand{shapes_[random_() % shapes_.size()]};
    return take(placement_.place(ActorId{++last_}, "a", demand, {}));
  }
  std::uint64_t take(const PlacementEffects& effects) {
    for (const auto& effect : effects) placed_.push_back(std::get<Placed>(effect).actor);
    return effects.size();
  }

  std::mt19937_64 random_{1};
  pharos::scheduler::Fleet fleet_;
  Placement placement_{fleet_};
  std::vector<Resources> shapes_;
  std::vector<ActorId> placed_;
  std::uint64_t last_ = 0;
};

double group_512_ms() {
  pharos::scheduler::Fleet fleet;
  Placement placement{fleet};
  for (std::uint64_t node = 1; node <= 1000; ++node) {
    placement.add_node(NodeId{node}, *Resources::parse("cpu=64,gpu=8"));
  }
  std::uint64_t last = 0;
  return median_us(31,
                   [&] {
                     const GroupSpec spec{"g", std::vector<Demand>(512, Demand{*Resources::parse("gpu=1,cpu=4")}),
                                          Strategy::kPack};
                     if (!std::holds_alternative<GroupPlaced>(placement.place_group(GroupId{++last}, spec).at(0))) {
                       throw std::runtime_error{"the group was not placed"};
                     }
                     placement.remove_group(GroupId{last});
                   }) /
         1000;
}

}  // namespace

void measure_placement(Report& report) {
  const auto measure = [&](const char* name, std::uint64_t nodes, std::size_t shapes) {
    if (report.wants(name)) report.add(name, Crowd{nodes, shapes}.placements_per_s(), "/s");
  };
  measure("placements_per_s_1000_nodes", 1000, 10);
  measure("placements_per_s_1000_shapes", 1000, 1000);
  measure("placements_per_s_10000_nodes", 10'000, 10);
  if (report.wants("group_512_ms")) report.add("group_512_ms", group_512_ms(), "ms");
}

}  // namespace bench
