// Measures the figures of `pharos-bench core` with Ray's C++ API. Ray needs this file twice, as a program and as a
// library that its workers load. `benchmarks/compare` builds and runs both.
//
// usage: ray_core JSON_FILE LIBRARY [OPTION_OF_RAY_START…]

#include <ray/api.h>

#include <cstdio>
#include <string>
#include <vector>

#include "figures.hpp"

namespace {

using bench::Clock;
using bench::median;
using bench::median_us;
using bench::Report;
using bench::seconds_since;

int nop(int x) {
  return x;
}

class Counter {
 public:
  static Counter* create() { return new Counter; }
  int add(int n) { return count_ += n; }
  int length(std::string bytes) { return static_cast<int>(bytes.size()); }

 private:
  int count_ = 0;
};

}  // namespace

RAY_REMOTE(nop, Counter::create, &Counter::add, &Counter::length);

namespace {

/// Asks for one CPU, as Ray's Python API does by default. Ray runs more such tasks in a second than tasks that ask for
/// no CPU.
ray::ObjectRef<int> submit_nop(int x) {
  return ray::Task(nop).SetResource("CPU", 1.0).Remote(x);
}

/// Returns the median rate of three rounds, each with `count` pieces of work.
template <class Work>
double median_rate(int count, Work work) {
  std::vector<double> rates;
  for (int round = 0; round < 3; ++round) {
    const auto start = Clock::now();
    work();
    rates.push_back(count / seconds_since(start));
  }
  return median(rates);
}

void measure_tasks(Report& report) {
  auto start = Clock::now();
  submit_nop(1).Get();
  report.add("first_task", seconds_since(start), "s");
  for (int i = 0; i < 200; ++i) submit_nop(i).Get();
  report.add("task_sync_median", median_us(1000, [] { submit_nop(1).Get(); }), "us");
  constexpr int kTasks = 5000;
  const double rate = median_rate(kTasks, [] {
    std::vector<ray::ObjectRef<int>> refs;
    refs.reserve(kTasks);
    for (int i = 0; i < kTasks; ++i) refs.push_back(submit_nop(i));
    ray::Get(refs);
  });
  report.add("tasks_async", rate, "/s");
}

void measure_wait(Report& report) {
  constexpr int kRefs = 1000;
  const double rate = median_rate(1, [] {
    std::vector<ray::ObjectRef<int>> left;
    left.reserve(kRefs);
    for (int i = 0; i < kRefs; ++i) left.push_back(submit_nop(i));
    while (!left.empty()) {
      const auto result = ray::Wait(left, 1, 60'000);
      left.assign(result.unready.begin(), result.unready.end());
    }
  });
  report.add("wait_1k_refs", rate, "loops/s");
}

void measure_one_actor(Report& report) {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    auto actor = ray::Actor(Counter::create).Remote();
    actor.Task(&Counter::add).Remote(1).Get();
    times.push_back(seconds_since(start));
    actor.Kill();
  }
  report.add("actor_create_first_call", median(times), "s");

  auto actor = ray::Actor(Counter::create).Remote();
  for (int i = 0; i < 200; ++i) actor.Task(&Counter::add).Remote(1).Get();
  const double call = median_us(2000, [&] { actor.Task(&Counter::add).Remote(1).Get(); });
  report.add("actor_call_sync_median", call, "us");
  constexpr int kCalls = 10'000;
  const double rate = median_rate(kCalls, [&] {
    std::vector<ray::ObjectRef<int>> refs;
    refs.reserve(kCalls);
    for (int i = 0; i < kCalls; ++i) refs.push_back(actor.Task(&Counter::add).Remote(1));
    ray::Get(refs);
  });
  report.add("actor_calls_async_1_1", rate, "/s");
  const std::string mebibyte(1 << 20, 'x');
  for (int i = 0; i < 10; ++i) actor.Task(&Counter::length).Remote(mebibyte).Get();
  const double large = median_us(200, [&] { actor.Task(&Counter::length).Remote(mebibyte).Get(); });
  report.add("actor_call_1MiB_arg_median", large, "us");
  actor.Kill();
}

void measure_eight_actors(Report& report) {
  constexpr int kActors = 8;
  constexpr int kCalls = 1500;
  const auto start = Clock::now();
  std::vector<ray::ActorHandle<Counter>> actors;
  std::vector<ray::ObjectRef<int>> first;
  for (int i = 0; i < kActors; ++i) actors.push_back(ray::Actor(Counter::create).Remote());
  for (auto& actor : actors) first.push_back(actor.Task(&Counter::add).Remote(1));
  ray::Get(first);
  report.add("actors_created_8", seconds_since(start), "s");
  const double rate = median_rate(kActors * kCalls, [&] {
    std::vector<ray::ObjectRef<int>> refs;
    refs.reserve(kActors * kCalls);
    for (int i = 0; i < kCalls; ++i) {
      for (auto& actor : actors) refs.push_back(actor.Task(&Counter::add).Remote(1));
    }
    ray::Get(refs);
  });
  report.add("actor_calls_async_1_8", rate, "/s");
  for (auto& actor : actors) actor.Kill();
}

void measure_objects(Report& report) {
  constexpr int kSmall = 2000;
  std::vector<double> puts;
  std::vector<double> gets;
  for (int round = 0; round < 3; ++round) {
    std::vector<ray::ObjectRef<int>> refs;
    refs.reserve(kSmall);
    auto start = Clock::now();
    for (int i = 0; i < kSmall; ++i) {
      // Copies the reference. A move drops Ray's reference before it takes the new one, and Ray then deletes the
      // object.
      const auto ref = ray::Put(i);
      refs.push_back(ref);
    }
    puts.push_back(kSmall / seconds_since(start));
    start = Clock::now();
    for (const auto& ref : refs) ray::Get(ref, 10'000);
    gets.push_back(kSmall / seconds_since(start));
  }
  report.add("puts_small", median(puts), "/s");
  report.add("gets_small", median(gets), "/s");

  constexpr int kMib = 64;
  const std::string bytes(kMib << 20, 'x');
  std::vector<double> put_rates;
  std::vector<double> get_times;
  for (int round = 0; round < 7; ++round) {
    auto start = Clock::now();
    const auto ref = ray::Put(bytes);
    put_rates.push_back(kMib / 1024.0 / seconds_since(start));
    start = Clock::now();
    ray::Get(ref, 10'000);
    get_times.push_back(seconds_since(start) * 1e6);
  }
  report.add("put_64MiB", median(put_rates), "GiB/s");
  report.add("get_64MiB_us", median(get_times), "us");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: ray_core JSON_FILE LIBRARY [OPTION_OF_RAY_START…]\n");
    return 2;
  }
  const std::string json = argv[1];
  Report report{""};
  const auto start = Clock::now();
  ray::RayConfig config;
  config.code_search_path = {argv[2]};
  config.head_args.assign(argv + 3, argv + argc);
  ray::Init(config);
  report.add("init", seconds_since(start), "s");
  // Writes the file after each part, so that the figures are not lost if a later part never ends.
  for (const auto measure : {measure_tasks, measure_one_actor, measure_eight_actors, measure_wait, measure_objects}) {
    measure(report);
    if (!report.write_json(json)) return 1;
  }
  const auto stop = Clock::now();
  ray::Shutdown();
  report.add("shutdown", seconds_since(stop), "s");
  return report.write_json(json) ? 0 : 1;
}
