// Modes of far_driver: calls of actors, their handles, and actors that outlive their program.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "far_driver.hpp"

using namespace std::chrono_literals;

namespace {

/// Its destructor takes 200 ms and then prints a line, so that tests see whether it ran to its end.
class Testator {
 public:
  ~Testator() {
    ::usleep(200'000);
    std::cout << "last words on " << where() << std::endl;
  }
  std::string node() { return where(); }
};

/// Calls another actor from inside an actor.
class Caller {
 public:
  int call(pharos::Actor<Counter> counter, int amount) { return wait_for(counter.call<&Counter::add>(amount)); }
  std::string node() { return where(); }
  pharos::Actor<Counter> make() { return pharos::Runtime{}.spawn<Counter>(); }
  std::vector<pharos::Ref<int>> ask(pharos::Actor<Counter> counter) {
    return {counter.call<&Counter::add>(1), counter.call<&Counter::add>(1)};
  }
};

/// Breaks the TCP connections of this process, except those whose peer has the port `but_to`.
void cut_connections(int but_to = 0) {
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sin_family != AF_INET) continue;
    if (ntohs(peer.sin_port) != but_to) ::shutdown(fd, SHUT_RDWR);
  }
}
/// Calls cut_connections() at random moments, in a thread of its own, until it is destroyed.
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

/// Counts the calls that are repeated, missing or out of order, for each caller separately.
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

/// Makes `calls` calls and returns how many results were wrong.
int write_all(const pharos::Actor<Sequence>& sequence, int caller, int calls) {
  std::vector<pharos::Ref<int>> results;
  for (int number = 1; number <= calls; ++number) {
    results.push_back(sequence.call<&Sequence::take>(caller, number));
    // Waiting now and then lets connections also break while few calls are in flight.
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

/// Makes actors for others.
class Maker {
 public:
  pharos::Actor<Counter> make() { return pharos::Runtime{}.spawn<Counter>({.resources = {{"c", 0.25}}}); }
  std::string node() { return where(); }
};

/// Holds a handle of another actor.
class Keeper {
 public:
  void keep(pharos::Actor<Counter> counter) { counter_ = counter; }
  int ask(int amount) { return wait_for(counter_->call<&Counter::add>(amount)); }
  std::string meet(pharos::Actor<Maker> maker) {
    maker_ = std::move(maker);
    return wait_for(maker_->call<&Maker::node>());
  }
  void have_one_made() { counter_ = wait_for(maker_->call<&Maker::make>()); }

 private:
  std::optional<pharos::Actor<Counter>> counter_;
  std::optional<pharos::Actor<Maker>> maker_;
};

std::string reversed(const std::string& text) {
  return {text.rbegin(), text.rend()};
}

}  // namespace

/// Needs a node with the resource "b" and one with "c".
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
  // The results that the actor on b has asked for, and the actor that it has made, outlive it.
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
    // The argument and the result are larger than what is sent inline on one machine.
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

/// An actor on b receives two handles while the node of b stands still, which begins when the file "stands" exists: one
/// in an argument and one in a result.
void run_hands_over(pharos::Runtime& runtime, const std::string& folder) {
  const auto keeper = runtime.spawn<Keeper>({.resources = {{"b", 1}}});
  const auto maker = runtime.spawn<Maker>({.resources = {{"c", 0.5}}});
  wait_for(keeper.call<&Keeper::meet>(maker));
  std::optional given = runtime.spawn<Counter>({.resources = {{"c", 0.25}}});
  wait_for(given->call<&Counter::add>(5));
  say("connected");
  while (!std::filesystem::exists(folder + "/stands")) std::this_thread::sleep_for(10ms);
  const auto kept = keeper.call<&Keeper::keep>(*given);
  given.reset();
  say("handed over");
  wait_for(kept);
  say("given: " + std::to_string(wait_for(keeper.call<&Keeper::ask>(2))));
  say("again");
  while (std::filesystem::exists(folder + "/stands")) std::this_thread::sleep_for(10ms);
  const auto made = keeper.call<&Keeper::have_one_made>();
  say("handed over");
  wait_for(made);
  say("made: " + std::to_string(wait_for(keeper.call<&Keeper::ask>(3))));
}

void run_stop(pharos::Runtime& runtime) {
  for (const char* const resource : {"b", "c"}) {
    static std::vector<pharos::Actor<Testator>> kept;  // so that the handles outlive the Runtime
    kept.push_back(runtime.spawn<Testator>({.resources = {{resource, 1}}, .max_restarts = -1}));
    say(std::string{resource} + " is " + wait_for(kept.back().call<&Testator::node>()));
  }
}

/// The detached actor "stays" outlives the program, and so does the actor whose handle it holds. An actor whose handle
/// only the program holds does not.
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

/// Has an actor that other programs find by its name, until the file exists.
void run_has_actor(pharos::Runtime& runtime, const std::string& file) {
  const auto ours = runtime.spawn<Counter>({.name = "ours", .name_space = "all"});
  wait_for(ours.call<&Counter::add>(1));
  say("ready");
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(10ms);
  say("it goes on: " + std::to_string(wait_for(ours.call<&Counter::add>(1))));
}
/// Ends the actor of another program that runs in the mode has_actor.
void run_ends_others_actor(pharos::Runtime& runtime, bool gently) {
  const auto others = runtime.actor<Counter>("ours", "all");
  gently ? others.stop() : others.kill();
}

/// Breaks connections at both ends, the program's and the callee's, while two callers make calls.
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
