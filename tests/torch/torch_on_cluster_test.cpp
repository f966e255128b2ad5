// Programs that link libtorch: driver, zygote and workers all load it.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <vector>

#include <pharos/pharos.hpp>

#include "child_program.hpp"
#include "cluster_test.hpp"

namespace pharos::cluster::torch {
namespace {

using namespace std::chrono_literals;

// The product is large enough that libtorch computes it with all its threads.
double sum_of_product(int size) {
  const at::Tensor ones = at::ones({size, size});
  return at::matmul(ones, ones).sum().item<double>();
}

class Accumulator {
 public:
  double add(double value) {
    sum_ += value;
    return sum_.sum().item<double>();
  }

 private:
  at::Tensor sum_ = at::zeros({10, 10});
};

Deadline soon() {
  return Deadline::in(20s);
}

std::chrono::milliseconds median(std::vector<std::chrono::milliseconds> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

class TorchOnClusterTest : public ClusterTest {
 protected:
  void SetUp() override {
    // libtorch keeps its threads, so they must exist before the resources of the process are counted.
    EXPECT_EQ(sum_of_product(512), kExpected);
    ClusterTest::SetUp();
  }
  static constexpr double kExpected = 512.0 * 512.0 * 512.0;
};

TEST_F(TorchOnClusterTest, TasksAndActorsComputeInParallelBesideADriverThatDoesToo) {
  Runtime runtime;
  const auto accumulator = runtime.spawn<Accumulator>();
  std::vector<Ref<double>> products;
  for (int i = 0; i < 8; ++i) products.push_back(runtime.submit<&sum_of_product>(512));
  EXPECT_EQ(accumulator.call<&Accumulator::add>(0.5).get(soon()), 50);
  EXPECT_EQ(accumulator.call<&Accumulator::add>(0.5).get(soon()), 100);
  EXPECT_EQ(sum_of_product(512), kExpected);
  for (const auto& product : products) EXPECT_EQ(product.get(soon()), kExpected);
}

// The bound is the time of one load of the program, measured by listing its tests, plus 50 ms.
TEST_F(TorchOnClusterTest, ARuntimeTakesOneLoadOfTheProgramMoreAndAnActorFarLess) {
  std::vector<std::chrono::milliseconds> loads;
  std::vector<std::chrono::milliseconds> starts;
  std::vector<std::chrono::milliseconds> actors;
  for (int i = 0; i < 5; ++i) {
    loads.push_back(time_of([] {
      ChildProgram program{TORCH_ON_CLUSTER, {"--gtest_list_tests"}};
      EXPECT_EQ(program.wait().status, 0);
    }));
    std::optional<Runtime> runtime;
    starts.push_back(time_of([&] { runtime.emplace(); }));
    actors.push_back(
        time_of([&] { EXPECT_EQ(runtime->spawn<Accumulator>().call<&Accumulator::add>(1).get(soon()), 100); }));
  }
  std::cout << "load " << median(loads).count() << " ms, Runtime " << median(starts).count() << " ms, actor "
            << median(actors).count() << " ms" << std::endl;
  EXPECT_LE(median(starts), median(loads) + 50ms);
  EXPECT_LE(median(actors), median(loads) / 2);
}

}  // namespace
}  // namespace pharos::cluster::torch
