// Runs all tests once without delays, and then with random delays of each stream: once for each seed up to
// PHAROS_DEVICE_SEEDS (5). At the end of each test the streams are drained, and no access may have been unordered.

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <string>

#include "devices.hpp"

namespace pharos::simulated {
namespace {

constexpr std::chrono::microseconds kLongestDelay{200};

class InManyOrders final : public testing::EmptyTestEventListener {
  void OnTestIterationStart(const testing::UnitTest&, int iteration) override {
    const bool delays = iteration != 0;
    std::printf("streams %s\n",
                delays ? ("delay their work by seed " + std::to_string(iteration)).c_str() : "do not delay");
    streams().set_delays(static_cast<std::uint64_t>(iteration), delays ? kLongestDelay : kLongestDelay.zero());
  }
  void OnTestEnd(const testing::TestInfo&) override {
    try {
      streams().synchronize();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "a kernel failed: " << error.what();
    }
    for (const std::string& each : order().take_reports()) ADD_FAILURE() << each;
  }
};

int seeds() {
  const char* const given = std::getenv("PHAROS_DEVICE_SEEDS");
  return given == nullptr ? 5 : std::atoi(given);
}

}  // namespace
}  // namespace pharos::simulated

int main(int argc, char** argv) {
  GTEST_FLAG_SET(repeat, pharos::simulated::seeds() + 1);
  testing::InitGoogleTest(&argc, argv);
  // The threads of streams keep the number of threads that there was when they began, and sums depend on it.
  torch::set_num_threads(1);
  testing::UnitTest::GetInstance()->listeners().Append(new pharos::simulated::InManyOrders);
  return RUN_ALL_TESTS();
}
