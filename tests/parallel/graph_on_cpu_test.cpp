#include <gtest/gtest.h>

#include <pharos/ml/graph.hpp>

namespace pharos::ml {
namespace {

TEST(GraphsOnTheCpu, CallTheFunction) {
  int calls = 0;
  Graph graph{at::kCPU, [&] { ++calls; }};
  EXPECT_EQ(calls, 0);
  graph.run();
  graph.run();
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace pharos::ml
