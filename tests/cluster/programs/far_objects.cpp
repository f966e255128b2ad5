// A program that tests run against a cluster of the head and the nodes "b" and "c": `far_objects MODE FILE`. It sends
// large values from node to node. It prints lines that tests look for, and "done" at its end. After an exception it
// prints "TYPE: message" and ends with status 1.

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using namespace std::chrono_literals;
using pharos::Bytes;
using pharos::Ref;
using pharos::cluster::say;

constexpr std::size_t kMib = std::size_t{1} << 20;

/// Makes a block of 64-bit words, each of which is `number` plus the word's offset.
Bytes block(std::size_t size, std::uint64_t number) {
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at + sizeof number <= size; at += sizeof number) {
    const std::uint64_t word = number + at;
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  return Bytes{std::move(bytes)};
}
bool holds(const Bytes& bytes, std::size_t size, std::uint64_t number) {
  if (bytes.size() != size) return false;
  for (std::size_t at = 0; at + sizeof number <= size; at += sizeof number) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if (word != number + at) return false;
  }
  return true;
}

class Keeper {
 public:
  void keep(const Bytes& bytes) { kept_ = bytes; }
  void keep_refs(const std::vector<Ref<Bytes>>& refs) { refs_ = refs; }
  bool right(std::size_t size, std::uint64_t number) { return holds(kept_, size, number); }
  bool refs_right(std::size_t size, std::uint64_t number) {
    for (const auto& ref : refs_) {
      if (!holds(ref.get(), size, number++)) return false;
    }
    return true;
  }
  bool check(const Bytes& bytes, std::size_t size, std::uint64_t number) { return holds(bytes, size, number); }
  Bytes make(std::size_t size, std::uint64_t number) { return block(size, number); }
  std::vector<Ref<Bytes>> refs() { return refs_; }
  bool pass_to(const pharos::Actor<Keeper>& other, std::size_t size, std::uint64_t number) {
    return other.call<&Keeper::check>(refs_.front(), size, number).get();
  }
  void wait_until_there(const std::string& file) {
    while (!std::filesystem::exists(file)) std::this_thread::sleep_for(5ms);
  }
  void drop() {
    kept_ = {};
    refs_.clear();
  }
  int process() { return ::getpid(); }

 private:
  Bytes kept_;
  std::vector<Ref<Bytes>> refs_;
};

Bytes make_block(std::size_t size, std::uint64_t number) {
  return block(size, number);
}
/// Returns the block whose words are greater by one. Returns empty bytes if `bytes` is not the block of `number`.
Bytes next_block(const Bytes& bytes, std::uint64_t number) {
  return holds(bytes, bytes.size(), number) ? block(bytes.size(), number + 1) : Bytes{};
}

pharos::ActorOptions on(const char* resource) {
  return {.name = resource, .resources = {{resource, 1}}};
}

/// Waits until the file exists or, if `there` is false, until it does not.
void wait_for(const std::filesystem::path& file, bool there = true) {
  while (std::filesystem::exists(file) != there) std::this_thread::sleep_for(5ms);
}

void run_keep(pharos::Runtime& runtime, const std::filesystem::path& go) {
  constexpr std::size_t kSize = 24 * kMib + 8;
  const auto b = runtime.spawn<Keeper>(on("b"));
  const auto c = runtime.spawn<Keeper>(on("c"));
  {
    const auto one = runtime.put(block(kSize, 1));
    b.call<&Keeper::keep>(one).get();
    c.call<&Keeper::keep>(one.slice(0, kSize)).get();
  }
  say(std::string{"values outlive their Refs: "} +
      (b.call<&Keeper::right>(kSize, 1U).get() && c.call<&Keeper::right>(kSize, 1U).get() ? "yes" : "no"));
  {
    std::vector<Ref<Bytes>> two{runtime.put(block(kSize, 2)), runtime.put(block(kSize, 3))};
    b.call<&Keeper::keep_refs>(two).get();
  }
  say(std::string{"so do Refs: "} + (b.call<&Keeper::refs_right>(kSize, 2U).get() ? "yes" : "no"));
  say(std::string{"b passed one to c: "} + (b.call<&Keeper::pass_to>(c, kSize, 2U).get() ? "yes" : "no"));
  const auto back = b.call<&Keeper::refs>().get();
  say(std::string{"and came back: "} + (holds(back[1].get(), kSize, 3) ? "yes" : "no"));

  const auto made = c.call<&Keeper::make>(kSize, 4U);
  static_cast<void>(pharos::wait(std::vector{made}));
  say("made on c");
  wait_for(go);
  say(std::string{"b reads it: "} + (b.call<&Keeper::check>(made, kSize, 4U).get() ? "yes" : "no"));
  say(std::string{"here, too: "} + (holds(made.get(), kSize, 4) ? "yes" : "no"));
  for (const auto& each : {b, c}) each.call<&Keeper::drop>().get();
  say("dropped");
  wait_for(go, false);
  say("waits again");
  wait_for(go);
}

