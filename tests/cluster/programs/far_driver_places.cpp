// Modes of far_driver: on which nodes actors, tasks and groups run, which resources they get, and what waits.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "far_driver.hpp"

using namespace std::chrono_literals;

namespace {

int stay(int seconds) {
  ::sleep(static_cast<unsigned>(seconds));
  return seconds;
}

/// Returns the node, once `all` tasks of this function run at the same time; "alone" if that does not happen in 20 s.
std::string meet(std::string folder, int number, int all) {
  const auto begin = std::chrono::steady_clock::now();
  std::filesystem::create_directory(folder + "/" + std::to_string(number));
  const auto there = [&] {
    return std::distance(std::filesystem::directory_iterator{folder}, std::filesystem::directory_iterator{});
  };
  while (there() < all) {
    if (std::chrono::steady_clock::now() - begin > 20s) return "alone";
    ::usleep(1000);
  }
  // If tasks are short, the next tasks wait for the same worker instead of going to another one.
  ::usleep(5000);
  return where();
}

class Keeper {
 public:
  explicit Keeper(pharos::Bytes bytes) : bytes_{std::move(bytes)} {}
  std::string node() const { return bytes_.size() == 0 ? "nothing" : where(); }

 private:
  pharos::Bytes bytes_;
};
std::string where_with(const pharos::Bytes& bytes) {
  return bytes.empty() ? "nothing" : where();
}

template <class Work>
void say_refusal(const Work& work) {
  try {
    work();
    say("not refused");
  } catch (const pharos::InvalidArgument& e) {
    say(std::string{"InvalidArgument: "} + e.what());
  }
}

}  // namespace

void run_gpu(pharos::Runtime& runtime) {
  const auto trainer = runtime.spawn<Counter>({.name = "trainer", .gpus = 1});
  say("gpu " + wait_for(trainer.call<&Counter::gpus>()));
  try {
    wait_for(runtime.spawn<Counter>({.name = "greedy", .gpus = 2}).call<&Counter::add>(1));
  } catch (const pharos::InvalidArgument& e) {
    say(std::string{"InvalidArgument: "} + e.what());
  }
}

void run_tasks(pharos::Runtime& runtime) {
  std::vector<pharos::Ref<int>> results;
  for (int i = 0; i < 1000; ++i) results.push_back(runtime.submit<&twice>(i));
  int sum = 0;
  for (const auto& result : results) sum += wait_for(result);
  say("sum " + std::to_string(sum));
  const bool elsewhere = wait_for(runtime.submit<&node_of_task>({.resources = {{"c", 1}}})) !=
                         wait_for(runtime.submit<&node_of_task>({.resources = {{"b", 1}}}));
  say(elsewhere ? "tasks go where their resources are" : "both on one node");
  // The actor finds room once the task's worker on b has been given back. The last task then leases a worker there
  // again.
  const pharos::TaskOptions on_b{.resources = {{"b", 1}}};
  say("first on b: " + std::to_string(wait_for(runtime.submit<&twice>(on_b, 1))));
  const auto alone = runtime.spawn<Counter>({.resources = {{"b", 1}}});
  wait_for(alone.call<&Counter::add>(1));
  alone.kill();
  say("again on b: " + std::to_string(wait_for(runtime.submit<&twice>(on_b, 21))));
}

/// Submits tasks for which the driver's own node has no room, while other nodes have room.
void run_overflow(pharos::Runtime& runtime, int nodes, const std::string& folder) {
  for (int round = 0; round < 3; ++round) {
    const std::string place = folder + "/round" + std::to_string(round);
    std::filesystem::create_directory(place);
    std::vector<pharos::Ref<std::string>> met;
    for (int i = 0; i < nodes; ++i) met.push_back(runtime.submit<&meet>(place, i, nodes));
    std::set<std::string> places;
    for (const auto& each : met) places.insert(wait_for(each));
    say("met on " + std::to_string(places.size()) + (places.contains("alone") ? ", or not" : ""));
  }
}

