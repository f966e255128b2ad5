// Programs that share a cluster:
// `flood COUNT MILLISECONDS` submits COUNT tasks that take so long each. It prints "floods" when the first task has
// ended, and at the end how many milliseconds all took.
// `short COUNT` runs tasks of 1 ms one after the other, and prints the longest time of one in milliseconds.
// `actors COUNT` does the same with actors that need a CPU.
// `beside COUNT MILLISECONDS` makes COUNT actors that do nothing, and then two floods.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using pharos::cluster::say;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Sleeps instead of computing, because the test machine may have fewer CPUs than the cluster claims.
int hold(std::int64_t milliseconds) {
  ::usleep(static_cast<useconds_t>(milliseconds * 1000));
  return 1;
}

class Seat {
 public:
  int sit() const { return 1; }
};

std::string milliseconds_since(Clock::time_point begin) {
  return std::to_string((Clock::now() - begin) / 1ms);
}

void flood(pharos::Runtime& runtime, int count, std::int64_t milliseconds) {
  const auto begin = Clock::now();
  std::vector<pharos::Ref<int>> all;
  for (int i = 0; i < count; ++i) all.push_back(runtime.submit<&hold>(milliseconds));
  all.front().get();
  say("floods");
  for (auto& each : all) each.get();
  say(milliseconds_since(begin));
}

/// Prints the longest time of `count` calls. The pause between two calls makes each call begin at another moment within
/// the tasks of the flood.
template <class One>
void measure(int count, const One& one) {
  Clock::duration longest{};
  for (int i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    one();
    longest = std::max(longest, Clock::now() - begin);
    hold(37);
  }
  say(std::to_string(longest / 1ms));
}

}  // namespace

int main(int count, char** words) {
  return pharos::cluster::report([&] {
    const std::string mode = words[1];
    const int times = std::atoi(words[2]);
    const std::int64_t milliseconds = count > 3 ? std::atoi(words[3]) : 0;
    pharos::Runtime runtime;
    if (mode == "flood") {
      flood(runtime, times, milliseconds);
    } else if (mode == "short") {
      measure(times, [&] { runtime.submit<&hold>(std::int64_t{1}).get(); });
    } else if (mode == "actors") {
      measure(times, [&] { runtime.spawn<Seat>({.cpus = 1}).call<&Seat::sit>().get(); });
    } else {
      std::vector<pharos::Actor<Seat>> idle;
      for (int i = 0; i < times; ++i) idle.push_back(runtime.spawn<Seat>());
      for (const auto& each : idle) each.call<&Seat::sit>().get();
      flood(runtime, 16, 20);  // afterwards each node has received the program
      flood(runtime, 160, milliseconds);
    }
  });
}