// Two nodes read the same value at the same time.
void run_chain(pharos::Runtime& runtime) {
  constexpr std::size_t kSize = 64 * kMib;
  const auto b = runtime.spawn<Keeper>(on("b"));
  const auto c = runtime.spawn<Keeper>(on("c"));
  for (std::uint64_t round = 0; round < 8; ++round) {
    const auto value = runtime.put(block(kSize, round));
    const std::vector<Ref<bool>> all{b.call<&Keeper::check>(value, kSize, round),
                                     c.call<&Keeper::check>(value, kSize, round)};
    for (const auto& each : all) say(each.get() ? "right" : "wrong");
  }
}

// Makes values on the node with "both" and waits until the test, which kills that node, makes the file `go`. Lost
// values are then made again by retries of their tasks, if the tasks allow retries.
void run_lost(pharos::Runtime& runtime, const std::filesystem::path& go) {
  constexpr std::size_t kSize = 8 * kMib;
  const pharos::TaskOptions again{.resources = {{"both", 1}}, .max_retries = 3};
  const auto first = runtime.submit<&make_block>(again, kSize, std::uint64_t{1});
  const auto second = runtime.submit<&next_block>(again, first, std::uint64_t{1});
  const auto third = runtime.submit<&next_block>(again, second, std::uint64_t{2});
  const auto only_once = runtime.submit<&make_block>({.resources = {{"both", 1}}}, kSize, std::uint64_t{9});
  static_cast<void>(pharos::wait(std::vector{third, only_once}, {.count = 2}));
  say("ready");
  wait_for(go);
  say(std::string{"made again: "} + (holds(third.get(), kSize, 3) ? "yes" : "no"));
  const auto fourth = runtime.submit<&next_block>(again, second, std::uint64_t{2});
  say(std::string{"and for another: "} + (holds(fourth.get(), kSize, 3) ? "yes" : "no"));
  try {
    static_cast<void>(only_once.get());
  } catch (const pharos::ObjectLost& e) {
    say(std::string{"ObjectLost: "} + e.what());
  }
}

// Sends one value from the program to c, and one back.
void run_once(pharos::Runtime& runtime) {
  constexpr std::size_t kSize = 16 * kMib;
  const auto c = runtime.spawn<Keeper>(on("c"));
  const auto value = runtime.put(block(kSize, 5));
  say(std::string{"there: "} + (c.call<&Keeper::check>(value, kSize, 5U).get() ? "right" : "wrong"));
  say(std::string{"back: "} + (holds(c.call<&Keeper::make>(kSize, 6U).get(), kSize, 6) ? "right" : "wrong"));
}

// The argument of the second call arrives while the first call runs.
void run_ahead(pharos::Runtime& runtime, const std::filesystem::path& go) {
  constexpr std::size_t kSize = 16 * kMib;
  const auto c = runtime.spawn<Keeper>(on("c"));
  const auto value = runtime.put(block(kSize, 8));
  const auto again = runtime.put(block(kSize, 9));
  // After this call the actor has already used the store of its node.
  static_cast<void>(c.call<&Keeper::check>(value, kSize, 8U).get());
  const auto first = c.call<&Keeper::wait_until_there>(go.string());
  const auto second = c.call<&Keeper::check>(again, kSize, 9U);
  say("called");
  first.get();
  say(std::string{"checked: "} + (second.get() ? "right" : "wrong"));
}

// The node c reads a large value of b, while the test breaks the connection to b.
void run_cut(pharos::Runtime& runtime) {
  constexpr std::size_t kSize = 64 * kMib;
  const auto b = runtime.spawn<Keeper>(on("b"));
  const auto c = runtime.spawn<Keeper>(on("c"));
  const auto made = b.call<&Keeper::make>(kSize, 7U);
  static_cast<void>(pharos::wait(std::vector{made}));
  const auto checked = c.call<&Keeper::check>(made, kSize, 7U);
  say("pulling");
  say(std::string{"pulled: "} + (checked.get() ? "right" : "wrong"));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    if (mode == "keep") run_keep(runtime, argv[2]);
    if (mode == "chain") run_chain(runtime);
    if (mode == "lost") run_lost(runtime, argv[2]);
    if (mode == "once") run_once(runtime);
    if (mode == "ahead") run_ahead(runtime, argv[2]);
    if (mode == "cut") run_cut(runtime);
  });
}
