// A program that runs while tests kill the head: `without_head MODE [FOLDER]`. It prints lines that tests look for, and
// "done" at its end. After an exception it prints "TYPE: message" and ends with status 1.

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using namespace std::chrono_literals;
using pharos::cluster::say;

constexpr const char* kNameSpace = "without head";

template <class T>
T wait_for(const pharos::Ref<T>& ref) {
  return ref.get(pharos::Deadline::in(60s));
}

std::string now_in_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

/// The process id and the incarnation of the actor that calls this function.
std::string who() {
  return std::to_string(::getpid()) + ' ' + std::to_string(pharos::context().incarnation);
}

/// Two of these actors call each other at the same time.
class Peer {
 public:
  std::string self() const { return who(); }
  /// Calls the other actor until the file exists. Writes a line to `sink` for each call that was answered: when it was
  /// made, when it was answered, and by which process and incarnation. Returns the number of calls.
  pharos::Async<int> call_until(pharos::Actor<Peer> other, std::string sink, std::string file) {
    std::ofstream lines{sink};
    int calls = 0;
    while (!std::filesystem::exists(file)) {
      const std::string made = now_in_ms();
      const std::string answer = co_await other.call<&Peer::self>({.deadline = pharos::Deadline::in(10s)});
      lines << made << ' ' << now_in_ms() << ' ' << answer << std::endl;
      ++calls;
      const auto slept = co_await pharos::async::sleep(10ms);  // limits the rate
      if (!slept) break;
    }
    co_return calls;
  }
};

void say_who(const std::string& name, const pharos::Actor<Peer>& peer) {
  say(name + " is " + wait_for(peer.call<&Peer::self>()));
}

/// Has an actor on "b" and one on "c", which call each other. Each node has room for one more actor, which is made
/// after the head has been restarted.
void run_each_other(pharos::Runtime& runtime, const std::string& folder) {
  const auto spawn_on = [&](const std::string& name, const std::string& resource) {
    const pharos::ActorOptions options{
        .name = name, .name_space = kNameSpace, .resources = {{resource, 1}}, .max_restarts = -1};
    const auto peer = runtime.spawn<Peer>(options);
    say_who(name, peer);
    return peer;
  };
  const auto on_b = spawn_on("on b", "b");
  const auto on_c = spawn_on("on c", "c");
  const auto from_b = on_b.call<&Peer::call_until>(on_c, folder + "/from b", folder + "/stop");
  const auto from_c = on_c.call<&Peer::call_until>(on_b, folder + "/from c", folder + "/stop");
  say("ready");
  while (!std::filesystem::exists(folder + "/restarted")) std::this_thread::sleep_for(10ms);
  spawn_on("new on b", "b");
  spawn_on("new on c", "c");
  for (const std::string name : {"on b", "on c"}) say_who(name, runtime.actor<Peer>(name, kNameSpace));
  say("placed");
  const int calls = wait_for(from_b) + wait_for(from_c);
  say(std::to_string(calls) + " calls");
}

/// Has a child actor, which lives as long as the parent.
class Parent {
 public:
  Parent()
      : child_{pharos::Runtime{}.spawn<Peer>(
            {.name = "child", .name_space = kNameSpace, .resources = {{"c", 1}}, .max_restarts = -1})} {}
  std::string self() const { return who(); }
  std::string childs_self() const { return wait_for(child_.call<&Peer::self>()); }

 private:
  pharos::Actor<Peer> child_;
};

void say_family(const pharos::Actor<Parent>& parent, const pharos::Actor<Peer>& child) {
  say("parent is " + wait_for(parent.call<&Parent::self>()));
  say("its child is " + wait_for(parent.call<&Parent::childs_self>()));
  say_who("child", child);
}
void run_leaves_family(pharos::Runtime& runtime) {
  const pharos::ActorOptions detached{
      .name = "parent", .name_space = kNameSpace, .resources = {{"b", 1}}, .max_restarts = -1, .detached = true};
  const auto parent = runtime.spawn<Parent>(detached);
  wait_for(parent.call<&Parent::childs_self>());
  say_family(parent, runtime.actor<Peer>("child", kNameSpace));
}
void run_finds_family(pharos::Runtime& runtime) {
  say_family(runtime.actor<Parent>("parent", kNameSpace), runtime.actor<Peer>("child", kNameSpace));
}
void run_ends_family(pharos::Runtime& runtime) {
  runtime.actor<Parent>("parent", kNameSpace).stop();
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    if (mode == "each_other") run_each_other(runtime, argv[2]);
    if (mode == "leaves_family") run_leaves_family(runtime);
    if (mode == "finds_family") run_finds_family(runtime);
    if (mode == "ends_family") run_ends_family(runtime);
  });
}
