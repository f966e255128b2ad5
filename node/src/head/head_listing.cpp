// Answers to users' questions: the head's nodes, actors, groups and jobs as rows of texts, and what the actors of a
// program do.

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <tuple>

#include "head/head.hpp"
#include "head/rows.hpp"
#include "node/demands.hpp"
#include "node/descriptions.hpp"

namespace pharos::node {
namespace {

constexpr std::size_t kUsesMax = 32;        // demands that are explained; each costs a look at all placed actors
constexpr std::size_t kBundlesToldMax = 3;  // kinds of bundles that are explained for one group
constexpr std::size_t kHoldersToldMax = 5;  // actors that are named as holders of what others wait for
// Actors of a program in one answer, and as many more that wait: the size of a message is bounded.
constexpr std::size_t kInspectedMax = 4096;

/// Sorts and keeps the first `first` entries, and drops the others, which need no rows.
template <class Each, class Before>
void keep_first(std::vector<Each>& all, std::size_t first, Before before) {
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(first, all.size()));
  std::partial_sort(all.begin(), end, all.end(), before);
  all.erase(end, all.end());
}

std::string text_of(const scheduler::Resources& resources) {
  return resources.empty() ? "" : resources.to_string();
}

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

bool is_placed(const std::vector<NodeId>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](NodeId node) { return bool{node}; });
}

/// Returns "alive" for "it is alive".
std::string state_of(std::string_view sentence) {
  for (const std::string_view begin : {"it is ", "it "}) {
    if (sentence.starts_with(begin)) return std::string{sentence.substr(begin.size())};
  }
  return std::string{sentence};
}

}  // namespace

// Rows are filtered before they are cut. Without a filter only the rows that remain are made: to make those of 100 000
// actors would take longer than a head may be silent.
Result<wire::Rows> Head::list(const wire::ListRows& asked) const {
  const std::size_t first =
      asked.filters.empty() ? std::min(asked.limit, kRowsMax) : std::numeric_limits<std::size_t>::max();
  wire::Rows all;
  if (asked.table == "nodes") {
    all = list_nodes();
  } else if (asked.table == "actors") {
    all = list_actors(first);
  } else if (asked.table == "groups") {
    all = list_groups();
  } else if (asked.table == "jobs") {
    all = list_jobs();
  } else if (asked.table == "pending") {
    all = list_pending(first);
  } else if (asked.table == "records") {
    all = {{"set_aside"}, {{std::to_string(set_aside_)}}, 0, 0};
  } else {
    return Error{ErrorCode::kInvalidArgument, "there is no table \"" + asked.table + "\"",
                 "The tables are nodes, actors, groups, jobs, pending and records."};
  }
  return select_rows(std::move(all), asked);
}

wire::Rows Head::list_nodes() const {
  wire::Rows all{{"id", "address", "state", "has", "actors_have", "tasks_have", "labels"}, {}, 0, 0};
  for (const auto& [id, node] : nodes_) {
    const scheduler::Fleet::Node* const known = placement_.fleet().find(id);
    if (known == nullptr) continue;  // a program's own node, which offers no resources
    scheduler::Resources taken = known->ledger.total();
    taken -= known->ledger.left();
    std::vector<std::string> labels;
    for (const auto& [name, value] : known->labels) labels.push_back(name + "=" + value);
    all.rows.push_back({to_string(id), node.address.empty() ? "the head's" : node.address,
                        away_.contains(id) ? "silent"
                        : known->closed    ? "drains"
                                           : "alive",
                        text_of(known->ledger.total()), text_of(taken), text_of(known->tasks), listed(labels)});
  }
  return all;
}

std::string Head::reason_of(const wire::StartActor& making, Uses& known) const {
  const scheduler::Demand demand = demand_of(making.demand);
  if (!making.demand.group) return "it waits for " + demand.to_string() + use_of(demand, making.asker.job, known);
  std::string reason = "it waits for " + demand.amounts.to_string() + " of its group";
  if (const auto group = groups_.find(making.demand.group); group != groups_.end()) {
    reason += " \"" + group->second.label + '"' + (is_placed(group->second.nodes) ? "" : ", which waits for room");
  }
  return reason;
}

/// Returns a text like ": 1 of 1 GPUs are in use, by actor "a""; empty once kUsesMax demands have been explained.
const std::string& Head::use_of(const scheduler::Demand& demand, JobId asker, Uses& known) const {
  const auto [entry, is_new] = known.try_emplace({asker, demand});
  if (is_new && known.size() <= kUsesMax) entry->second = ": " + describe_use(demand, asker);
  return entry->second;
}

wire::Rows Head::list_actors(std::size_t first) const {
  Uses uses;
  wire::Rows all{
      {"id", "name", "namespace", "state", "node", "job", "incarnation", "restarts", "has", "why"}, {}, 0, 0};
  auto actors = actors_.look();
  if (first < actors.size()) {
    all.matching = actors.size();
    keep_first(actors, first, [](const auto& a, const auto& b) { return a.actor < b.actor; });
  }
  for (const auto& seen : actors) {
    const auto making = makings_.find(seen.actor);
    const auto running = running_.find(seen.actor);
    std::string why = seen.why == nullptr ? "" : seen.why->message();
    if (unplaced_.contains(seen.actor) && making != makings_.end()) why = reason_of(making->second, uses);
    all.rows.push_back({to_string(seen.actor), seen.spec->label, seen.spec->name.empty() ? "" : seen.spec->name_space,
                        state_of(seen.state), running == running_.end() ? "" : to_string(running->second.node),
                        to_string(seen.spec->job), std::to_string(seen.incarnation), std::to_string(seen.restarts),
                        making == makings_.end() ? "" : text_of(demand_of(making->second.demand).amounts), why});
  }
  return all;
}

