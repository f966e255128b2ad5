// Measures tasks and actors on an embedded cluster, with the same work as the benchmarks of the peers.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <pharos/pharos.hpp>
#include <pharos/process/descendants.hpp>

#include "figures.hpp"
#include "one_cpu.hpp"

namespace bench {
namespace {

int nop(int x) {
  return x;
}

class Counter {
 public:
  explicit Counter(int start) : count_{start} {}
  int add(int n) { return count_ += n; }
  int pid() { return ::getpid(); }

 private:
  int count_;
};

template <class T>
void get_all(const std::vector<pharos::Ref<T>>& refs) {
  for (const auto& ref : refs) ref.get();
}

std::set<pid_t> processes_below() {
  const auto found = pharos::process::descendants();
  return {found.begin(), found.end()};
}

/// Returns the sum of the lines of smaps_rollup that begin with one of these names, in MiB.
double memory_mib(pid_t pid, std::initializer_list<const char*> names) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/smaps_rollup"};
  double kib = 0;
  for (std::string line; std::getline(file, line);) {
    for (const char* const name : names) {
      if (line.starts_with(name)) kib += std::strtod(line.c_str() + std::string_view{name}.size(), nullptr);
    }
  }
  return kib / 1024;
}

double cpu_seconds(pid_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  const std::size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return 0;
  std::istringstream fields{text.substr(after_name + 2)};
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double cpu_seconds_of_cluster() {
  double sum = cpu_seconds(::getpid());
  for (const pid_t pid : processes_below()) sum += cpu_seconds(pid);
  return sum;
}

/// Returns the instructions of one call, driver and worker together: the difference between a run with many calls and a
/// run with few calls, both under callgrind, for each call. Returns nullopt if valgrind cannot run this program.
///
/// All processes share one CPU. On two CPUs the count moves by a tenth from run to run, although each call does the
/// same work: a waiting thread polls its epoll set (Reactor::spin), and how often it polls depends on the speed of the
/// other process; and the driver's background thread sometimes reads a reply in place of the waiting thread, which it
/// then wakes. On one CPU the other process cannot run during a spin, so each wait is one or two system calls.
std::optional<double> call_instructions() {
  namespace fs = std::filesystem;
  const OneCpu one_cpu;
  std::string folder = fs::temp_directory_path() / "pharos-callgrind-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return std::nullopt;
  const std::string self = fs::read_symlink("/proc/self/exe");
  const auto count = [&](int calls) -> double {
    const std::string command = "cd " + folder + " && rm -f out.* && valgrind --tool=callgrind --trace-children=yes " +
                                "--callgrind-out-file=out.%p " + self + " counted-calls " + std::to_string(calls) +
                                " > log 2>&1";
    if (std::system(command.c_str()) != 0) return -1;
    // Only the two processes with the most instructions count: the driver and the worker. callgrind counts another
    // process only if that process has ended before it is killed.
    std::vector<double> sums;
    for (const auto& entry : fs::directory_iterator{folder}) {
      if (!entry.path().filename().string().starts_with("out.")) continue;
      std::ifstream file{entry.path()};
      for (std::string line; std::getline(file, line);) {
        if (line.starts_with("summary:") || line.starts_with("totals:")) {
          sums.push_back(std::strtod(line.c_str() + line.find(':') + 1, nullptr));
          break;
        }
      }
    }
    if (sums.size() < 2) return -1;
    std::sort(sums.begin(), sums.end(), std::greater<>{});
    return sums[0] + sums[1];
  };
  constexpr int kFew = 1000;
  constexpr int kMany = 11'000;
  std::vector<double> each;
  for (int round = 0; round < 3; ++round) {
    const double few = count(kFew);
    const double many = count(kMany);
    if (few > 0 && many > few) each.push_back((many - few) / (kMany - kFew));
  }
  fs::remove_all(folder);
  if (each.empty()) return std::nullopt;
  return median(each);
}

void measure_start_and_stop(Report& report, int argc, char** argv) {
  std::vector<double> init;
  std::vector<double> first_task;
  std::vector<double> shutdown;
  for (int round = 0; round < 11; ++round) {
    auto start = Clock::now();
    std::optional<pharos::Runtime> runtime{std::in_place, argc, argv};
    init.push_back(seconds_since(start));
    start = Clock::now();
    runtime->submit<&nop>(1).get();
    first_task.push_back(seconds_since(start));
    start = Clock::now();
    runtime.reset();
    shutdown.push_back(seconds_since(start));
  }
  report.add("init", median(init), "s");
  report.add("first_task", median(first_task), "s");
  report.add("shutdown", median(shutdown), "s");
}

void measure_tasks(Report& report, pharos::Runtime& runtime) {
  for (int i = 0; i < 200; ++i) runtime.submit<&nop>(i).get();
  report.add("task_sync_median", median_us(5000, [&] { runtime.submit<&nop>(1).get(); }), "us");
  if (!report.wants("tasks_async")) return;
  constexpr int kTasks = 200'000;
  std::vector<double> rates;
  for (int round = 0; round < 5; ++round) {
    std::vector<pharos::Ref<int>> refs;
    refs.reserve(kTasks);
    const auto start = Clock::now();
    for (int i = 0; i < kTasks; ++i) refs.push_back(runtime.submit<&nop>(i));
    get_all(refs);
    rates.push_back(kTasks / seconds_since(start));
  }
  report.add("tasks_async", median(rates), "/s");
}

void measure_actor_creation(Report& report, pharos::Runtime& runtime) {
  if (report.wants("actor_create_first_call")) {
    std::vector<double> times;
    for (int i = 0; i < 21; ++i) {
      const auto start = Clock::now();
      const auto actor = runtime.spawn<Counter>(0);
      actor.call<&Counter::add>(1).get();
      times.push_back(seconds_since(start));
    }
    report.add("actor_create_first_call", median(times), "s");
  }
  const auto create = [&](int count) {
    const auto start = Clock::now();
    std::vector<pharos::Actor<Counter>> actors;
    std::vector<pharos::Ref<int>> refs;
    for (int i = 0; i < count; ++i) actors.push_back(runtime.spawn<Counter>(0));
    for (const auto& actor : actors) refs.push_back(actor.call<&Counter::add>(1));
    get_all(refs);
    return seconds_since(start);
  };
  if (report.wants("actors_created_8")) {
    std::vector<double> times;
    for (int round = 0; round < 5; ++round) times.push_back(create(8));
    report.add("actors_created_8", median(times), "s");
  }
  if (report.wants("process_actors_per_s")) {
    std::vector<double> rates;
    for (int round = 0; round < 3; ++round) rates.push_back(100 / create(100));
    report.add("process_actors_per_s", median(rates), "/s");
  }
}

void measure_actor_calls(Report& report, pharos::Runtime& runtime) {
  const auto actor = runtime.spawn<Counter>(0);
  for (int i = 0; i < 200; ++i) actor.call<&Counter::add>(1).get();
  report.add("actor_call_sync_median", median_us(20000, [&] { actor.call<&Counter::add>(1).get(); }), "us");
  if (report.wants_any({"actor_calls_async_1_1", "one_way_calls_per_s"})) {
    constexpr int kCalls = 500'000;
    std::vector<double> rates;
    std::vector<double> one_way;
    for (int round = 0; round < 5; ++round) {
      {
        std::vector<pharos::Ref<int>> refs;
        refs.reserve(kCalls);
        const auto start = Clock::now();
        for (int i = 0; i < kCalls; ++i) refs.push_back(actor.call<&Counter::add>(1));
        get_all(refs);
        rates.push_back(kCalls / seconds_since(start));
      }
      const auto start = Clock::now();
      for (int i = 0; i < kCalls; ++i) actor.send<&Counter::add>(1);
      actor.call<&Counter::add>(1).get();
      one_way.push_back(kCalls / seconds_since(start));
    }
    report.add("actor_calls_async_1_1", median(rates), "/s");
    report.add("one_way_calls_per_s", median(one_way), "/s");
  }
  if (report.wants("actor_private_mib")) {
    const pid_t pid = actor.call<&Counter::pid>().get();
    report.add("actor_private_mib", memory_mib(pid, {"Private_Clean:", "Private_Dirty:"}), "MiB");
  }
  if (!report.wants("actor_calls_async_1_8")) return;
  constexpr int kActors = 8;
  constexpr int kCalls = 50'000;
  std::vector<pharos::Actor<Counter>> actors;
  for (int i = 0; i < kActors; ++i) actors.push_back(runtime.spawn<Counter>(0));
  for (const auto& each : actors) each.call<&Counter::add>(1).get();
  std::vector<double> rates;
  for (int round = 0; round < 5; ++round) {
    std::vector<pharos::Ref<int>> refs;
    refs.reserve(kActors * kCalls);
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      for (const auto& each : actors) refs.push_back(each.call<&Counter::add>(1));
    }
    get_all(refs);
    rates.push_back(kActors * kCalls / seconds_since(start));
  }
  report.add("actor_calls_async_1_8", median(rates), "/s");
}

/// From the calls to the list of their results.
void measure_list(Report& report, pharos::Runtime& runtime) {
  const auto actor = runtime.spawn<Counter>(0);
  const auto get_list = [&] {
    std::vector<pharos::Ref<int>> refs;
    for (int i = 0; i < 1000; ++i) refs.push_back(actor.call<&Counter::add>(1));
    pharos::get(refs);
  };
  get_list();
  report.add("get_1000_refs_us", median_us(500, get_list), "us");
}

constexpr int kCallsUnderWay = 1000;

/// Takes so many items, each by a call of its own.
int take_each(const pharos::Queue<int>& queue, int count) {
  int sum = 0;
  for (int taken = 0; taken < count; taken += kCallsUnderWay) {
    std::vector<pharos::Ref<int>> gets;
    for (int i = 0; i < kCallsUnderWay; ++i) gets.push_back(queue.get());
    for (const int item : pharos::get(gets)) sum += item;
  }
  return sum;
}
int take_lists(const pharos::Queue<int>& queue, int count) {
  int taken = 0;
  while (taken < count) taken += static_cast<int>(queue.get_some(100).get().size());
  return taken;
}

/// From the driver, through the queue's process, to a task: items each second. `put` puts the item with this number, or
/// the list of which it is the last, and returns nullopt otherwise.
template <class Put>
double queue_rate(pharos::Runtime& runtime, int items, int (*consume)(const pharos::Queue<int>&, int), const Put& put) {
  const auto queue = pharos::Queue<int>::make(runtime, {.capacity = 10'000});
  const auto consumer =
      consume == &take_each ? runtime.submit<&take_each>(queue, items) : runtime.submit<&take_lists>(queue, items);
  std::vector<pharos::Ref<void>> puts;
  const auto start = Clock::now();
  for (int i = 0; i < items; ++i) {
    if (auto ref = put(queue, i)) puts.push_back(*std::move(ref));
    if (puts.size() < kCallsUnderWay) continue;
    pharos::get(puts);
    puts.clear();
  }
  consumer.get();
  return items / seconds_since(start);
}

void measure_queue(Report& report, pharos::Runtime& runtime) {
  constexpr int kRounds = 5;
  constexpr int kItems = 300'000;
  constexpr int kBatch = 100;
  std::vector<double> one_by_one;
  std::vector<double> in_lists;
  for (int round = 0; round < kRounds; ++round) {
    one_by_one.push_back(
        queue_rate(runtime, kItems, &take_each, [](const auto& queue, int i) { return std::optional{queue.put(i)}; }));
    std::vector<int> list;
    in_lists.push_back(queue_rate(runtime, 10 * kItems, &take_lists, [&](const auto& queue, int i) {
      list.push_back(i);
      if (list.size() < kBatch) return std::optional<pharos::Ref<void>>{};
      return std::optional{queue.put_all(std::exchange(list, {}))};
    }));
  }
  report.add("queue_items_per_s", median(one_by_one), "/s");
  report.add("queue_items_per_s_batch_100", median(in_lists), "/s");
}

void measure_call_all(Report& report, pharos::Runtime& runtime) {
  const auto group = runtime.spawn_group<Counter>({.size = 8}, 0);
  group.ready().get();
  report.add("call_all_8_median", median_us(5000, [&] { get_all(group.call_all<&Counter::add>(1)); }), "us");
}

void measure_idle(Report& report, int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};
  if (report.wants("cluster_pss_mib")) {
    double pss = 0;
    for (const pid_t pid : processes_below()) pss += memory_mib(pid, {"Pss:"});
    report.add("cluster_pss_mib", pss, "MiB");
  }
  if (report.wants("idle_cpu_percent")) {
    constexpr auto kTime = std::chrono::seconds{10};
    const double before = cpu_seconds_of_cluster();
    std::this_thread::sleep_for(kTime);
    const double used = cpu_seconds_of_cluster() - before;
    report.add("idle_cpu_percent", 100 * used / std::chrono::duration<double>(kTime).count(), "%");
  }
}

}  // namespace

int run_counted_calls(int argc, char** argv, int calls) {
  pharos::Runtime runtime{argc, argv};
  const auto actor = runtime.spawn<Counter>(0);
  for (int i = 0; i < calls; ++i) actor.call<&Counter::add>(1).get();
  return 0;
}

void measure_core(Report& report, int argc, char** argv) {
  if (report.wants_any({"init", "first_task", "shutdown"})) measure_start_and_stop(report, argc, argv);
  if (report.wants_any({"cluster_pss_mib", "idle_cpu_percent"})) measure_idle(report, argc, argv);
  {
    pharos::Runtime runtime{argc, argv};
    if (report.wants_any({"task_sync_median", "tasks_async"})) measure_tasks(report, runtime);
    measure_actor_creation(report, runtime);
    if (report.wants_any({"actor_call_sync_median", "actor_calls_async_1_1", "one_way_calls_per_s",
                          "actor_calls_async_1_8", "actor_private_mib"})) {
      measure_actor_calls(report, runtime);
    }
    if (report.wants("call_all_8_median")) measure_call_all(report, runtime);
    if (report.wants("get_1000_refs_us")) measure_list(report, runtime);
    if (report.wants_any({"queue_items_per_s", "queue_items_per_s_batch_100"})) measure_queue(report, runtime);
  }
  if (report.wants("call_instructions")) {
    if (const auto instructions = call_instructions()) {
      report.add("call_instructions", *instructions, "instructions");
    } else {
      std::fprintf(stderr, "call_instructions is left out: valgrind could not run this program\n");
    }
  }
}

}  // namespace bench
