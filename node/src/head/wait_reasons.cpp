#include "head/wait_reasons.hpp"

#include <set>
#include <vector>

#include "head/rows.hpp"
#include "node/demands.hpp"

namespace pharos::node::head {
namespace {

constexpr std::size_t kUsesMax = 32;        // demands that are explained; each costs a look at all placed actors
constexpr std::size_t kBundlesToldMax = 3;  // kinds of bundles that are explained for one group
constexpr std::size_t kHoldersToldMax = 5;  // actors that are named as holders of what others wait for

}  // namespace

std::string text_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::kPack: return "pack";
    case Strategy::kSpread: return "spread";
    case Strategy::kStrictPack: return "strict pack";
    case Strategy::kStrictSpread: return "strict spread";
  }
  return "";
}

std::string text_of(const std::vector<scheduler::Demand>& bundles) {
  std::vector<std::string> parts;
  for (const scheduler::Demand& bundle : bundles) parts.push_back(bundle.to_string());
  return listed(parts);
}

std::string WaitReasons::of_actor(const wire::StartActor& making) {
  const scheduler::Demand demand = demand_of(making.demand);
  if (!making.demand.group) return "it waits for " + demand.to_string() + use_of(demand, making.asker.job);
  std::string reason = "it waits for " + demand.amounts.to_string() + " of its group";
  if (const GroupTable::Group* const group = groups_.find(making.demand.group)) {
    reason += " \"" + group->label + '"' + (group->has_places() ? "" : ", which waits for room");
  }
  return reason;
}

std::string WaitReasons::of_group(const GroupTable::Group& group) {
  std::string why = (group.has_places() ? "it waits for tasks to leave " : "it waits for ") + text_of(group.bundles) +
                    " (" + text_of(group.strategy) + ")";
  std::set<scheduler::Demand> kinds;
  for (std::size_t i = 0; i < group.bundles.size() && kinds.size() < kBundlesToldMax; ++i) {
    if (!group.nodes[i] && kinds.insert(group.bundles[i]).second) why += use_of(group.bundles[i], group.asker.job);
  }
  return why;
}

/// Returns a text like ": 1 of 1 GPUs are in use, by actor "a""; empty once kUsesMax demands have been explained.
const std::string& WaitReasons::use_of(const scheduler::Demand& demand, JobId asker) {
  const auto [entry, is_new] = uses_.try_emplace({asker, demand});
  if (is_new && uses_.size() <= kUsesMax) entry->second = ": " + describe_use(demand, asker);
  return entry->second;
}

std::string WaitReasons::describe_use(const scheduler::Demand& demand, JobId asker) const {
  auto [text, holders] = placement_.shortage_of(demand);
  std::size_t told = 0;
  for (const ActorId holder : holders) {
    if (++told > kHoldersToldMax) break;
    text += told == 1 ? ", by " : ", ";
    if (const wire::StartActor* const other = places_.find_making(holder); other == nullptr) {
      text += "an actor that ends";
    } else if (other->asker.job != asker) {
      text += "an actor of another program";
    } else {
      text += "actor \"" + other->label + '"';
    }
  }
  if (holders.size() > kHoldersToldMax) {
    text += " and " + std::to_string(holders.size() - kHoldersToldMax) + " other actors";
  }
  return text;
}

}  // namespace pharos::node::head
