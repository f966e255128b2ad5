#pragma once

// The helpers that the modes of far_driver share, and one function for each mode.

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

using pharos::cluster::say;

template <class T>
T wait_for(const pharos::Ref<T>& ref) {
  return ref.get(pharos::Deadline::after(std::chrono::seconds{20}, std::chrono::steady_clock::now()));
}

inline std::string where() {
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

class Holder {
 public:
  explicit Holder(std::string text) : text_{std::move(text)} {}
  int size() { return static_cast<int>(text_.size()); }
  std::size_t measure(const pharos::Bytes& bytes) { return bytes.size(); }

 private:
  std::string text_;
};

/// Keeps values without reading them.
class Shelf {
 public:
  void keep(pharos::Ref<pharos::Bytes> value) { values_.push_back(std::move(value)); }
  std::size_t read() {
    std::size_t bytes = 0;
    for (const auto& value : values_) bytes += value.get().size();
    return bytes;
  }

 private:
  std::vector<pharos::Ref<pharos::Bytes>> values_;
};

inline pharos::NodeId node_id() {
  return pharos::context().node;
}
inline std::string node_of_task() {
  return where();
}
inline int twice(int value) {
  return 2 * value;
}
inline pharos::Bytes many_bytes(std::size_t size) {
  return pharos::Bytes{std::string(size, 'a')};
}

inline void say_whether(const std::string& what, bool right) {
  say(what + (right ? ": yes" : ": no"));
}

// In far_driver_actors.cpp: calls of actors, their handles, and actors that outlive their program.
void run_actors(pharos::Runtime& runtime);
void run_hands_over(pharos::Runtime& runtime, const std::string& folder);
void run_large(pharos::Runtime& runtime);
void run_stop(pharos::Runtime& runtime);
void run_leaves_detached(pharos::Runtime& runtime, bool dies);
void run_finds_detached(pharos::Runtime& runtime);
void run_ends_detached(pharos::Runtime& runtime);
void run_has_actor(pharos::Runtime& runtime, const std::string& file);
void run_ends_others_actor(pharos::Runtime& runtime, bool gently);
void run_cuts(pharos::Runtime& runtime, std::uint64_t seed);

// In far_driver_places.cpp: on which nodes actors, tasks and groups run, which resources they get, and what waits.
void run_gpu(pharos::Runtime& runtime);
void run_tasks(pharos::Runtime& runtime);
void run_overflow(pharos::Runtime& runtime, int nodes, const std::string& folder);
void run_nearest(pharos::Runtime& runtime);
void run_placed(pharos::Runtime& runtime);
void run_groups(pharos::Runtime& runtime);
void run_wants_node(pharos::Runtime& runtime);
void run_waits(pharos::Runtime& runtime, const std::string& what);
void run_crowd(pharos::Runtime& runtime);
void run_owner(pharos::Runtime& runtime);

// In far_driver_losses.cpp: while these run, the test drains, stops or kills nodes, the head or this program, or fills
// a disk.
void run_load(pharos::Runtime& runtime, const std::string& file);
void run_drained(pharos::Runtime& runtime, const std::string& go);
void run_objects(pharos::Runtime& runtime, const std::string& go);
void run_fixed(pharos::Runtime& runtime);
void run_exclusive(pharos::Runtime& runtime);
void run_loss(pharos::Runtime& runtime);
void run_group_loss(pharos::Runtime& runtime);
void run_quiet(pharos::Runtime& runtime);
void run_full_disk(pharos::Runtime& runtime, const std::string& full, const std::string& room,
                   const std::string& restarted);
