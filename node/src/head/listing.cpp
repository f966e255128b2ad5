#include "head/listing.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "head/rows.hpp"
#include "head/wait_reasons.hpp"
#include "node/demands.hpp"
#include "node/descriptions.hpp"

namespace pharos::node::head {
namespace {

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
Result<wire::Rows> Listing::list(const wire::ListRows& asked) const {
  const std::size_t first =
      asked.filters.empty() ? std::min(asked.limit, kRowsMax) : std::numeric_limits<std::size_t>::max();
  wire::Rows all;
  if (asked.table == "nodes") {
    all = rows_of_nodes();
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

wire::NodesListed Listing::list_nodes(const wire::ListNodes& asked) const {
  wire::NodesListed all{.number = asked.asker.number};
  for (const auto& [id, node] : nodes_.all()) {
    const scheduler::Fleet::Node* const known = placement_.fleet().find(id);
    if (known == nullptr) continue;  // a program's own node, which offers no resources
    scheduler::Resources in_use = known->ledger.total();
    in_use -= known->ledger.left();
    in_use += known->tasks;
    all.nodes.push_back({.node = id,
                         .address = node.address,
                         .is_silent = nodes_.is_silent(id),
                         .drains = known->closed,
                         .has = known->ledger.total().amounts(),
                         .in_use = in_use.amounts(),
                         .labels = {known->labels.begin(), known->labels.end()}});
  }
  return all;
}

wire::Rows Listing::rows_of_nodes() const {
  wire::Rows all{{"id", "address", "state", "has", "actors_have", "tasks_have", "labels"}, {}, 0, 0};
  for (const auto& [id, node] : nodes_.all()) {
    const scheduler::Fleet::Node* const known = placement_.fleet().find(id);
    if (known == nullptr) continue;  // a program's own node, which offers no resources
    scheduler::Resources taken = known->ledger.total();
    taken -= known->ledger.left();
    std::vector<std::string> labels;
    for (const auto& [name, value] : known->labels) labels.push_back(name + "=" + value);
    all.rows.push_back({to_string(id), node.address.empty() ? "the head's" : node.address,
                        nodes_.is_silent(id) ? "silent"
                        : known->closed      ? "drains"
                                             : "alive",
                        text_of(known->ledger.total()), text_of(taken), text_of(known->tasks), listed(labels)});
  }
  return all;
}

wire::Rows Listing::list_actors(std::size_t first) const {
  WaitReasons reasons{placement_, places_, groups_};
  wire::Rows all{
      {"id", "name", "namespace", "state", "node", "job", "incarnation", "restarts", "has", "why"}, {}, 0, 0};
  std::vector<std::pair<ActorId, const scheduler::ActorState*>> actors;
  actors.reserve(actors_.all().size());
  for (const auto& [actor, state] : actors_.all()) actors.emplace_back(actor, &state);
  if (first < actors.size()) {
    all.matching = actors.size();
    keep_first(actors, first, [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  for (const auto& [actor, state] : actors) {
    const wire::StartActor* const making = places_.find_making(actor);
    const auto* const running = places_.running().find(actor);
    std::string why = state->why ? state->why->message() : "";
    if (places_.unplaced().contains(actor) && making != nullptr) why = reasons.of_actor(*making);
    all.rows.push_back({to_string(actor), state->spec.label, state->spec.name.empty() ? "" : state->spec.name_space,
                        state_of(state->describe()), running == nullptr ? "" : to_string(running->node),
                        to_string(state->spec.job), std::to_string(state->incarnation), std::to_string(state->restarts),
                        making == nullptr ? "" : text_of(demand_of(making->demand).amounts), why});
  }
  return all;
}

wire::Rows Listing::list_groups() const {
  wire::Rows all{{"id", "name", "strategy", "state", "bundles", "nodes", "job"}, {}, 0, 0};
  for (const auto& [id, group] : groups_.all()) {
    std::vector<std::string> nodes;
    for (const NodeId node : group.nodes) nodes.push_back(node ? to_string(node) : "none");
    const std::string state = !group.has_places()    ? "waits for room"
                              : group.unheld.empty() ? "ready"
                                                     : "waits for tasks to end";
    all.rows.push_back({to_string(id), group.label, head::text_of(group.strategy), state, head::text_of(group.bundles),
                        listed(nodes), to_string(group.asker.job)});
  }
  return all;
}

wire::Rows Listing::list_jobs() const {
  wire::Rows all{{"id", "program", "state", "node"}, {}, 0, 0};
  for (const auto& [id, job] : jobs_.all()) {
    const char* const state = !job.node ? "has ended; its detached actors continue" : job.stopping ? "stops" : "runs";
    all.rows.push_back({to_string(id), job.program.executable, state, job.node ? to_string(job.node) : ""});
  }
  return all;
}

wire::Rows Listing::list_pending(std::size_t first) const {
  wire::Rows all{{"what", "why", "job"}, {}, 0, 0};
  WaitReasons reasons{placement_, places_, groups_};
  for (const auto& [id, group] : groups_.all()) {
    if (group.has_places() && group.unheld.empty()) continue;
    all.rows.push_back({"group \"" + group.label + '"', reasons.of_group(group), to_string(group.asker.job)});
  }
  list_waiting_tasks(all);
  std::vector<const wire::StartActor*> waiting;
  for (const auto& [actor, incarnation] : places_.unplaced()) {
    waiting.push_back(places_.find_making(actor));
  }
  if (first < waiting.size()) {
    all.matching = all.rows.size() + waiting.size();
    keep_first(waiting, first, [](const auto* a, const auto* b) {
      return std::tie(a->label, a->actor) < std::tie(b->label, b->actor);
    });
  }
  for (const wire::StartActor* const making : waiting) {
    all.rows.push_back({"actor \"" + making->label + '"', reasons.of_actor(*making), to_string(making->asker.job)});
  }
  return all;
}

void Listing::list_waiting_tasks(wire::Rows& to) const {
  for (const auto& [id, node] : nodes_.all()) {
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

wire::Inspected Listing::inspect(NodeId from, const wire::Asker& asker) const {
  wire::Inspected answer{.cluster = placement_.fleet().total().amounts(), .number = asker.number};
  WaitReasons reasons{placement_, places_, groups_};
  for (const auto& [actor, making] : places_.makings()) {
    if (making.asker.job != asker.job) continue;
    const bool waits = places_.unplaced().contains(actor);
    if (answer.workers.size() >= (waits ? 2 * kInspectedMax : kInspectedMax)) continue;
    const auto* const state = actors_.look_at(actor);
    wire::InspectedWorker told{.actor = actor,
                               .label = making.label,
                               .state = state == nullptr ? "not known" : std::string{state->describe()}};
    if (waits) told.state = reasons.of_actor(making);
    if (const auto* const running = places_.running().find(actor)) {
      told.amounts = making.demand.amounts;
      if (running->node != from) told.elsewhere = describe_node(running->node, nodes_.address_of(running->node));
    }
    answer.workers.push_back(std::move(told));
  }
  for (const ActorId actor : actors_.promised_in(asker.job)) {
    const scheduler::ActorState& state = *actors_.look_at(actor);
    answer.workers.push_back({.actor = actor, .label = state.spec.label, .state = std::string{state.describe()}});
  }
  return answer;
}

}  // namespace pharos::node::head
