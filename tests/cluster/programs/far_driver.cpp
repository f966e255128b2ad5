// A program that tests run against a cluster of several nodes: `far_driver MODE`. Prints what tests look for, one line
// each, and "done" at its end; what it throws as "TYPE: message", with status 1.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using namespace std::chrono_literals;
using pharos::cluster::say;

template <class T>
T wait_for(const pharos::Ref<T>& ref) {
  return ref.get(pharos::Deadline::after(20s, std::chrono::steady_clock::now()));
}

std::string where() {
  return to_string(pharos::context().node);
}

class Counter {
 public:
  int add(int amount) { return value_ += amount; }
  std::string node() { return where(); }
  pharos::NodeId node_id() { return pharos::context().node; }
  int process() { return ::getpid(); }
  std::string gpus() {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible == nullptr ? "unset" : visible;
  }
  bool restarted() { return pharos::context().restarted; }
  int stay(int seconds) {
    ::sleep(static_cast<unsigned>(seconds));
    return seconds;
  }
  void greet() { std::cout << "hello from afar" << std::endl; }

 private:
  int value_ = 0;
};

/// Speaks at its end, and takes its time.
class Testator {
 public:
  ~Testator() {
    ::usleep(200'000);
    std::cout << "last words on " << where() << std::endl;
  }
  std::string node() { return where(); }
};

class Holder {
 public:
  explicit Holder(std::string text) : text_{std::move(text)} {}
  int size() { return static_cast<int>(text_.size()); }
  std::size_t measure(const pharos::Bytes& bytes) { return bytes.size(); }

