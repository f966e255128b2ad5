#include "counting.hpp"

#include <gtest/gtest.h>

#include <pharos/testing/testing.hpp>

TEST(Counting, ActorsOfALibraryRunInASimulatedCluster) {
  pharos::testing::Cluster cluster{1};
  cluster.run([](pharos::Runtime& runtime) { EXPECT_EQ(runtime.spawn<Counter>(10).call<&Counter::add>(5).get(), 15); });
}
