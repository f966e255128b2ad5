// A tour of Pharos: tasks and actors on a cluster inside this program, with the time of each step.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

namespace {

// ---- Plain functions and classes, which run in worker processes.

int add(int a, int b) {
  return a + b;
}

/// Returns how many of `points` random points lie in the quarter circle.
std::uint64_t points_inside(std::uint64_t seed, std::uint64_t points) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  const auto coordinate = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<double>(state >> 11) * 0x1.0p-53;
  };
  std::uint64_t inside = 0;
  for (std::uint64_t i = 0; i < points; ++i) {
    const double x = coordinate();
    const double y = coordinate();
    if (x * x + y * y < 1) ++inside;
  }
  return inside;
}

class Counter {
 public:
  explicit Counter(int start) : count_{start} {}
  int add(int n) { return count_ += n; }
  int divide(int by) {
    if (by == 0) throw std::invalid_argument{"by zero"};
    return count_ /= by;
  }

 private:
  int count_;
};

class Greeter {
 public:
  explicit Greeter(std::string greeting) : greeting_{std::move(greeting)} {}
  void greet(const std::string& name) { std::cout << greeting_ << ", " << name << '!' << std::endl; }

 private:
  std::string greeting_;
};

// ---- The tour.

class Tour {
 public:
  /// Runs one step, and prints its result and its time.
  void step(const std::string& name, const std::function<std::string()>& work) {
    const auto start = std::chrono::steady_clock::now();
    const std::string shown = work();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::printf("%2d  %-42s %9.2f ms  %s\n", ++number_, name.c_str(), ms, shown.c_str());
    std::fflush(stdout);
  }

 private:
  int number_ = 0;
};

std::string per_second(int count, double seconds) {
  return std::to_string(std::lround(count / seconds)) + " a second";
}

std::string estimate_pi(pharos::Runtime& runtime) {
  constexpr std::uint64_t kTasks = 64;
  constexpr std::uint64_t kPoints = 200'000;
  std::vector<pharos::Ref<std::uint64_t>> counts;
  for (std::uint64_t seed = 1; seed <= kTasks; ++seed) counts.push_back(runtime.submit<&points_inside>(seed, kPoints));
  std::uint64_t inside = 0;
  for (const auto& count : counts) inside += count.get();
  return "pi is about " + std::to_string(4.0 * static_cast<double>(inside) / (kTasks * kPoints));
}

std::string call_many(const pharos::Actor<Counter>& counter) {
  constexpr int kCalls = 200'000;
  const auto start = std::chrono::steady_clock::now();
  std::vector<pharos::Ref<int>> results;
  results.reserve(kCalls);
  for (int i = 0; i < kCalls; ++i) results.push_back(counter.call<&Counter::add>(1));
  const int last = results.back().get();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return "counted to " + std::to_string(last) + ", " + per_second(kCalls, seconds);
}

std::string call_one_by_one(const pharos::Actor<Counter>& counter) {
  constexpr int kCalls = 2'000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) counter.call<&Counter::add>(1).get();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::to_string(seconds * 1e6 / kCalls).substr(0, 4) + " us each, there and back";
}

std::string spawn_many(pharos::Runtime& runtime) {
  constexpr int kActors = 16;
  std::vector<pharos::Actor<Counter>> actors;
  for (int i = 0; i < kActors; ++i) actors.push_back(runtime.spawn<Counter>(i));
  std::vector<pharos::Ref<int>> results;
  for (const auto& actor : actors) results.push_back(actor.call<&Counter::add>(100));
  int sum = 0;
  for (const auto& result : results) sum += result.get();
  return std::to_string(kActors) + " processes answered, sum " + std::to_string(sum);
}

void run(int argc, char** argv) {
  Tour tour;
  std::optional<pharos::Runtime> runtime;
  std::optional<pharos::Actor<Counter>> counter;
  std::puts("Pharos: a tour of tasks and actors");
  tour.step("start a cluster inside this program", [&] {
    runtime.emplace(argc, argv);
    return std::string{"keeper, node and zygote are up"};
  });
  tour.step("run a function in another process",
            [&] { return "2 + 3 = " + std::to_string(runtime->submit<&add>(2, 3).get()); });
  tour.step("64 tasks on all CPUs", [&] { return estimate_pi(*runtime); });
  tour.step("an actor: an object in a process of its own", [&] {
    counter = runtime->spawn<Counter>(pharos::ActorOptions{.name = "counter"}, 10);
    return "10 + 3 = " + std::to_string(counter->call<&Counter::add>(3).get());
  });
  tour.step("calls to it, one at a time", [&] { return call_one_by_one(*counter); });
  tour.step("200 000 calls in a row", [&] { return call_many(*counter); });
  tour.step("16 actors at once", [&] { return spawn_many(*runtime); });
  tour.step("what a method throws", [&]() -> std::string {
    try {
      counter->call<&Counter::divide>(0).get();
      return "nothing was thrown, which is wrong";
    } catch (const pharos::UserError& error) {
      return error.what();
    }
  });
  tour.step("an actor that is killed", [&]() -> std::string {
    counter->kill();
    try {
      counter->call<&Counter::add>(1).get();
      return "it still answers, which is wrong";
    } catch (const pharos::ActorDied& error) {
      return error.what();
    }
  });
  tour.step("what workers print comes here", [&] {
    const auto greeter = runtime->spawn<Greeter>(pharos::ActorOptions{.name = "greeter"}, "Hello");
    greeter.call<&Greeter::greet>("world").get();
    return std::string{"(the line may come a moment later)"};
  });
  tour.step("stop: nothing is left behind", [&] {
    counter.reset();
    runtime.reset();
    return std::string{"workers, zygote, node and keeper have ended"};
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "\npharos-tour: %s\n", error.what());
    return 1;
  }
}
