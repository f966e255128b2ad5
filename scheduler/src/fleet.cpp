#include <algorithm>
#include <tuple>
#include <utility>

#include <pharos/scheduler/fleet.hpp>

namespace pharos::scheduler {
namespace {

constexpr double kHalf = 0.5;

double fill_of(double use) {
  return use < kHalf ? 0 : use;
}

double use_of(const Fleet::Node& node) {
  const Resources& total = node.ledger.total();
  double use = 0;
  for (const auto& [name, amount] : total.amounts()) {
    const std::int64_t taken = amount - node.ledger.left().of(name) + node.tasks.of(name) + node.set_aside.of(name);
    use = std::max(use, static_cast<double>(taken) / static_cast<double>(amount));
  }
  return use;
}

double crowd_of(const Fleet::Node& node) {
  return static_cast<double>(node.users * Resources::kWhole) /
         static_cast<double>(std::max(node.ledger.total().cpus(), Resources::kWhole));
}

/// Returns whether other nodes come before this one for the demand. Demands for nothing do not change a node's use, so
/// for them the number of users decides.
bool is_half_full(const Fleet::Node& node, const Demand& demand) {
  return node.use >= kHalf || (demand.amounts.empty() && node.crowd >= kHalf);
}

}  // namespace

std::string Demand::to_string() const {
  std::string text = amounts.to_string();
  if (only) text += " on node " + pharos::to_string(only);
  return labels.empty() ? text : text + " on a node with " + labels_to_string();
}

std::string Demand::labels_to_string() const {
  std::string text;
  for (const LabelRule& rule : labels) text += (text.empty() ? "" : " and ") + rule.to_string();
  return text;
}

bool Fleet::LessFill::operator()(const Node* a, const Node* b) const {
  return std::tuple{fill_of(a->use), fill_of(a->crowd), a->index} <
         std::tuple{fill_of(b->use), fill_of(b->crowd), b->index};
}

bool Fleet::LessUse::operator()(const Node* a, const Node* b) const {
  return std::tuple{a->use, a->crowd, a->index} < std::tuple{b->use, b->crowd, b->index};
}

Resources Fleet::Node::room_before(std::uint64_t number) const {
  Resources room = ledger.left();
  for (auto claim = claims.begin(); claim != claims.end() && claim->first < number; ++claim) room -= claim->second;
  return room;
}

// ---- Changes

template <class Change>
void Fleet::change(Node& node, Change change) {
  Orders& orders = orders_of(node);
  if (!node.closed) {
    orders.by_fill.erase(&node);
    orders.by_use.erase(&node);
  }
  change();
  node.use = use_of(node);
  node.crowd = crowd_of(node);
  if (node.closed) return;
  orders.by_fill.insert(&node);
  orders.by_use.insert(&node);
}

Fleet::Node& Fleet::add(NodeId id, const Resources& total, Labels labels) {
  remove(id);
  auto& node =
      *(nodes_[id] = std::make_unique<Node>(Node{id, ++last_index_, std::move(labels), ResourceLedger{total}}));
  total_ += total;
  left_ += total;
  orders_of(node).by_fill.insert(&node);
  orders_of(node).by_use.insert(&node);
  return node;
}

void Fleet::remove(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  Node& node = *found->second;
  set_tasks(node, {});
  close(node);
  total_ -= node.ledger.total();
  left_ -= node.ledger.left();
  nodes_.erase(found);
}

void Fleet::close(Node& node) {
  change(node, [&] { node.closed = true; });
}

void Fleet::open(Node& node) {
  change(node, [&] { node.closed = false; });
}

Allotment Fleet::take(Node& node, const Resources& amounts) {
  Allotment allotment;
  change(node, [&] {
    allotment = node.ledger.take(amounts);
    ++node.users;
  });
  left_ -= amounts;
  return allotment;
}

void Fleet::take(Node& node, const Allotment& allotment) {
  change(node, [&] {
    node.ledger.take(allotment);
    ++node.users;
  });
  left_ -= allotment.amounts;
}

void Fleet::give_back(Node& node, const Allotment& allotment) {
  change(node, [&] {
    node.ledger.give_back(allotment);
    --node.users;
  });
  left_ += allotment.amounts;
}

void Fleet::take_user(Node& node, int more) {
  change(node, [&] { node.users += more; });
}

void Fleet::set_tasks(Node& node, Resources tasks) {
  if (!node.tasks.empty()) --with_tasks_;
  if (!tasks.empty()) ++with_tasks_;
  change(node, [&] { node.tasks = std::move(tasks); });
}

void Fleet::claim(Node& node, std::uint64_t number, const Resources& amounts) {
  change(node, [&] {
    node.claims.emplace(number, amounts);
    node.set_aside += amounts;
  });
}

void Fleet::unclaim(Node& node, std::uint64_t number) {
  const auto found = node.claims.find(number);
  if (found == node.claims.end()) return;
  change(node, [&] {
    node.set_aside -= found->second;
    node.claims.erase(found);
  });
}

void Fleet::pass_claim(Node& node, std::uint64_t number, std::uint64_t to) {
  auto claim = node.claims.extract(number);
  claim.key() = to;
  node.claims.insert(std::move(claim));
}

// ---- Searches

Fleet::Node* Fleet::find(NodeId id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second.get();
}

const Fleet::Node* Fleet::find(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second.get();
}

bool Fleet::could_fit(const Node& node, const Demand& demand) {
  return !node.closed && (!demand.only || demand.only == node.id) && node.ledger.could_fit(demand.amounts) &&
         std::all_of(demand.labels.begin(), demand.labels.end(),
                     [&](const LabelRule& rule) { return rule.holds_for(node.labels); });
}

bool Fleet::could_fit(const Demand& demand) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) { return could_fit(*entry.second, demand); });
}

