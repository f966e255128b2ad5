#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "machines.hpp"
#include "simulator/cluster.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

int add(int a, int b) {
  return a + b;
}

class Counter {
 public:
  explicit Counter(int start) : count_{start} {}
  int add(int n) { return count_ += n; }

 private:
  int count_;
};

TEST(Kernel, AProgramRunsTasksAndActors) {
  Cluster cluster{7, {.machines = machines({2})}};
  int sum = 0;
  int count = 0;
  cluster.start_driver("driver", 0, [&](Runtime& runtime) {
    sum = runtime.submit<&add>(1, 2).get();
    const auto counter = runtime.spawn<Counter>(10);
    for (int i = 0; i < 100; ++i) static_cast<void>(counter.call<&Counter::add>(1));
    count = counter.call<&Counter::add>(sum).get();
  });
  EXPECT_TRUE(cluster.run_until([&] { return cluster.all_drivers_ended(); }, 60s));
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(count, 113);
}

}  // namespace
}  // namespace pharos::simulator
