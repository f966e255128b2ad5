// What people ask the head: its nodes, actors, groups and jobs as rows of texts.

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>

#include "demands.hpp"
#include "head.hpp"
#include "rows.hpp"

namespace pharos::node {
namespace {

constexpr std::size_t kReasonsMax = 32;  // each is a look at all actors that are placed

/// Those that come first, in their order; of the others there need be no rows.
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

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

/// "alive", of "it is alive".
std::string state_of(std::string_view sentence) {
  for (const std::string_view begin : {"it is ", "it "}) {
    if (sentence.starts_with(begin)) return std::string{sentence.substr(begin.size())};
  }
  return std::string{sentence};
}

}  // namespace

// Filtered before it is cut. Where nothing is filtered, there are rows for what is left alone: of 100 000 actors they
// would take longer than a head may be silent.
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
  } else {
    return Error{ErrorCode::kInvalidArgument, "there is no list of \"" + asked.table + "\"",
                 "There are nodes, actors, groups, jobs and pending."};
  }
  return select_rows(std::move(all), asked);
}

wire::Rows Head::list_nodes() const {
  wire::Rows all{{"id", "address", "state", "has", "actors_have", "tasks_have", "labels"}, {}, 0, 0};
  for (const auto& [id, node] : nodes_) {
    const scheduler::Fleet::Node* const known = placement_.fleet().find(id);
    if (known == nullptr) continue;  // a program's own, which gives nothing
    scheduler::Resources taken = known->ledger.total();
    taken -= known->ledger.left();
    std::vector<std::string> labels;
    for (const auto& [name, value] : known->labels) labels.push_back(name + "=" + value);
    all.rows.push_back({to_string(id), node.address.empty() ? "the head's" : node.address,
                        known->closed ? "drains" : "alive", text_of(known->ledger.total()), text_of(taken),
                        text_of(known->tasks), joined(labels)});
  }
  return all;
}

const std::string& Head::reason_of(const wire::StartActor& making, Reasons& known) const {
  const scheduler::Demand demand = demand_of(making.demand);
  std::string& reason = known[{making.asker.job, making.demand.group, demand}];
  if (reason.empty()) {
    reason = known.size() <= kReasonsMax ? describe_shortage(making) : "it waits for " + demand.to_string();
  }
  return reason;
}

wire::Rows Head::list_actors(std::size_t first) const {
  Reasons reasons;
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
    if (unplaced_.contains(seen.actor) && making != makings_.end()) why = reason_of(making->second, reasons);
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
    const bool placed = std::all_of(group.nodes.begin(), group.nodes.end(), [](NodeId node) { return bool{node}; });
    const std::string state = !placed ? "waits for room" : group.unheld.empty() ? "ready" : "waits for tasks to end";
    all.rows.push_back({to_string(id), group.label, text_of(group.strategy), state, joined(group.bundles),
                        joined(nodes), to_string(group.asker.job)});
  }
  return all;
}

wire::Rows Head::list_jobs() const {
  wire::Rows all{{"id", "program", "state", "node"}, {}, 0, 0};
  for (const auto& [id, job] : jobs_) {
    const char* const state = !job.node ? "has ended, its detached actors go on" : job.stopping ? "stops" : "runs";
    all.rows.push_back({to_string(id), job.program.executable, state, job.node ? to_string(job.node) : ""});
  }
  return all;
}

wire::Rows Head::list_pending(std::size_t first) const {
  wire::Rows all{{"what", "why", "job"}, {}, 0, 0};
  std::vector<const wire::StartActor*> waiting;
  for (const auto& [actor, incarnation] : unplaced_) waiting.push_back(&makings_.at(actor));
  for (const auto& [id, group] : groups_) {
    const bool placed = std::all_of(group.nodes.begin(), group.nodes.end(), [](NodeId node) { return bool{node}; });
    if (placed && group.unheld.empty()) continue;
    all.rows.push_back({"group \"" + group.label + '"',
                        (placed ? "it waits for tasks to leave " : "it waits for ") + joined(group.bundles) + " (" +
                            text_of(group.strategy) + ")",
                        to_string(group.asker.job)});
  }
  if (first < waiting.size()) {
    all.matching = all.rows.size() + waiting.size();
    keep_first(waiting, first, [](const auto* a, const auto* b) {
      return std::tie(a->label, a->actor) < std::tie(b->label, b->actor);
    });
  }
  Reasons reasons;
  for (const wire::StartActor* const making : waiting) {
    all.rows.push_back({"actor \"" + making->label + '"', reason_of(*making, reasons), to_string(making->asker.job)});
  }
  return all;
}

}  // namespace pharos::node
