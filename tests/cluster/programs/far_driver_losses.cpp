// Modes of far_driver in which tests drain, stop or kill nodes, the head or this program, or fill a disk.

#include <unistd.h>

#include <chrono>
#include <deque>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

#include "far_driver.hpp"

using namespace std::chrono_literals;

namespace {

/// Runs until the file exists.
int stay_until(std::string file, int number) {
  while (!std::filesystem::exists(file)) ::usleep(1000);
  return number + 1;
}

}  // namespace

/// Keeps sixteen tasks submitted, and waits for them in order, until the file exists.
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

/// Has one counter on b that may move and one that may not, and tasks that run until the test has begun to drain b.
void run_drained(pharos::Runtime& runtime, const std::string& go) {
  // Calls of this actor may not be repeated (max_task_retries is 0), and still no call is lost.
  const auto moving = runtime.spawn<Counter>({.resources = {{"both", 0.5}}, .max_restarts = 1});
  const auto fixed = runtime.spawn<Counter>({.resources = {{"b", 0.5}}});
  const std::string b = wait_for(fixed.call<&Counter::node>());
  say("b is " + b);
  say(std::string{"moving is on b: "} + (wait_for(moving.call<&Counter::node>()) == b ? "yes" : "no"));
  std::vector<pharos::Ref<int>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(runtime.submit<&stay_until>({.resources = {{"both", 0.2}}}, go, i));
  say("ready");
  while (!std::filesystem::exists(go)) ::usleep(1000);
  for (bool moved = false; !moved;) {
    std::vector<pharos::Ref<std::string>> nodes;
    for (int i = 0; i < 50; ++i) nodes.push_back(moving.call<&Counter::node>());
    for (const auto& node : nodes) moved = wait_for(node) != b;
  }
  say("it moved");
  say("what is fixed goes on: " + std::to_string(wait_for(fixed.call<&Counter::add>(1))));
  int ended = 0;
  for (const auto& task : tasks) ended += wait_for(task);
  say("tasks ended: " + std::to_string(ended));
  fixed.kill();
}

/// Keeps two values that were made on b, as does an actor on c, and reads them when the test has drained b.
void run_objects(pharos::Runtime& runtime, const std::string& go) {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  const auto shelf = runtime.spawn<Shelf>({.resources = {{"c", 0.5}}});
  say("b is " + to_string(wait_for(runtime.submit<&node_id>({.resources = {{"b", 0.5}}}))));
  std::vector<pharos::Ref<pharos::Bytes>> made;
  for (int i = 0; i < 2; ++i) {
    made.push_back(runtime.submit<&many_bytes>({.resources = {{"b", 0.5}}, .max_retries = 0}, kBytes));
    wait_for(shelf.call<&Shelf::keep>(made.back()));
  }
  say("ready");
  while (!std::filesystem::exists(go)) ::usleep(1000);
  for (const auto& each : made) say_whether("the driver has it", wait_for(each).size() == kBytes);
  try {
    say_whether("c has them", wait_for(shelf.call<&Shelf::read>()) == 2 * kBytes);
  } catch (const pharos::ActorDied&) {
    say("c is gone");
  }
}

/// Has an actor that may run only on b, and a call of it that still runs when the test drains b.
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

/// Has an exclusive actor, whose node the test stops, and waits until it runs on another node.
void run_exclusive(pharos::Runtime& runtime) {
  const auto alone = runtime.spawn<Counter>({.resources = {{"both", 1}}, .max_restarts = -1, .exclusive = true});
  const std::string before = wait_for(alone.call<&Counter::node>());
  say("process " + std::to_string(wait_for(alone.call<&Counter::process>())));
  say("ready");
  for (;;) {
    try {
      if (wait_for(alone.call<&Counter::node>()) != before) break;
    } catch (const pharos::ActorDied&) {  // the call was in flight
    }
    ::usleep(10'000);
  }
  say("it is elsewhere");
}

/// Has an actor that cannot run on another node and one that can. The test kills their node.
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
    } catch (const pharos::ActorDied&) {  // the call was in flight
    }
    if (std::chrono::steady_clock::now() - begin > 20s) break;
  }
}

/// Has a group with one bundle. The test kills the node of that bundle.
void run_group_loss(pharos::Runtime& runtime) {
  const auto group = runtime.reserve({.bundles = {{.resources = {{"both", 1}}}}});
  const pharos::ActorOptions in_group{
      .resources = {{"both", 0.5}}, .group = group, .max_restarts = -1, .max_task_retries = 3};
  const pharos::TaskOptions task_in_group{.cpus = 0, .resources = {{"both", 0.5}}, .group = group, .max_retries = -1};
  const auto actor = runtime.spawn<Counter>(in_group);
  const std::string before = wait_for(actor.call<&Counter::node>());
  const auto where_tasks_run = [&] { return wait_for(runtime.submit<&node_of_task>(task_in_group)); };
  say_whether("a task is there, too", where_tasks_run() == before);
  say("ready");
  std::string now = before;
  while (now == before) now = wait_for(actor.call<&Counter::node>());
  say_whether("it moved with its bundle", wait_for(actor.call<&Counter::restarted>()));
  say_whether("and so do tasks", where_tasks_run() == now);
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

/// The test fills the head's disk and then makes the file `full`; it empties the disk and makes `room`; it restarts the
/// head and makes `restarted`.
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