/// A task runs on the node that has its argument, if the argument is large and is not on this node too.
void run_nearest(pharos::Runtime& runtime) {
  const auto there = runtime.spawn<Counter>({.resources = {{"c", 0.5}}});
  const std::string place = wait_for(there.call<&Counter::node>());
  const pharos::TaskOptions on_c{.cpus = 0, .resources = {{"c", 0.5}}};
  const auto large = runtime.submit<&many_bytes>(on_c, std::size_t{16} << 20);
  const auto small = runtime.submit<&many_bytes>(on_c, std::size_t{200} << 10);
  say("to what is large: " + std::string{wait_for(runtime.submit<&where_with>(large)) == place ? "yes" : "no"});
  say("to what is small: " + std::string{wait_for(runtime.submit<&where_with>(small)) == place ? "yes" : "no"});
  const auto ready = [](const auto& ref) {
    while (!ref.ready()) std::this_thread::sleep_for(1ms);
  };
  ready(large);
  ready(small);
  say_whether("to what is large and ready", wait_for(runtime.submit<&where_with>(large)) == place);
  say_whether("to what is small and ready", wait_for(runtime.submit<&where_with>(small)) == place);
  const auto near = runtime.spawn<Keeper>(large);
  say_whether("an actor to what is large", wait_for(near.call<&Keeper::node>()) == place);
  static_cast<void>(wait_for(large));
  say("to what is here, too: " + std::string{wait_for(runtime.submit<&where_with>(large)) == place ? "yes" : "no"});
}

std::size_t nodes_seen() {
  return pharos::Runtime{}.nodes().size();
}

/// Says what the program sees of the cluster. An actor with one CPU runs on node `c`.
void say_nodes(pharos::Runtime& runtime, pharos::NodeId b, pharos::NodeId c) {
  say("nodes: " + std::to_string(runtime.nodes().size()) +
      ", seen by a task: " + std::to_string(wait_for(runtime.submit<&nodes_seen>())));
  // The node tells the head of the task's end a moment later.
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (runtime.resources().in_use != pharos::ResourceAmounts{{"cpu", 1}} &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(10ms);
  }
  const auto nodes = runtime.nodes();
  const auto node = [&](pharos::NodeId id) { return *std::ranges::find(nodes, id, &pharos::ClusterNode::id); };
  say_whether("labels", node(c).labels == std::map<std::string, std::string>{{"disk", "ssd"}, {"zone", "c"}});
  say_whether("what a node has", node(b).resources.has.at("b") == 1 && node(b).resources.has.at("cpu") == 2);
  say_whether("what is in use", node(c).resources.in_use.at("cpu") == 1 && !node(b).resources.in_use.contains("b"));
  say_whether("addresses", !node(b).address.empty() && node(b).state == pharos::ClusterNode::State::kAlive);
  const auto all = runtime.resources();
  say_whether("all together",
              all.has.at("c") == 1 && all.has.at("cpu") == 5 && all.in_use == pharos::ResourceAmounts{{"cpu", 1}});
}

/// Needs a node "b" with the label zone=b, and a node "c" with the labels zone=c and disk=ssd.
void run_placed(pharos::Runtime& runtime) {
  {
    std::vector<pharos::Actor<Counter>> spread;
    std::set<pharos::NodeId> nodes;
    for (int i = 0; i < 3; ++i) {
      spread.push_back(runtime.spawn<Counter>({.cpus = 1, .spread = true}));
      nodes.insert(wait_for(spread.back().call<&Counter::node_id>()));
    }
    say("spread over " + std::to_string(nodes.size()));
  }
  const auto b = wait_for(runtime.submit<&node_id>({.resources = {{"b", 1}}}));
  const auto c = wait_for(runtime.submit<&node_id>({.resources = {{"c", 1}}}));
  const auto node_with = [&](const pharos::ActorOptions& options) {
    return wait_for(runtime.spawn<Counter>(options).call<&Counter::node_id>());
  };
  say_whether("a label's actor", node_with({.labels = {{"zone", "in(c, d)"}}}) == c);
  say_whether("a label's task", wait_for(runtime.submit<&node_id>({.labels = {{"disk", "ssd"}}})) == c);
  say_whether("a node's actor", node_with({.node = b}) == b);
  say_whether("a node's task", wait_for(runtime.submit<&node_id>({.node = c})) == c);
  using Rules = std::vector<std::map<std::string, std::string>>;
  const Rules preferred{{{"zone", "x"}}, {{"disk", "ssd"}}, {{"zone", "b"}}};
  say_whether("a preferred node's actor", node_with({.prefer = preferred}) == c);
  say_whether("a preferred node's task", wait_for(runtime.submit<&node_id>({.cpus = 0, .prefer = preferred})) == c);
  say_whether("a preferred node that is full",
              wait_for(runtime.submit<&node_id>({.cpus = 0, .resources = {{"b", 1}}, .prefer = preferred})) == b);
  say_whether("no preferred node", node_with({.prefer = {{{"zone", "x"}}}}) != pharos::NodeId{});
  say_whether("near", node_with({.near = c}) == c && wait_for(runtime.submit<&node_id>({.near = b})) == b);
  {
    const auto actor = runtime.spawn<Counter>({.cpus = 1, .node = c});
    wait_for(actor.call<&Counter::node_id>());
    say_nodes(runtime, b, c);
  }
  say_refusal([&] { node_with({.name = "lost", .labels = {{"zone", "x"}}}); });
  say_refusal([&] { node_with({.labels = {{"zone", "in(a, b"}}}); });
}