 private:
  std::string text_;
};

/// Calls another actor from inside of its own.
class Caller {
 public:
  int call(pharos::Actor<Counter> counter, int amount) { return wait_for(counter.call<&Counter::add>(amount)); }
  std::string node() { return where(); }
  pharos::Actor<Counter> make() { return pharos::Runtime{}.spawn<Counter>(); }
  std::vector<pharos::Ref<int>> ask(pharos::Actor<Counter> counter) {
    return {counter.call<&Counter::add>(1), counter.call<&Counter::add>(1)};
  }
};

/// Breaks this process's connections to others by TCP, but for those to one port.
void cut_connections(int but_to = 0) {
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sin_family != AF_INET) continue;
    if (ntohs(peer.sin_port) != but_to) ::shutdown(fd, SHUT_RDWR);
  }
}
/// At random moments, for as long as it lives.
class Cutter {
 public:
  explicit Cutter(std::uint64_t seed, int but_to = 0)
      : thread_{[this, random = std::mt19937_64{seed}, but_to]() mutable {
          while (!done_.load()) {
            std::this_thread::sleep_for(std::chrono::microseconds{random() % 50'000});
            cut_connections(but_to);
            ++cuts_;
          }
        }} {}
  ~Cutter() {
    done_.store(true);
    thread_.join();
  }
  int cuts() const { return cuts_.load(); }

 private:
  std::atomic<bool> done_ = false;
  std::atomic<int> cuts_ = 0;
  std::thread thread_;
};

/// Sees whether the calls of each caller come once each and in their order.
class Sequence {
 public:
  int take(int caller, int number) {
    if (number != ++last_[caller]) ++wrong_;
    return number;
  }
  void cut_until_told(std::uint64_t seed) { cutter_.emplace(seed); }
  int stop_cutting() {
    const int cuts = cutter_->cuts();
    cutter_.reset();
    return cuts;
  }
  int wrong() { return wrong_; }
  int last(int caller) { return last_[caller]; }

 private:
  std::map<int, int> last_;
  int wrong_ = 0;
  std::optional<Cutter> cutter_;
};

/// How many results were not what they should be.
int write_all(const pharos::Actor<Sequence>& sequence, int caller, int calls) {
  std::vector<pharos::Ref<int>> results;
  for (int number = 1; number <= calls; ++number) {
    results.push_back(sequence.call<&Sequence::take>(caller, number));
    // Some wait, so that there are connections that break with little under way too.
    if (number % 100 == 0) wait_for(results.back());
  }
  int wrong = 0;
  for (int number = 1; number <= calls; ++number) {
    if (wait_for(results[static_cast<std::size_t>(number - 1)]) != number) ++wrong;
  }
  return wrong;
}
class Writer {
 public:
  int write(const pharos::Actor<Sequence>& sequence, int caller, int calls) {
    return write_all(sequence, caller, calls);
  }
};

pharos::NodeId node_id() {
  return pharos::context().node;
}

/// Holds a handle of another.
class Keeper {
 public:
  void keep(pharos::Actor<Counter> counter) { counter_ = counter; }
  int ask(int amount) { return wait_for(counter_->call<&Counter::add>(amount)); }

 private:
  std::optional<pharos::Actor<Counter>> counter_;
};

int nap(int number) {
  ::usleep(700'000);
  return number + 1;
}
int twice(int value) {
  return 2 * value;
}
std::string reversed(const std::string& text) {
  return {text.rbegin(), text.rend()};
}
int stay(int seconds) {
  ::sleep(static_cast<unsigned>(seconds));
  return seconds;
}
std::string node_of_task() {
  return where();
}

/// On nodes that have "b" and "c".
void run_actors(pharos::Runtime& runtime) {
  const auto on_b = runtime.spawn<Caller>({.resources = {{"b", 1}}});
  const auto on_c = runtime.spawn<Counter>({.resources = {{"c", 1}}});
  std::set<std::string> nodes{wait_for(on_b.call<&Caller::node>()), wait_for(on_c.call<&Counter::node>()),
                              to_string(pharos::context().node)};
  nodes.erase(to_string(pharos::NodeId{}));
  say(std::to_string(nodes.size()) + " nodes");
  say("driver to c: " + std::to_string(wait_for(on_c.call<&Counter::add>(3))));
  say("b to c: " + std::to_string(wait_for(on_b.call<&Caller::call>(on_c, 4))));
  wait_for(on_c.call<&Counter::greet>());
  int last = 0;
  std::vector<pharos::Ref<int>> results;
  for (int i = 0; i < 5000; ++i) results.push_back(on_c.call<&Counter::add>(1));
  for (const auto& result : results) {
    const int value = wait_for(result);
    if (value <= last) say("out of order");
    last = value;
  }
  say("5000 more: " + std::to_string(last));
  // What b has made and asked for outlives it.
  const auto sums = wait_for(on_b.call<&Caller::ask>(on_c));
  const auto made = on_b.call<&Caller::make>();
  const auto counter = wait_for(made);
  on_b.kill();
  say("b asked c: " + std::to_string(sums[0].get()) + ", " + std::to_string(sums[1].get()));
  say("made by b: " + std::to_string(wait_for(counter.call<&Counter::add>(5))));
}

void run_large(pharos::Runtime& runtime) {
  const pharos::ActorOptions on_c{.resources = {{"c", 1}}};
  {
    // More than travels inline on one machine, there and back.
    const std::string text = "begin" + std::string(8 << 20, 'a');
    const std::string back = wait_for(runtime.submit<&reversed>({.resources = {{"c", 1}}}, text));
    say("came back: " + std::to_string(back.size()) + " " + back.substr(back.size() - 6));
  }
  {
    const auto holder = runtime.spawn<Holder>(on_c, std::string(1 << 20, 'a'));
    say("held " + std::to_string(wait_for(holder.call<&Holder::size>())));
    const auto large = runtime.put(pharos::Bytes{std::string(std::size_t{256} << 20, 'a')});
    say("measured " + std::to_string(wait_for(holder.call<&Holder::measure>(large))));
    holder.kill();
  }
  const auto large = runtime.spawn<Holder>(on_c, std::string(8 << 20, 'a'));
  say("made of " + std::to_string(wait_for(large.call<&Holder::size>())));
}

void run_stop(pharos::Runtime& runtime) {
  for (const char* const resource : {"b", "c"}) {
    static std::vector<pharos::Actor<Testator>> kept;  // for longer than the Runtime
    kept.push_back(runtime.spawn<Testator>({.resources = {{resource, 1}}, .max_restarts = -1}));
    say(std::string{resource} + " is " + wait_for(kept.back().call<&Testator::node>()));
  }
}

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
  // There is room for the actor once the worker on b has been given back; then it is leased again.
  const pharos::TaskOptions on_b{.resources = {{"b", 1}}};
  say("first on b: " + std::to_string(wait_for(runtime.submit<&twice>(on_b, 1))));
  const auto alone = runtime.spawn<Counter>({.resources = {{"b", 1}}});
  wait_for(alone.call<&Counter::add>(1));
  alone.kill();
  say("again on b: " + std::to_string(wait_for(runtime.submit<&twice>(on_b, 21))));
}

/// An actor of this one outlives the program; another that it holds, too; one that only the program holds does not.
void run_leaves_detached(pharos::Runtime& runtime, bool dies) {
  const pharos::ActorOptions options{
      .name = "stays", .name_space = "far", .resources = {{"b", 0.5}}, .max_restarts = -1, .detached = true};
  const auto stays = runtime.spawn<Keeper>(options);
  const auto held = runtime.spawn<Counter>({.resources = {{"c", 0.5}}});
  const auto goes = runtime.spawn<Counter>({.resources = {{"c", 0.5}}});
  wait_for(held.call<&Counter::add>(5));
  wait_for(stays.call<&Keeper::keep>(held));
  say("goes " + std::to_string(wait_for(goes.call<&Counter::process>())));
  say("held " + std::to_string(wait_for(held.call<&Counter::process>())));
  say("ready");
  if (dies) ::pause();
}
void run_finds_detached(pharos::Runtime& runtime) {
  const auto stays = runtime.actor<Keeper>("stays", "far");
  say("kept: " + std::to_string(wait_for(stays.call<&Keeper::ask>(2))));
}
void run_ends_detached(pharos::Runtime& runtime) {
  const auto stays = runtime.actor<Keeper>("stays", "far");
  stays.stop();
  say("stopped");
}

/// Sixteen tasks at once, one after the other, until the file is there.
void run_load(pharos::Runtime& runtime, const std::string& file) {
  const pharos::TaskOptions where_both{.resources = {{"both", 0.25}}};
  say("b is " + to_string(wait_for(runtime.submit<&node_id>(where_both))));
  std::deque<std::pair<int, pharos::Ref<int>>> tasks;
  int submitted = 0;
  int wrong = 0;
  do {
    for (; tasks.size() < 16 && !std::filesystem::exists(file); ++submitted) {
      tasks.emplace_back(submitted, runtime.submit<&twice>(where_both, submitted));
    }
    if (tasks.empty()) break;
    const auto& [value, task] = tasks.front();
    wrong += wait_for(task) == 2 * value ? 0 : 1;
    if (value == 100) say("ready");
    tasks.pop_front();
  } while (!tasks.empty() || !std::filesystem::exists(file));
  say(std::to_string(wrong) + " wrong");
}

/// Counters on b that may move and that may not, and a task that takes its time; the test drains b.
void run_drained(pharos::Runtime& runtime, const std::string& go) {
  // No call of it may run twice, and none is lost.
  const auto moving = runtime.spawn<Counter>({.resources = {{"both", 0.5}}, .max_restarts = 1});
  const auto fixed = runtime.spawn<Counter>({.resources = {{"b", 0.5}}});
  const std::string b = wait_for(fixed.call<&Counter::node>());
  say("b is " + b);
  say(std::string{"moving is on b: "} + (wait_for(moving.call<&Counter::node>()) == b ? "yes" : "no"));
  std::vector<pharos::Ref<int>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(runtime.submit<&nap>({.resources = {{"both", 0.2}}}, i));
  say("ready");
  while (!std::filesystem::exists(go)) ::usleep(1000);
  for (bool moved = false; !moved;) {
    std::vector<pharos::Ref<std::string>> nodes;
    for (int i = 0; i < 50; ++i) nodes.push_back(moving.call<&Counter::node>());
    for (const auto& node : nodes) moved = wait_for(node) != b;
  }
  say("it moved");
  say("what is fixed goes on: " + std::to_string(wait_for(fixed.call<&Counter::add>(1))));
  int slept = 0;
  for (const auto& task : tasks) slept += wait_for(task);
  say("tasks ended: " + std::to_string(slept));
  fixed.kill();
}

/// An exclusive actor on b, whose node the test stops.
void run_exclusive(pharos::Runtime& runtime) {
  const auto alone = runtime.spawn<Counter>({.resources = {{"both", 1}}, .max_restarts = -1, .exclusive = true});
  const std::string before = wait_for(alone.call<&Counter::node>());
  say("process " + std::to_string(wait_for(alone.call<&Counter::process>())));
  say("ready");
  for (;;) {
    try {
      if (wait_for(alone.call<&Counter::node>()) != before) break;
    } catch (const pharos::ActorDied&) {  // what was under way
    }
    ::usleep(10'000);
  }
  say("it is elsewhere");
}

/// Comes back when so many of it run at the same time.
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
  ::usleep(5000);  // behind short tasks others wait at the same worker
  return where();
}

/// Tasks for which the driver's own node has no room, while others have.
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

pharos::Bytes many_bytes(std::size_t size) {
  return pharos::Bytes{std::string(size, 'a')};
}
std::string where_with(const pharos::Bytes& bytes) {
  return bytes.empty() ? "nothing" : where();
}

/// Tasks go to what they read, if that is much.
void run_nearest(pharos::Runtime& runtime) {
  const auto there = runtime.spawn<Counter>({.resources = {{"c", 0.5}}});
  const std::string place = wait_for(there.call<&Counter::node>());
  const pharos::TaskOptions on_c{.cpus = 0, .resources = {{"c", 0.5}}};
  const auto large = runtime.submit<&many_bytes>(on_c, std::size_t{16} << 20);
  const auto small = runtime.submit<&many_bytes>(on_c, std::size_t{200} << 10);
  say("to what is large: " + std::string{wait_for(runtime.submit<&where_with>(large)) == place ? "yes" : "no"});
  say("to what is small: " + std::string{wait_for(runtime.submit<&where_with>(small)) == place ? "yes" : "no"});
  static_cast<void>(wait_for(large));
  say("to what is here, too: " + std::string{wait_for(runtime.submit<&where_with>(large)) == place ? "yes" : "no"});
}

/// One actor that cannot go elsewhere and one that can; the test kills the node below them.
void run_loss(pharos::Runtime& runtime) {
  const auto fixed = runtime.spawn<Counter>({.name = "fixed", .resources = {{"b", 0.5}}});
  const auto moving = runtime.spawn<Counter>({.name = "moving", .resources = {{"both", 1}}, .max_restarts = -1});
  wait_for(fixed.call<&Counter::add>(1));
  const std::string before = wait_for(moving.call<&Counter::node>());
  say("moving " + before);
  say("ready");
  const auto begin = std::chrono::steady_clock::now();
  try {
    for (;;) {
      wait_for(fixed.call<&Counter::add>(1));
      ::usleep(1000);
    }
  } catch (const pharos::ActorDied& e) {
    say(std::string{"ActorDied: "} + e.what());
  }
  for (;;) {
    try {
      const bool restarted = wait_for(moving.call<&Counter::restarted>());
      const bool moved = wait_for(moving.call<&Counter::node>()) != before;
      if (moved) {
        say(restarted ? "moved" : "moved without knowing");
        break;
      }
    } catch (const pharos::ActorDied&) {  // what was under way
    }
    if (std::chrono::steady_clock::now() - begin > 20s) break;
  }
}

/// A call that is not over before the test drains b, of an actor that may run nowhere else.
void run_fixed(pharos::Runtime& runtime) {
  const auto b = wait_for(runtime.submit<&node_id>({.resources = {{"b", 1}}}));
  const auto fixed = runtime.spawn<Counter>({.name = "fixed", .node = b});
  say("b is " + to_string(b));
  wait_for(fixed.call<&Counter::add>(1));
  const auto call = fixed.call<&Counter::stay>(60);
  say("ready");
  try {
    wait_for(call);
  } catch (const pharos::ActorDied& e) {
    say(std::string{"under way: "} + e.what());
  }
  try {
    wait_for(fixed.call<&Counter::add>(1));
  } catch (const pharos::ActorDied& e) {
    say(std::string{"later: "} + e.what());
  }
}

/// An actor that is found by others, until the file is there.
void run_has_actor(pharos::Runtime& runtime, const std::string& file) {
  const auto ours = runtime.spawn<Counter>({.name = "ours", .name_space = "all"});
  wait_for(ours.call<&Counter::add>(1));
  say("ready");
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(10ms);
  say("it goes on: " + std::to_string(wait_for(ours.call<&Counter::add>(1))));
}
/// Another program's.
void run_ends_others_actor(pharos::Runtime& runtime, bool gently) {
  const auto others = runtime.actor<Counter>("ours", "all");
  gently ? others.stop() : others.kill();
}

/// Connections break at both ends while two callers write.
void run_cuts(pharos::Runtime& runtime, std::uint64_t seed) {
  constexpr int kCalls = 20'000;
  const auto sequence = runtime.spawn<Sequence>({.resources = {{"c", 1}}});
  const auto on_b = runtime.spawn<Writer>({.resources = {{"b", 1}}});
  const std::string head = std::getenv("PHAROS_ADDRESS");
  const int heads_port = std::atoi(head.substr(head.rfind(':') + 1).c_str());
  wait_for(sequence.call<&Sequence::cut_until_told>(seed));
  const auto other = on_b.call<&Writer::write>(sequence, 2, kCalls);
  int cuts = 0;
  int wrong = 0;
  {
    const Cutter cutter{seed + 1, heads_port};
    wrong = write_all(sequence, 1, kCalls);
    cuts = cutter.cuts();
  }
  wrong += other.get(pharos::Deadline::in(60s));
  cuts += wait_for(sequence.call<&Sequence::stop_cutting>());
  wrong += wait_for(sequence.call<&Sequence::wrong>());
  say(cuts < 20 ? "only " + std::to_string(cuts) + " cuts" : "cut often");
  say("last " + std::to_string(wait_for(sequence.call<&Sequence::last>(1))) + " and " +
      std::to_string(wait_for(sequence.call<&Sequence::last>(2))));
  say(std::to_string(wrong) + " wrong");
}

/// Waits for an actor or a task on "c", or for a CPU of any node when three are taken. What for, SIGQUIT tells.
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

void say_whether(const std::string& what, bool right) {
  say(what + (right ? ": yes" : ": no"));
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

/// On nodes with the labels zone=b and zone=c,disk=ssd.
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
  say_whether("near", node_with({.near = c}) == c && wait_for(runtime.submit<&node_id>({.near = b})) == b);
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

/// The test kills the node of its only bundle.
void run_group_loss(pharos::Runtime& runtime) {
  const auto group = runtime.reserve({.bundles = {{.resources = {{"both", 1}}}}});
  const pharos::ActorOptions in_group{
      .resources = {{"both", 1}}, .group = group, .max_restarts = -1, .max_task_retries = 3};
  const auto actor = runtime.spawn<Counter>(in_group);
  const std::string before = wait_for(actor.call<&Counter::node>());
  say("ready");
  std::string now = before;
  while (now == before) now = wait_for(actor.call<&Counter::node>());
  say_whether("it moved with its bundle", wait_for(actor.call<&Counter::restarted>()));
}

/// Some have what others wait for, until the test ends it.
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

/// Something of each kind, on all nodes.
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

void run_quiet(pharos::Runtime& runtime) {
  const auto counter = runtime.spawn<Counter>();
  wait_for(counter.call<&Counter::add>(1));
  say("ready");
  for (;;) {
    wait_for(counter.call<&Counter::add>(1));
    ::usleep(10'000);
  }
}

/// The head's disk is filled once `full` is there, and empty again once `room` is.
void run_full_disk(pharos::Runtime& runtime, const std::string& full, const std::string& room,
                   const std::string& restarted) {
  const auto wait_until = [](const std::string& file) {
    while (!std::filesystem::exists(file)) std::this_thread::sleep_for(10ms);
  };
  const auto counter = runtime.spawn<Counter>({.name = "counter", .resources = {{"b", 1}}});
  auto other = runtime.spawn<Counter>({.name = "other", .resources = {{"b", 1}}});
  wait_for(other.call<&Counter::add>(1));
  say("before: " + std::to_string(wait_for(counter.call<&Counter::add>(5))));
  wait_until(full);
  try {
    wait_for(runtime.spawn<Counter>().call<&Counter::add>(1));
    say("not refused");
  } catch (const std::exception& e) {
    say(std::string{"refused: "} + e.what());
  }
  say("calls go on: " + std::to_string(wait_for(counter.call<&Counter::add>(1))));
  other.kill();
  try {
    wait_for(other.call<&Counter::add>(1));
  } catch (const pharos::ActorDied&) {
    say("killed while full");
  }
  wait_until(room);
  const auto late = runtime.spawn<Counter>({.name = "late", .resources = {{"b", 1}}});
  say("after: " + std::to_string(wait_for(late.call<&Counter::add>(7))));
  wait_until(restarted);
  static_cast<void>(runtime.actor<Counter>("late"));
  say("still there: " + std::to_string(wait_for(late.call<&Counter::add>(1))));
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    if (mode == "actors") run_actors(runtime);
    if (mode == "large") run_large(runtime);
    if (mode == "stop") run_stop(runtime);
    if (mode == "gpu") run_gpu(runtime);
    if (mode == "tasks") run_tasks(runtime);
    if (mode == "leaves_detached") run_leaves_detached(runtime, argv[2] != nullptr);
    if (mode == "finds_detached") run_finds_detached(runtime);
    if (mode == "ends_detached") run_ends_detached(runtime);
    if (mode == "load") run_load(runtime, argv[2]);
    if (mode == "drained") run_drained(runtime, argv[2]);
    if (mode == "exclusive") run_exclusive(runtime);
    if (mode == "overflow") run_overflow(runtime, std::stoi(argv[2]), argv[3]);
    if (mode == "nearest") run_nearest(runtime);
    if (mode == "loss") run_loss(runtime);
    if (mode == "fixed") run_fixed(runtime);
    if (mode == "has_actor") run_has_actor(runtime, argv[2]);
    if (mode == "kills_others_actor") run_ends_others_actor(runtime, false);
    if (mode == "stops_others_actor") run_ends_others_actor(runtime, true);
    if (mode == "full_disk") run_full_disk(runtime, argv[2], argv[3], argv[4]);
    if (mode == "cuts") run_cuts(runtime, std::stoull(argv[2]));
    if (mode == "crowd") run_crowd(runtime);
    if (mode == "owner") run_owner(runtime);
    if (mode == "quiet") run_quiet(runtime);
    if (mode == "placed") run_placed(runtime);
    if (mode == "groups") run_groups(runtime);
    if (mode == "group_loss") run_group_loss(runtime);
    if (mode == "waits") run_waits(runtime, argv[2]);
  });
}
