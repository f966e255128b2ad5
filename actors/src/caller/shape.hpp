#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/environment.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::actors {

/// The resources that a task or an actor asks for, and the nodes on which it may or should run. A value.
struct Shape {
  scheduler::Demand demand;
  NodeId near{};
  bool spread = false;
  std::int64_t wait_ms = 0;  ///< wire::Demand::wait_ms
  scheduler::Environment environment{};
  std::vector<std::vector<scheduler::LabelRule>> prefer{};
  std::int32_t bundle = -1;  ///< wire::Demand::bundle, if the demand has a group

  /// Makes the shape that options describe. kInvalidArgument if the options make no sense: a negative amount, "cpu",
  /// "gpu" or "memory" among the other resources, a rule or a variable that cannot be read, or a negative time.
  template <class Options>
  static Result<Shape> of(const Options& options) {
    PHAROS_TRY(scheduler::Resources amounts, amounts_of(options.cpus, options.gpus, options.memory, options.resources));
    PHAROS_TRY(auto labels, rules_of(options.labels));
    Shape shape{{std::move(amounts), options.node, std::move(labels)}};
    if constexpr (requires { options.near; }) {
      shape.near = options.near;
      shape.spread = options.spread;
      PHAROS_TRY(shape.wait_ms, wait_of(options.wait_for_nodes));
      PHAROS_TRY(shape.environment, scheduler::environment_of(options.env));
      for (const auto& rules : options.prefer) {
        PHAROS_TRY(auto parsed, rules_of(rules));
        shape.prefer.push_back(std::move(parsed));
      }
    }
    if constexpr (requires { options.group; }) {
      shape.demand.group = options.group.id();
      shape.bundle = options.group.id() ? options.bundle : -1;
    }
    return shape;
  }
  /// Makes the shape of tasks that ask for CPUs alone.
  static Shape of_cpus(std::uint32_t cpus) { return {{scheduler::Resources::of_cpus(cpus)}}; }

  /// Returns whether any process may run such a task, also the one that waits for its result. So it is with the CPUs of
  /// a group, because tasks that wait for tasks of their group could else fill its bundles for ever.
  bool fits_anywhere() const {
    return demand.amounts.only_cpus() && !demand.only && demand.labels.empty() && prefer.empty() && environment.empty();
  }
  wire::Demand to_wire() const;
  /// Returns wire::Demand::wait_ms for an option `wait_for_nodes`. kInvalidArgument if the time is negative.
  static Result<std::int64_t> wait_of(Duration wait_for_nodes);
  friend auto operator<=>(const Shape&, const Shape&) = default;

 private:
  static Result<scheduler::Resources> amounts_of(double cpus, double gpus, ByteCount memory,
                                                 const std::map<std::string, double>& others);
  static Result<std::vector<scheduler::LabelRule>> rules_of(const std::map<std::string, std::string>& rules);
};

}  // namespace pharos::actors
