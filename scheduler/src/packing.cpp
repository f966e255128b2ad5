#include "packing.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace pharos::scheduler {
namespace {

using Node = Fleet::Node;

auto size_of(const Demand& demand) {
  std::int64_t sum = 0;
  for (const auto& [name, amount] : demand.amounts.amounts()) sum += amount;
  return std::tuple{demand.amounts.gpus(), demand.amounts.cpus(), sum};
}

class Packer {
 public:
  Packer(const std::vector<const Demand*>& bundles, const Packing& packing)
      : bundles_{bundles}, packing_{packing}, nodes_(bundles.size()), order_(bundles.size()), kinds_(bundles.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    // Equal bundles become neighbours, which the numbering of kinds below needs.
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      const auto size_a = size_of(*bundles_[a]);
      const auto size_b = size_of(*bundles_[b]);
      return size_a != size_b ? size_a > size_b : *bundles_[a] < *bundles_[b];
    });
    for (std::size_t i = 1; i < order_.size(); ++i) {
      kinds_[order_[i]] = kinds_[order_[i - 1]] + (*bundles_[order_[i]] == *bundles_[order_[i - 1]] ? 0 : 1);
    }
  }

  bool pack_strictly() {
    Demand all;
    std::vector<const Resources*> amounts;
    for (const Demand* const bundle : bundles_) {
      all.amounts += bundle->amounts;
      amounts.push_back(&bundle->amounts);
    }
    const auto found = std::find_if(packing_.nodes.begin(), packing_.nodes.end(), [&](Node* node) {
      const bool parts_group = packing_.taken.count(node->id) != packing_.taken.size();
      if (parts_group || !packing_.may_fit(*node, all)) return false;
      const bool may_all_fit = std::all_of(bundles_.begin(), bundles_.end(),
                                           [&](const Demand* bundle) { return packing_.may_fit(*node, *bundle); });
      return may_all_fit && !packing_.room(*node).find_allotments(amounts).empty();
    });
    if (found == packing_.nodes.end()) return false;
    std::fill(nodes_.begin(), nodes_.end(), *found);
    return true;
  }

  bool pack() {
    std::vector<Node*> used;
    for (Node* const node : packing_.nodes) {
      if (packing_.taken.contains(node->id)) used.push_back(node);
    }
    std::size_t first_used = 0;  // the nodes before have no room for a bundle of this kind
    std::size_t first_node = 0;
    std::size_t kind = 0;
    for (const std::size_t bundle : order_) {
      if (std::exchange(kind, kinds_[bundle]) != kinds_[bundle]) first_used = first_node = 0;
      while (first_used < used.size() && !take(bundle, *used[first_used])) ++first_used;
      if (first_used < used.size()) continue;
      while (first_node < packing_.nodes.size() && !take(bundle, *packing_.nodes[first_node])) ++first_node;
      if (first_node == packing_.nodes.size()) return false;
      used.push_back(packing_.nodes[first_node]);
    }
    return true;
  }

  /// Places at most `most` bundles of the group on one node.
  bool spread(std::size_t most) {
    std::vector<std::size_t> left = order_;
    for (std::size_t round = 1; !left.empty() && round <= most; ++round) {
      bool placed = false;
      for (Node* const node : packing_.nodes) {
        if (left.empty()) break;
        if (packing_.taken.count(node->id) + given_[node] >= round) {
          placed = true;  // the node may get a bundle in a later round
          continue;
        }
        std::optional<std::size_t> no_room;
        const auto fits = std::find_if(left.begin(), left.end(), [&](std::size_t bundle) {
          if (no_room == kinds_[bundle]) return false;
          no_room = kinds_[bundle];
          return take(bundle, *node);
        });
        if (fits == left.end()) continue;
        left.erase(fits);
        ++given_[node];
        placed = true;
      }
      if (!placed) break;
    }
    return left.empty();
  }

  /// Finds a node of its own for each bundle, as a maximum matching: a bundle may move to another node to make room for
  /// the next one.
  bool match() {
    trial_.clear();
    if (kinds_[order_.back()] == 0) return false;  // all bundles are alike: spread() has tried all possibilities
    std::vector<std::vector<Node*>> choices(bundles_.size());
    for (std::size_t bundle = 0; bundle < bundles_.size(); ++bundle) {
      for (Node* const node : packing_.nodes) {
        if (!packing_.taken.contains(node->id) && fits(bundle, *node)) choices[bundle].push_back(node);
      }
    }
    std::unordered_map<Node*, std::size_t> bundle_at;
    for (const std::size_t first : order_) {
      std::unordered_map<Node*, std::size_t> reached_from;  // for each node, the bundle that would move there
      std::vector<std::size_t> seekers{first};
      Node* free = nullptr;
      for (std::size_t i = 0; i < seekers.size() && free == nullptr; ++i) {
        for (Node* const node : choices[seekers[i]]) {
          if (!reached_from.emplace(node, seekers[i]).second) continue;
          const auto other = bundle_at.find(node);
          if (other == bundle_at.end()) {
            free = node;
            break;
          }
          seekers.push_back(other->second);
        }
      }
      if (free == nullptr) return false;
      for (Node* node = free; node != nullptr;) {
        const std::size_t bundle = reached_from.at(node);
        Node* const left_by_it = std::exchange(nodes_[bundle], node);
        bundle_at[node] = bundle;
        node = bundle == first ? nullptr : left_by_it;
      }
    }
    return true;
  }

  void forget() {
    trial_.clear();
    given_.clear();
    std::fill(nodes_.begin(), nodes_.end(), nullptr);
  }
  std::vector<Node*> nodes() && { return std::move(nodes_); }

 private:
  ResourceLedger& room_at(Node& node) {
    const auto found = trial_.find(&node);
    return found != trial_.end() ? found->second : trial_.emplace(&node, packing_.room(node)).first->second;
  }
  bool fits(std::size_t bundle, Node& node) {
    const Demand& demand = *bundles_[bundle];
    return packing_.may_fit(node, demand) && room_at(node).fits(demand.amounts);
  }
  bool take(std::size_t bundle, Node& node) {
    if (!fits(bundle, node)) return false;
    room_at(node).take(bundles_[bundle]->amounts);
    nodes_[bundle] = &node;
    return true;
  }

  const std::vector<const Demand*>& bundles_;
  const Packing& packing_;
  std::vector<Node*> nodes_;        // for each bundle
  std::vector<std::size_t> order_;  // indices of the bundles, the largest first
  std::vector<std::size_t> kinds_;  // for each bundle; equal bundles have the same kind
  std::unordered_map<Node*, ResourceLedger> trial_;
  std::unordered_map<Node*, std::size_t> given_;
};

}  // namespace

std::vector<Fleet::Node*> pack(const std::vector<const Demand*>& bundles, Strategy strategy, const Packing& packing) {
  Packer packer{bundles, packing};
  const auto done = [&] {
    switch (strategy) {
      case Strategy::kStrictPack: return packer.pack_strictly();
      case Strategy::kPack:
        if (packing.taken.empty() && packer.pack_strictly()) return true;
        packer.forget();
        return packer.pack();
      case Strategy::kSpread: return packer.spread(bundles.size() + packing.taken.size());
      case Strategy::kStrictSpread:
        if (packer.spread(1)) return true;
        packer.forget();
        return packer.match();
    }
    return false;
  };
  return done() ? std::move(packer).nodes() : std::vector<Fleet::Node*>{};
}

}  // namespace pharos::scheduler
