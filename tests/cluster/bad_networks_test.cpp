// Networks that lose packets, delay them, or carry little.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "nodes_apart.hpp"
#include "seed.hpp"

namespace pharos::cluster::bad_networks {
namespace {

using namespace std::chrono_literals;

constexpr auto kTime = 12s;  // longer than the time after which a silent node is given up

class BadNetworksTest : public NodesApart {
 protected:
  void begin() {
    start_head_at(false);
    start_node_at(kB, "cpu=1,b=1");
    start_node_at(kC, "cpu=1,c=1");
    program_ = start_far(UNDER_FAULTS, {"steady", file("stop"), "4096"});
    read_until(*program_, "ready");
  }
  void TearDown() override {
    program_.reset();
    NodesApart::TearDown();
  }

  // Every packet crosses the filter of its place once. The share is random, so it may differ by a third.
  void expect_lost(double share) const {
    const auto count = network_->count_lost();
    std::printf("%llu of %llu packets were dropped\n", static_cast<unsigned long long>(count.dropped),
                static_cast<unsigned long long>(count.sent));
    ASSERT_GT(count.sent, 1000U);
    EXPECT_NEAR(static_cast<double>(count.dropped) / static_cast<double>(count.sent), share, share / 3);
  }

  std::unique_ptr<ChildProgram> program_;
};

TEST_F(BadNetworksTest, WhereOnePacketOfAHundredIsLostNobodyIsGivenUp) {
  must_end_within(120s);
  begin();
  network_->lose(0.01);
  std::this_thread::sleep_for(kTime);  // the time during which packets are lost
  expect_lost(0.01);
  expect_steady(*program_);
}

TEST_F(BadNetworksTest, WhereOneOfTenIsLostResultsAreRight) {
  must_end_within(120s);
  begin();
  network_->lose(0.1);
  std::this_thread::sleep_for(kTime);
  expect_lost(0.1);
  network_->heal();
  expect_steady(*program_);
}

TEST_F(BadNetworksTest, AMegabitASecondIsEnoughToStay) {
  must_end_within(120s);
  begin();
  network_->bound(kB, "1mbit");
  std::this_thread::sleep_for(kTime);
  const auto count = network_->count_bound(kB);
  std::printf("%llu packets, held up %llu times\n", static_cast<unsigned long long>(count.sent),
              static_cast<unsigned long long>(count.delayed));
  EXPECT_GT(count.delayed, 100U) << "the limit has held nothing up";
  expect_steady(*program_);
}

class SlowNetworksTest : public BadNetworksTest {
 protected:
  Network::Delay delay() const override {
    return {.wire = SLOW_WIRE,
            .middle = 50ms,
            .jitter = 25ms,
            .seed = static_cast<std::uint32_t>(seed_of_test())};  // a packet crosses two wires
  }
};

TEST_F(SlowNetworksTest, WherePacketsTakeATenthOfASecondAndOvertakeResultsAreRightAndNobodyIsGivenUp) {
  must_end_within(180s);
  const auto since = std::chrono::steady_clock::now();
  begin();
  EXPECT_GT(std::chrono::steady_clock::now() - since, 500ms) << "the network is not slow";
  std::this_thread::sleep_for(kTime);
  const auto carried = network_->count_carried();
  std::printf("%llu packets, %llu of them overtaken, %lld ms each\n", static_cast<unsigned long long>(carried.packets),
              static_cast<unsigned long long>(carried.overtaken), static_cast<long long>(carried.mean.count()));
  EXPECT_GT(carried.packets, 100U);
  EXPECT_GT(carried.overtaken, 0U);
  EXPECT_GE(carried.mean, 45ms);
  EXPECT_LE(carried.mean, 100ms);
  expect_steady(*program_);
}

}  // namespace
}  // namespace pharos::cluster::bad_networks