wire::Rows Head::list_groups() const {
  wire::Rows all{{"id", "name", "strategy", "state", "bundles", "nodes", "job"}, {}, 0, 0};
  for (const auto& [id, group] : groups_) {
    std::vector<std::string> nodes;
    for (const NodeId node : group.nodes) nodes.push_back(node ? to_string(node) : "none");
    const bool placed = is_placed(group.nodes);
    const std::string state = !placed ? "waits for room" : group.unheld.empty() ? "ready" : "waits for tasks to end";
    all.rows.push_back({to_string(id), group.label, text_of(group.strategy), state, text_of(group.bundles),
                        listed(nodes), to_string(group.asker.job)});
  }
  return all;
}

wire::Rows Head::list_jobs() const {
  wire::Rows all{{"id", "program", "state", "node"}, {}, 0, 0};
  for (const auto& [id, job] : jobs_) {
    const char* const state = !job.node ? "has ended; its detached actors continue" : job.stopping ? "stops" : "runs";
    all.rows.push_back({to_string(id), job.program.executable, state, job.node ? to_string(job.node) : ""});
  }
  return all;
}

wire::Rows Head::list_pending(std::size_t first) const {
  wire::Rows all{{"what", "why", "job"}, {}, 0, 0};
  Uses uses;
  list_waiting_groups(all, uses);
  list_waiting_tasks(all);
  std::vector<const wire::StartActor*> waiting;
  for (const auto& [actor, incarnation] : unplaced_) waiting.push_back(&makings_.at(actor));
  if (first < waiting.size()) {
    all.matching = all.rows.size() + waiting.size();
    keep_first(waiting, first, [](const auto* a, const auto* b) {
      return std::tie(a->label, a->actor) < std::tie(b->label, b->actor);
    });
  }
  for (const wire::StartActor* const making : waiting) {
    all.rows.push_back({"actor \"" + making->label + '"', reason_of(*making, uses), to_string(making->asker.job)});
  }
  return all;
}

void Head::list_waiting_groups(wire::Rows& to, Uses& uses) const {
  for (const auto& [id, group] : groups_) {
    const bool placed = is_placed(group.nodes);
    if (placed && group.unheld.empty()) continue;
    std::string why = (placed ? "it waits for tasks to leave " : "it waits for ") + text_of(group.bundles) + " (" +
                      text_of(group.strategy) + ")";
    std::set<scheduler::Demand> kinds;
    for (std::size_t i = 0; i < group.bundles.size() && kinds.size() < kBundlesToldMax; ++i) {
      if (!group.nodes[i] && kinds.insert(group.bundles[i]).second) {
        why += use_of(group.bundles[i], group.asker.job, uses);
      }
    }
    to.rows.push_back({"group \"" + group.label + '"', std::move(why), to_string(group.asker.job)});
  }
}

void Head::list_waiting_tasks(wire::Rows& to) const {
  for (const auto& [id, node] : nodes_) {
    const scheduler::Fleet::Node* const known = placement_.fleet().find(id);
    if (known == nullptr) continue;
    scheduler::Resources left = known->ledger.left();
    left -= known->tasks;
    for (const auto& [amounts, workers] : node.waiting) {
      const scheduler::Resources each{amounts};
      to.rows.push_back(
          {std::to_string(workers) + (workers == 1 ? " worker" : " workers") + " for tasks at node " + to_string(id),
           "each waits for " + each.to_string() + ": " + each.use(known->ledger.total(), left), ""});
    }
  }
}

void Head::describe_actors(NodeId from, const wire::Asker& asker) {
  wire::Inspected answer{.cluster = placement_.fleet().total().amounts(), .number = asker.number};
  Uses uses;
  for (const auto& [actor, making] : makings_) {
    if (making.asker.job != asker.job) continue;
    const bool waits = unplaced_.contains(actor);
    if (answer.workers.size() >= (waits ? 2 * kInspectedMax : kInspectedMax)) continue;
    wire::InspectedWorker told{.actor = actor, .label = making.label, .state = std::string{actors_.describe(actor)}};
    if (waits) told.state = reason_of(making, uses);
    if (const auto running = running_.find(actor); running != running_.end()) {
      const NodeId node = running->second.node;
      told.amounts = making.demand.amounts;
      if (node != from) told.elsewhere = describe_node(node, address_of(node));
    }
    answer.workers.push_back(std::move(told));
  }
  for (const ActorId actor : actors_.promised_in(asker.job)) {
    answer.workers.push_back(
        {.actor = actor, .label = actors_.find_spec(actor)->label, .state = std::string{actors_.describe(actor)}});
  }
  tell(from, std::move(answer));
}

std::string Head::describe_use(const scheduler::Demand& demand, JobId asker) const {
  auto [text, holders] = placement_.shortage_of(demand);
  std::size_t told = 0;
  for (const ActorId holder : holders) {
    if (++told > kHoldersToldMax) break;
    text += told == 1 ? ", by " : ", ";
    if (const auto other = makings_.find(holder); other == makings_.end()) {
      text += "an actor that ends";
    } else if (other->second.asker.job != asker) {
      text += "an actor of another program";
    } else {
      text += "actor \"" + other->second.label + '"';
    }
  }
  if (holders.size() > kHoldersToldMax) {
    text += " and " + std::to_string(holders.size() - kHoldersToldMax) + " other actors";
  }
  return text;
}

}  // namespace pharos::node
