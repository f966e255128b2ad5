#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <pharos/base/error.hpp>
#include <pharos/base/id.hpp>

// What several messages have in common, and the answers to requests of many kinds. See pharos/wire/message.hpp.

namespace pharos::wire {

/// The first 20 bytes of the executable's build id, or of a hash of the executable.
using BuildId = std::array<std::uint8_t, 20>;
/// The answer to a request that could not be met.
struct Failure {
  Error error;
};
/// Head to node: the answer to a request that could not be met. Also node to head, for a lease.
struct Refused {
  std::uint64_t number = 0;
  Error why;
};
/// The answer to several requests.
struct Done {};
/// The process that asks the head something. Its node fills this in when it passes the question on to the head.
struct Asker {
  JobId job;
  CallerId caller;
  std::uint64_t number = 0;  ///< number of the question, which the node has chosen
};
/// Amounts of resources by name, in units of 1/10000.
using Amounts = std::map<std::string, std::int64_t>;
/// One condition on a node's labels.
struct LabelRule {
  std::string name;
  std::vector<std::string> values;  ///< the node's label must have one of these values
  bool is_not = false;              ///< instead: the label has none of these values, or the node lacks the label
  friend bool operator==(const LabelRule&, const LabelRule&) = default;
};
/// The resources that a task, an actor or a bundle needs, and the nodes that it accepts.
struct Demand {
  Amounts amounts{};
  NodeId only{};                    ///< if set, the only node that is accepted
  std::vector<LabelRule> labels{};  ///< all of these conditions must hold
  NodeId near{};                    ///< if set, the preferred node, if it has room
  bool spread = false;              ///< prefer the least used node
  /// Nodes that fulfil the first conditions are preferred to those that fulfil the second ones, and so on.
  std::vector<std::vector<LabelRule>> prefer{};
  GroupId group{};           ///< if set, use the resources of a bundle of this group
  std::int32_t bundle = -1;  ///< index of the bundle; any bundle if negative
  /// If no node of the cluster could ever meet the demand: how long it waits for a node that joins. 0: it is refused.
  std::int64_t wait_ms = 0;
  /// Variables of the process, beside those of the program: "NAME=VALUE", by their names. Not in bundles of groups.
  std::vector<std::string> environment{};
  friend bool operator==(const Demand&, const Demand&) = default;
};
/// A share of one GPU.
struct GpuShare {
  std::uint32_t index = 0;  ///< index among the node's GPUs
  std::int64_t amount = 0;
  friend bool operator==(const GpuShare&, const GpuShare&) = default;
};
/// The resources that the code of a worker may use.
struct WorkerResources {
  Amounts amounts;
  std::vector<std::string> gpus;  ///< names as in CUDA_VISIBLE_DEVICES
};
/// The value of a function's index that means "no function".
constexpr std::uint32_t kNoFunction = ~std::uint32_t{0};

}  // namespace pharos::wire