bool Fleet::fits(const Node& node, const Demand& demand) {
  return demand.amounts.fits_in(node.ledger.left(), node.set_aside) && could_fit(node, demand) &&
         node.ledger.fits(demand.amounts);
}

template <class Find>
Fleet::Node* Fleet::find_in_orders(const Demand& demand, Find find) const {
  for (const Orders* const orders : {&without_gpus_, &with_gpus_}) {
    if (orders == &without_gpus_ && demand.amounts.gpus() != 0) continue;
    if (Node* const found = find(*orders)) return found;
  }
  return nullptr;
}

Fleet::Node* Fleet::choose(const Demand& demand, const Preference& preference) {
  Node* const near = find(demand.only ? demand.only : preference.near);
  if (near != nullptr && fits(*near, demand)) return near;
  if (demand.only) return nullptr;
  for (const std::vector<LabelRule>& rules : preference.labels) {
    Demand narrower = demand;
    narrower.labels.insert(narrower.labels.end(), rules.begin(), rules.end());
    if (Node* const node = choose(narrower, {{}, preference.asked_at, preference.spread, {}})) return node;
  }
  Node* const asked_at = find(preference.asked_at);
  if (!preference.spread && asked_at != nullptr && !is_half_full(*asked_at, demand) &&
      asked_at->has_gpus() == (demand.amounts.gpus() != 0) && fits(*asked_at, demand)) {
    return asked_at;
  }
  // Resources that tasks hold become free when the tasks are done, which may take a while. So nodes with room beside
  // their tasks are tried first.
  for (const bool beside_tasks : {true, false}) {
    if (beside_tasks && with_tasks_ == 0) continue;
    const auto first_of = [&](const auto& order) -> Node* {
      const auto found = std::find_if(order.begin(), order.end(), [&](const Node* node) {
        return fits(*node, demand) &&
               (!beside_tasks || demand.amounts.fits_in(node->ledger.left(), node->set_aside, node->tasks));
      });
      return found == order.end() ? nullptr : *found;
    };
    Node* const found = find_in_orders(demand, [&](const Orders& orders) {
      return preference.spread ? first_of(orders.by_use) : first_of(orders.by_fill);
    });
    if (found != nullptr) return found;
  }
  return nullptr;
}

Fleet::Node* Fleet::find_room(const Demand& demand, NodeId near, NodeId except) {
  const auto has_room = [&](const Node& node) {
    return node.id != except && fits(node, demand) &&
           demand.amounts.fits_in(node.ledger.left(), node.set_aside, node.tasks);
  };
  Node* const nearest = find(near);
  if (nearest != nullptr && has_room(*nearest)) return nearest;
  return find_in_orders(demand, [&](const Orders& orders) -> Node* {
    for (Node* const node : orders.by_use) {
      if (node->use >= 1) break;
      if (has_room(*node)) return node;
    }
    return nullptr;
  });
}

Fleet::Node* Fleet::choose_to_wait_for(const Demand& demand) {
  if (demand.only) {
    Node* const node = find(demand.only);
    return node != nullptr && could_fit(*node, demand) ? node : nullptr;
  }
  return find_in_orders(demand, [&](const Orders& orders) -> Node* {
    const auto found = std::find_if(orders.by_use.begin(), orders.by_use.end(),
                                    [&](const Node* node) { return could_fit(*node, demand); });
    return found == orders.by_use.end() ? nullptr : *found;
  });
}

std::vector<Fleet::Node*> Fleet::by_use() const {
  std::vector<Node*> all{without_gpus_.by_use.begin(), without_gpus_.by_use.end()};
  all.insert(all.end(), with_gpus_.by_use.begin(), with_gpus_.by_use.end());
  return all;
}

std::vector<const Fleet::Node*> Fleet::all() const {
  std::vector<const Node*> all;
  all.reserve(nodes_.size());
  for (const auto& [id, node] : nodes_) all.push_back(node.get());
  std::sort(all.begin(), all.end(), [](const Node* a, const Node* b) { return a->index < b->index; });
  return all;
}

Error Fleet::too_much(const std::string& who, const Demand& demand) const {
  const Node* nearest = nullptr;
  std::int64_t nearest_lacks = 0;
  for (const Node* node : all()) {
    if (!could_fit(*node, {{}, demand.only, demand.labels})) continue;
    std::int64_t lacks = 0;
    for (const auto& [name, amount] : demand.amounts.amounts()) {
      lacks += std::max<std::int64_t>(amount - node->ledger.total().of(name), 0);
    }
    if (nearest != nullptr && lacks >= nearest_lacks) continue;
    nearest = node;
    nearest_lacks = lacks;
  }
  std::string why;
  if (nearest != nullptr) {
    const bool alone = nodes_.size() == 1 || demand.only;
    const std::string which = demand.labels.empty() ? "" : " with " + demand.labels_to_string();
    why = demand.amounts.shortage(nearest->ledger.total(), "the node" + which + (alone ? "" : " that comes nearest"));
  } else {
    why = demand.to_string() + "; there is no " + (nodes_.empty() ? "node" : "such node");
  }
  return {ErrorCode::kInvalidArgument, who + " asks for " + why,
          "Ask for less, or add a node that has it (PHAROS_RESOURCES says what a node has)."};
}

}  // namespace pharos::scheduler