void run_groups(pharos::Runtime& runtime) {
  const auto group = runtime.reserve(
      {.bundles = {{.cpus = 1}, {.cpus = 1}, {.cpus = 1}}, .strategy = pharos::Strategy::kStrictSpread});
  const auto nodes = wait_for(group.nodes());
  say("spread over " + std::to_string(std::set(nodes.begin(), nodes.end()).size()));
  bool there = true;
  std::vector<pharos::Actor<Counter>> actors;
  for (std::int32_t bundle = 0; bundle < 3; ++bundle) {
    actors.push_back(runtime.spawn<Counter>({.cpus = 1, .group = group, .bundle = bundle}));
    there = there && wait_for(actors.back().call<&Counter::node_id>()) == nodes[static_cast<std::size_t>(bundle)];
  }
  say_whether("each in its bundle", there);
  const auto task = runtime.submit<&node_id>({.cpus = 1, .group = group, .bundle = 1});
  say_whether("a task waits", pharos::wait(std::vector{task}, {.deadline = pharos::Deadline::in(200ms)}).ready.empty());
  actors[1].kill();
  say_whether("and runs in its bundle", wait_for(task) == nodes[1]);
  actors[1] = runtime.spawn<Counter>({.cpus = 1, .group = group, .bundle = 1});
  say_whether("where an actor follows it", wait_for(actors[1].call<&Counter::node_id>()) == nodes[1]);
  const auto next = runtime.spawn<Counter>({.cpus = 1, .group = group});
  const auto added = next.call<&Counter::add>(1);
  const bool waits = !pharos::wait(std::vector{added}, {.deadline = pharos::Deadline::in(200ms)}).ready.empty();
  say_whether("another waits", !waits);
  actors.front().kill();
  say_whether("and has its turn", wait_for(next.call<&Counter::node_id>()) == nodes.front());
  say_refusal([&] { runtime.spawn<Counter>({.cpus = 2, .group = group}).call<&Counter::add>(1).get(); });
  say_refusal([&] {
    const pharos::GroupOptions tight{
        .name = "tight", .bundles = {{.cpus = 1}, {.cpus = 2}}, .strategy = pharos::Strategy::kStrictPack};
    wait_for(runtime.reserve(tight).nodes());
  });
  const auto later = runtime.reserve({.bundles = {{.cpus = 1}, {.cpus = 1}}});
  say_whether("a second group waits",
              pharos::wait(std::vector{later.nodes()}, {.deadline = pharos::Deadline::in(200ms)}).ready.empty());
  group.remove();
  for (const auto& actor : actors) actor.kill();
  next.kill();
  say("then has " + std::to_string(wait_for(later.nodes()).size()));
}

/// Waits for an actor or for tasks on "c", or for a CPU when three tasks have all CPUs. After SIGQUIT the program
/// writes what it waits for.
void run_waits(pharos::Runtime& runtime, const std::string& what) {
  const pharos::TaskOptions on_c{.resources = {{"c", 1}}};
  say("c is " + wait_for(runtime.submit<&node_of_task>(on_c)));
  if (what == "actor") {
    const auto far = runtime.spawn<Counter>({.name = "far", .resources = {{"c", 1}}});
    far.call<&Counter::stay>(60).get();
  }
  if (what == "task") runtime.submit<&stay>(on_c, 60).get();
  if (what == "tasks") {
    std::vector<pharos::Ref<int>> all;
    for (int i = 0; i < 3; ++i) all.push_back(runtime.submit<&stay>(on_c, 60));
    all.back().get();
  }
  if (what == "cpu") {
    std::vector<pharos::Ref<int>> all;
    for (int i = 0; i < 4; ++i) all.push_back(runtime.submit<&stay>(60));
    all.back().get();
  }
}

/// Wants what no node has: with a wait for a node that joins, and without one that comes in time.
void run_wants_node(pharos::Runtime& runtime) {
  const auto task = runtime.submit<&node_of_task>({.cpus = 0, .resources = {{"late", 1}}, .wait_for_nodes = 60s});
  const auto actor = runtime.spawn<Counter>({.resources = {{"late", 1}}, .wait_for_nodes = 60s});
  const auto of_actor = actor.call<&Counter::node>();
  const auto group = runtime.reserve({.bundles = {{.resources = {{"late", 1}}}}, .wait_for_nodes = 60s});
  const auto members =
      runtime.spawn_group<Counter>({.size = 1, .member = {.resources = {{"late", 1}}}, .wait_for_nodes = 60s});
  const auto in_vain = runtime.submit<&node_of_task>({.resources = {{"never", 1}}, .wait_for_nodes = 1s});
  say("in vain: " + in_vain.try_get().error().message());
  say_whether("others wait", !task.ready() && !of_actor.ready() && !group.nodes().ready());
  say("task at " + wait_for(task));
  say("actor at " + wait_for(of_actor));
  say("group at " + to_string(wait_for(group.nodes()).front()));
  say("member at " + wait_for(members.call<&Counter::node>(0)));
}

/// Has an actor and a group that hold resources for which another actor and group wait, until the test ends the
/// program.
void run_crowd(pharos::Runtime& runtime) {
  const auto holder = runtime.spawn<Counter>({.name = "holder", .resources = {{"b", 1}}});
  const auto next = runtime.spawn<Counter>({.name = "next", .resources = {{"b", 1}}});
  const auto early = runtime.reserve({.name = "early", .bundles = {{.resources = {{"c", 1}}}}});
  const auto late = runtime.reserve({.name = "late", .bundles = {{.resources = {{"c", 1}}}}});
  wait_for(early.nodes());
  wait_for(holder.call<&Counter::add>(1));
  say("ready");
  next.call<&Counter::add>(1).get();
}

/// Owns actors, objects, a group and a task, spread over all nodes, until the test ends the program.
void run_owner(pharos::Runtime& runtime) {
  const auto on_b = runtime.spawn<Counter>({.name = "on b", .resources = {{"b", 1}}, .max_restarts = -1});
  const auto on_c = runtime.spawn<Counter>({.name = "on c", .name_space = "all", .resources = {{"c", 1}}});
  const auto holder = runtime.spawn<Holder>({.gpus = 1}, std::string(1 << 20, 'a'));
  const auto value = runtime.put(pharos::Bytes{std::string(8 << 20, 'a')});
  const auto made_by = [&](const pharos::Actor<Counter>& neighbour) {
    const pharos::TaskOptions beside{.cpus = 0, .node = wait_for(neighbour.call<&Counter::node_id>())};
    return runtime.submit<&many_bytes>(beside, std::size_t{8} << 20);
  };
  const auto lies_on_b = made_by(on_b);
  const auto lies_on_c = made_by(on_c);
  const auto group = runtime.reserve({.name = "group", .bundles = {{.resources = {{"both", 1}}}}});
  const auto task = runtime.submit<&stay>(60);
  const auto greedy = runtime.spawn<Counter>({.name = "waits", .resources = {{"b", 1}}});
  wait_for(on_b.call<&Counter::add>(1));
  wait_for(on_c.call<&Counter::add>(1));
  wait_for(holder.call<&Holder::measure>(value));
  pharos::wait(std::vector{lies_on_b, lies_on_c}, {.count = 2});
  wait_for(group.nodes());
  say("ready");
  task.get();
}
